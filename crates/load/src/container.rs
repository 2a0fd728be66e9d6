//! The database and the container that are measured in: created before, deleted afterwards.
//!
//! Only what was created here is deleted. The database may exist before; the container may not,
//! since nobody's items shall be lost.

use http::Method;
use partita_http_client::{
    Account, AccountRequest, AccountResponse, Connection, RequestError, encode,
};
use partita_model::{Object, Value};

use super::settings::Settings;

/// How often a request is sent that is throttled.
const ATTEMPTS_MAX: u32 = 50;

/// What was created.
#[derive(Debug, Default)]
pub struct TestContainer {
    is_database_ours: bool,
    is_container_ours: bool,
}

impl TestContainer {
    /// Creates the container, and the database if it is missing.
    pub async fn create(&mut self, account: &Account, settings: &Settings) -> Result<(), String> {
        let mut connection = open(account).await?;
        let (database, container) = (&settings.database, &settings.container);
        let body = Value::from(Object::new().with("id", database.as_str()));
        let request = create("dbs", String::new(), "/dbs".to_owned(), &body);
        match send(account, &mut connection, &request).await? {
            AccountResponse { status: 201, .. } => self.is_database_ours = true,
            AccountResponse { status: 409, .. } => {}
            other => return Err(refused("the database cannot be created", &other, settings)),
        }
        let key = Object::new()
            .with("paths", vec![Value::from("/pk")])
            .with("kind", "Hash")
            .with("version", 2);
        let body =
            Value::from(Object::new().with("id", container.as_str()).with("partitionKey", key));
        let path = format!("/dbs/{}/colls", encode(database));
        let mut request = create("colls", format!("dbs/{database}"), path, &body);
        if let Some(throughput) = settings.throughput {
            request = request.header("x-ms-offer-throughput", throughput.to_string());
        }
        match send(account, &mut connection, &request).await? {
            AccountResponse { status: 201, .. } => self.is_container_ours = true,
            AccountResponse { status: 409, .. } => {
                return Err(format!(
                    "the container {database}/{container} exists already: a benchmark measures in \
                     one of its own, and deletes it. Name another one with --container, or delete \
                     this one if it was left by --keep"
                ));
            }
            other => return Err(refused("the container cannot be created", &other, settings)),
        }
        Ok(())
    }

    /// Deletes what was created.
    pub async fn delete(self, account: &Account, settings: &Settings) -> Result<(), String> {
        let Some((signed_type, link, path)) = self.created(settings) else { return Ok(()) };
        let left = |why: String| format!("{link} was created for this run and still exists: {why}");
        let request = AccountRequest::new(Method::DELETE, signed_type, link.clone(), path);
        let sent = async {
            let mut connection = open(account).await?;
            send(account, &mut connection, &request).await
        };
        match sent.await {
            Ok(AccountResponse { status: 204 | 404, .. }) => Ok(()),
            Ok(response) => Err(left(format!("{} {}", response.status, response.reason()))),
            Err(why) => Err(left(why)),
        }
    }

    /// The outermost resource that was created: its type, link and path.
    fn created(&self, settings: &Settings) -> Option<(&'static str, String, String)> {
        let (link, path) =
            (format!("dbs/{}", settings.database), format!("/dbs/{}", encode(&settings.database)));
        if self.is_database_ours {
            return Some(("dbs", link, path));
        }
        let container = self.is_container_ours.then_some(&settings.container)?;
        let (link, path) =
            (format!("{link}/colls/{container}"), format!("{path}/colls/{}", encode(container)));
        Some(("colls", link, path))
    }
}

fn create(
    signed_type: &'static str,
    signed_link: String,
    path: String,
    body: &Value,
) -> AccountRequest {
    AccountRequest::new(Method::POST, signed_type, signed_link, path)
        .header("content-type", "application/json")
        .body(body.to_json())
}

async fn open(account: &Account) -> Result<Connection, String> {
    account.connect().await.map_err(|error| unreachable(&error, account))
}

/// Sends a request, again if it is throttled.
async fn send(
    account: &Account,
    connection: &mut Connection,
    request: &AccountRequest,
) -> Result<AccountResponse, String> {
    let mut attempts = 1;
    loop {
        let response = account.send(connection, request).await;
        let response = response.map_err(|error| unreachable(&error, account))?;
        match (response.status, response.retry_after) {
            (429, Some(pause)) if attempts < ATTEMPTS_MAX => tokio::time::sleep(pause).await,
            _ => return Ok(response),
        }
        attempts += 1;
    }
}

fn unreachable(error: &RequestError, account: &Account) -> String {
    let endpoint = account.endpoint();
    let is_lost = matches!(error, RequestError::Connection(_));
    let advice = if endpoint.is_https && is_lost {
        "Is there an account, and is its certificate trusted here? --ca-file names one that is; a \
         Partita server speaks plain HTTP on the same port, and has its certificate at \
         /_explorer/emulator.pem"
    } else {
        "Is a server running there? --endpoint says where to ask"
    };
    format!("{}: {error}. {advice}", endpoint.url())
}

/// What the account said, and what can be done.
fn refused(what: &str, response: &AccountResponse, settings: &Settings) -> String {
    let advice = match response.status {
        401 => "Is --key a key of this account, and is this machine's clock right?",
        403 => "A key that may write (--key) is needed, and an account that allows it",
        400 if settings.throughput.is_some() => {
            "Does the account sell what --throughput asks for? A serverless one sells none: leave \
             the flag out"
        }
        429 => "The account is busy: try again later",
        500.. => "The account has trouble of its own: try again later",
        _ => "Does --endpoint name an account of the NoSQL API?",
    };
    let (status, reason) = (response.status, response.reason());
    format!("{what}: {status}, {reason}. {advice}")
}
