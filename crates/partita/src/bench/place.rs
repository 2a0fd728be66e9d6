//! The database and the container that are measured in: made before, removed afterwards.
//!
//! Only what was made here is removed. A database may be there before; a container may not, since
//! what somebody has in it is none of our business.

use bytes::Bytes;
use partita_model::{Object, Value};

use super::account::{Account, Answer, Ask, Connection, Unanswered};
use super::settings::Settings;
use super::tally::Wrong;
use crate::cli::client::encode;
use crate::failure::Failure;

/// How often a request is sent that is refused for being one too many.
const ATTEMPTS_MAX: u32 = 50;

/// What was made.
#[derive(Debug, Default)]
pub(crate) struct Place {
    database: Option<String>,
    container: Option<String>,
}

impl Place {
    /// Makes what is missing.
    pub(crate) async fn make(
        &mut self,
        account: &Account,
        settings: &Settings,
    ) -> Result<(), Failure> {
        let mut connection = open(account, settings).await?;
        let (database, container) = (&settings.database, &settings.container);
        let body = Value::from(Object::new().with("id", database.as_str()));
        let ask = create("dbs", String::new(), "/dbs".to_owned(), &body);
        match send(account, &mut connection, &ask, settings).await? {
            Answer { status: 201, .. } => self.database = Some(database.clone()),
            Answer { status: 409, .. } => {}
            other => return Err(refused("the database cannot be made", &other, settings)),
        }
        let key = Object::new()
            .with("paths", vec![Value::from("/pk")])
            .with("kind", "Hash")
            .with("version", 2);
        let body =
            Value::from(Object::new().with("id", container.as_str()).with("partitionKey", key));
        let path = format!("/dbs/{}/colls", encode(database));
        let mut ask = create("colls", format!("dbs/{database}"), path, &body);
        if let Some(throughput) = settings.throughput {
            ask.headers.push(("x-ms-offer-throughput", throughput.to_string()));
        }
        match send(account, &mut connection, &ask, settings).await? {
            Answer { status: 201, .. } => self.container = Some(container.clone()),
            Answer { status: 409, .. } => {
                return Err(Failure::other(format!(
                    "the container {database}/{container} is there already: a benchmark measures in \
                     one of its own, and deletes it. Name another one with --container, or delete \
                     this one if it was left by --keep"
                )));
            }
            other => return Err(refused("the container cannot be made", &other, settings)),
        }
        Ok(())
    }

    /// Removes what was made.
    pub(crate) async fn remove(
        self,
        account: &Account,
        settings: &Settings,
    ) -> Result<(), Failure> {
        let Some((signed_type, link, path)) = self.removed(settings) else { return Ok(()) };
        let left = |why: String| {
            Failure::other(format!("{link} was made for this run and is still there: {why}"))
        };
        let ask = Ask {
            verb: "DELETE",
            signed_type,
            signed_link: link.clone(),
            path,
            headers: Vec::new(),
            body: Bytes::new(),
        };
        let sent = async {
            let mut connection = open(account, settings).await?;
            send(account, &mut connection, &ask, settings).await
        };
        match sent.await {
            Ok(Answer { status: 204 | 404, .. }) => Ok(()),
            Ok(answer) => Err(left(format!("{} {}", answer.status, answer.reason()))),
            Err(failure) => Err(left(failure.to_string())),
        }
    }

    /// What goes: the database, and everything with it, or only the container.
    fn removed(&self, settings: &Settings) -> Option<(&'static str, String, String)> {
        let (link, path) =
            (format!("dbs/{}", settings.database), format!("/dbs/{}", encode(&settings.database)));
        match (&self.database, &self.container) {
            (Some(_), _) => Some(("dbs", link, path)),
            (None, Some(container)) => Some((
                "colls",
                format!("{link}/colls/{container}"),
                format!("{path}/colls/{}", encode(container)),
            )),
            (None, None) => None,
        }
    }
}

fn create(signed_type: &'static str, signed_link: String, path: String, body: &Value) -> Ask {
    Ask {
        verb: "POST",
        signed_type,
        signed_link,
        path,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_json().into(),
    }
}

async fn open(account: &Account, settings: &Settings) -> Result<Connection, Failure> {
    account.connect().await.map_err(|error| unreachable(&error, settings))
}

/// Sends a request, again if it was one too many.
async fn send(
    account: &Account,
    connection: &mut Connection,
    ask: &Ask,
    settings: &Settings,
) -> Result<Answer, Failure> {
    let mut attempts = 1;
    loop {
        let answer = account.call(connection, ask).await;
        let answer = answer.map_err(|error| unreachable(&error, settings))?;
        match (answer.status, answer.retry_after) {
            (429, Some(pause)) if attempts < ATTEMPTS_MAX => tokio::time::sleep(pause).await,
            _ => return Ok(answer),
        }
        attempts += 1;
    }
}

fn unreachable(error: &Unanswered, settings: &Settings) -> Failure {
    let url = settings.connect.endpoint.url();
    let advice = if settings.connect.endpoint.is_https && error.wrong == Wrong::Connection {
        "Is there an account, and is its certificate trusted here? --ca-file names one that is; a \
         Partita server speaks plain HTTP on the same port, and has its certificate at \
         /_explorer/emulator.pem"
    } else {
        "Is a server running there? --endpoint says where to ask"
    };
    Failure::other(format!("{url}: {}. {advice}", error.why))
}

/// What the account said, and what can be done.
fn refused(what: &str, answer: &Answer, settings: &Settings) -> Failure {
    let advice = match answer.status {
        401 => "Is --key a key of this account, and is this machine's clock right?",
        403 => "It takes a key that may write (--key), and an account that allows it",
        400 if settings.throughput.is_some() => {
            "Does the account sell what --throughput asks for? A serverless one sells none: leave \
             the flag out"
        }
        429 => "The account is busy: try again later",
        500.. => "The account has trouble of its own: try again later",
        _ => "Does --endpoint name an account of the NoSQL API?",
    };
    let (status, reason) = (answer.status, answer.reason());
    Failure::other(format!("{what}: {status}, {reason}. {advice}"))
}
