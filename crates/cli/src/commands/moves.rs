//! `partita admin split` and `partita admin merge`: partitions are divided and joined on request.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use partita_model::{Clock, Object, Value};

use crate::args::{AdminCommand, MergeArgs, MoveArgs, SplitArgs};
use crate::client::Client;
use crate::container_name::ContainerName;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::response::{rows, text};

/// How often a waiting command looks whether the server is done.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn run(command: &AdminCommand, clock: Arc<dyn Clock>) -> Result<(), Failure> {
    match command {
        AdminCommand::Split(args) => {
            let path = args.container.path(&["partitions", &args.id, "split"]);
            begin(&args.container, &path, &split_body(args), &args.doing, clock)
        }
        AdminCommand::Merge(args) => {
            let path = args.container.path(&["partitions", "merge"]);
            begin(&args.container, &path, &merge_body(args), &args.doing, clock)
        }
    }
}

fn split_body(args: &SplitArgs) -> Value {
    let body = Object::new();
    Value::from(match (&args.at, args.midpoint) {
        (Some(epk), _) => body.with("mode", "epk").with("epk", epk.as_str()),
        (None, true) => body.with("mode", "midpoint"),
        (None, false) => body.with("mode", "storage"),
    })
}

fn merge_body(args: &MergeArgs) -> Value {
    let ids: Vec<Value> = args.ids.iter().map(|id| Value::from(id.as_str())).collect();
    Value::from(Object::new().with("ids", ids))
}

fn begin(
    container: &ContainerName,
    path: &[String],
    body: &Value,
    doing: &MoveArgs,
    clock: Arc<dyn Clock>,
) -> Result<(), Failure> {
    let client = Client::new(&doing.connect, clock)?;
    let planned = client.post(path, body)?;
    let ids = |name| -> Result<Vec<&str>, Failure> {
        Ok(rows(&planned, name)?.iter().filter_map(Value::as_str).collect())
    };
    let (parents, children) = (ids("parents")?, ids("children")?);
    if doing.wait {
        wait(&client, container, &children)?;
    }
    if doing.json {
        print_json(&planned);
    } else {
        let state = if doing.wait { "became" } else { "will become" };
        print(&format!("{} {state} {}\n", parents.join(", "), children.join(", ")));
    }
    Ok(())
}

/// Until the new partitions serve. One that was split again meanwhile is an ancestor of others.
fn wait(client: &Client, container: &ContainerName, children: &[&str]) -> Result<(), Failure> {
    loop {
        let report = client.get(&container.path(&["partitions"]), "top=0")?;
        let mut known = Vec::new();
        for partition in rows(&report, "partitions")? {
            known.push(text(partition, "id")?);
            known.extend(rows(partition, "parents")?.iter().filter_map(Value::as_str));
        }
        if children.iter().all(|child| known.contains(child)) {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}
