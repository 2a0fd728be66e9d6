//! The account under test, and the variations in which everything is tested.

use azure_core::credentials::Secret;
use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::models::{
    ContainerProperties, PartitionKeyDefinition, ThroughputProperties,
};
use azure_data_cosmos::options::{BinaryEncodingOptions, CreateContainerOptions};
use azure_data_cosmos::{AccountEndpoint, AccountReference, CosmosClient, RoutingStrategy};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::runtime::Runtime;

const ENDPOINT: &str = "http://localhost:8081/";
const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// How a test runs: in how many partitions, and with which encoding of items.
#[derive(Clone, Copy, Debug)]
pub struct Variation {
    pub partitions: usize,
    pub throughput: u64,
    pub binary: bool,
}

pub const VARIATIONS: [Variation; 4] = [
    Variation { partitions: 1, throughput: 6_000, binary: true },
    Variation { partitions: 1, throughput: 6_000, binary: false },
    Variation { partitions: 5, throughput: 30_000, binary: true },
    Variation { partitions: 5, throughput: 30_000, binary: false },
];

/// Runs a test. All of them share one runtime: the SDK keeps connections for the whole process, and
/// one that a finished test's own runtime served would fail the next test.
pub fn on_one_runtime(test: impl Future<Output = ()>) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime starts"));
    RUNTIME.block_on(test);
}

pub async fn client(binary: bool) -> CosmosClient {
    let endpoint: AccountEndpoint = ENDPOINT.parse().expect("the endpoint is a URL");
    let account = AccountReference::with_authentication_key(endpoint, Secret::from(KEY));
    let encoding = BinaryEncodingOptions::new().with_enabled(binary);
    let builder = CosmosClient::builder().with_binary_encoding_options(encoding);
    let routing = RoutingStrategy::ProximityTo("South Central US".into());
    builder.build(account, routing).await.expect("the server on port 8081 answers")
}

/// A name that no other test of this run, nor an earlier run, has used.
pub fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{count}", std::process::id())
}

/// A database of its own, and in it one container of the variation's size.
pub async fn container(
    variation: Variation,
    key: PartitionKeyDefinition,
) -> (DatabaseClient, ContainerClient) {
    let client = client(variation.binary).await;
    let name = unique("rust");
    client.create_database(&name, None).await.expect("the database is created");
    let database = client.database_client(name.as_str());
    let throughput = ThroughputProperties::manual(variation.throughput);
    let options = CreateContainerOptions::default().with_throughput(throughput);
    let properties = ContainerProperties::new("items", key);
    database.create_container(properties, Some(options)).await.expect("the container is created");
    let container = database.container_client("items", None).await.expect("the container is read");
    (database, container)
}
