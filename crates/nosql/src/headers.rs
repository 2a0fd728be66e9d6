//! The protocol's headers: every name once, and readers that say what is wrong with a value.
//!
//! A reader answers `None` for an absent header and a clear 400 for one that makes no sense;
//! nothing is guessed. Booleans come as `True`, `true` and `TRUE`, depending on the SDK.

use http::HeaderName;
use partita_engine::{Demand, EtagPattern, Indexing, KeyRequired, PageRequest, Priority};
use partita_executor::WAIT_SECONDS_MAX;
use partita_gateway::Head;
use partita_model::{Consistency, ContainerRid, Error, PartitionKeyHeader, Result, limits};

const fn name(text: &'static str) -> HeaderName {
    HeaderName::from_static(text)
}

// Both ways.
pub(crate) const ACTIVITY_ID: HeaderName = name("x-ms-activity-id");
pub(crate) const CONTINUATION: HeaderName = name("x-ms-continuation");
pub(crate) const SESSION_TOKEN: HeaderName = name("x-ms-session-token");
pub(crate) const VERSION: HeaderName = name("x-ms-version");
pub(crate) const RANGE_ID: HeaderName = name("x-ms-documentdb-partitionkeyrangeid");

// Requests.
pub(crate) const DATE: HeaderName = name("x-ms-date");
pub(crate) const CONSISTENCY_LEVEL: HeaderName = name("x-ms-consistency-level");
pub(crate) const ENABLE_CROSS_PARTITION: HeaderName =
    name("x-ms-documentdb-query-enablecrosspartition");
pub(crate) const PARTITION_KEY: HeaderName = name("x-ms-documentdb-partitionkey");
pub(crate) const IS_QUERY: HeaderName = name("x-ms-documentdb-isquery");
pub(crate) const IS_QUERY_PLAN: HeaderName = name("x-ms-cosmos-is-query-plan-request");
pub(crate) const QUERY_FEATURES: HeaderName = name("x-ms-cosmos-supported-query-features");
pub(crate) const CONTINUATION_KB_MAX: HeaderName =
    name("x-ms-documentdb-responsecontinuationtokenlimitinkb");
pub(crate) const POPULATE_QUERY_METRICS: HeaderName = name("x-ms-documentdb-populatequerymetrics");
pub(crate) const POPULATE_INDEX_METRICS: HeaderName = name("x-ms-cosmos-populateindexmetrics");
pub(crate) const POPULATE_INDEX_METRICS_V2: HeaderName =
    name("x-ms-cosmos-populateindexmetrics-v2");
pub(crate) const TOKEN_SECONDS: HeaderName = name("x-ms-documentdb-expiry-seconds");
pub(crate) const IS_UPSERT: HeaderName = name("x-ms-documentdb-is-upsert");
pub(crate) const IS_BATCH: HeaderName = name("x-ms-cosmos-is-batch-request");
pub(crate) const BATCH_ATOMIC: HeaderName = name("x-ms-cosmos-batch-atomic");
pub(crate) const BATCH_CONTINUE: HeaderName = name("x-ms-cosmos-batch-continue-on-error");
pub(crate) const CHANGE_FEED_FORMAT: HeaderName =
    name("x-ms-cosmos-changefeed-wire-format-version");
pub(crate) const A_IM: HeaderName = name("a-im");
pub(crate) const MAX_ITEM_COUNT: HeaderName = name("x-ms-max-item-count");
pub(crate) const INTENDED_CONTAINER_RID: HeaderName = name("x-ms-cosmos-intended-collection-rid");
pub(crate) const INDEXING_DIRECTIVE: HeaderName = name("x-ms-indexing-directive");
pub(crate) const PRE_TRIGGERS: HeaderName = name("x-ms-documentdb-pre-trigger-include");
pub(crate) const POST_TRIGGERS: HeaderName = name("x-ms-documentdb-post-trigger-include");
pub(crate) const CONTENT_ON_WRITE: HeaderName =
    name("x-ms-cosmos-populate-content-response-on-write");
pub(crate) const EXCLUDE_SYSTEM_PROPERTIES: HeaderName = name("x-ms-exclude-system-properties");
pub(crate) const SUPPORTED_FORMATS: HeaderName =
    name("x-ms-cosmos-supported-serialization-formats");
pub(crate) const CONTENT_FORMAT: HeaderName = name("x-ms-documentdb-content-serialization-format");
pub(crate) const PREFER: HeaderName = name("prefer");
pub(crate) const POPULATE_QUOTA: HeaderName = name("x-ms-documentdb-populatequotainfo");
pub(crate) const POPULATE_STATISTICS: HeaderName =
    name("x-ms-documentdb-populatepartitionstatistics");
pub(crate) const START_EPK: HeaderName = name("x-ms-start-epk");
pub(crate) const END_EPK: HeaderName = name("x-ms-end-epk");
pub(crate) const READ_KEY_TYPE: HeaderName = name("x-ms-read-key-type");
pub(crate) const OFFER_THROUGHPUT: HeaderName = name("x-ms-offer-throughput");
pub(crate) const OFFER_AUTOPILOT: HeaderName = name("x-ms-cosmos-offer-autopilot-settings");
pub(crate) const MIGRATE_TO_AUTOSCALE: HeaderName = name("x-ms-cosmos-migrate-offer-to-autopilot");
pub(crate) const MIGRATE_TO_MANUAL: HeaderName =
    name("x-ms-cosmos-migrate-offer-to-manual-throughput");
pub(crate) const PRIORITY_LEVEL: HeaderName = name("x-ms-cosmos-priority-level");
pub(crate) const THROUGHPUT_BUCKET: HeaderName = name("x-ms-cosmos-throughput-bucket");

// Requests that only this server knows.
pub(crate) const EXPLAIN: HeaderName = name("x-partita-explain");
pub(crate) const QUERY_SERVING: HeaderName = name("x-partita-query-serving");
pub(crate) const QUERY_SECONDS_MAX: HeaderName = name("x-partita-query-seconds-max");

// Responses.
pub(crate) const REQUEST_CHARGE: HeaderName = name("x-ms-request-charge");
pub(crate) const REQUEST_DURATION: HeaderName = name("x-ms-request-duration-ms");
pub(crate) const SCRIPT_LOGGING: HeaderName = name("x-ms-documentdb-script-enable-logging");
pub(crate) const SCRIPT_LOG: HeaderName = name("x-ms-documentdb-script-log-results");
pub(crate) const SUBSTATUS: HeaderName = name("x-ms-substatus");
pub(crate) const RETRY_AFTER_MS: HeaderName = name("x-ms-retry-after-ms");
pub(crate) const ITEM_COUNT: HeaderName = name("x-ms-item-count");
pub(crate) const LSN: HeaderName = name("lsn");
pub(crate) const ITEM_LSN: HeaderName = name("x-ms-item-lsn");
pub(crate) const GLOBAL_COMMITTED_LSN: HeaderName = name("x-ms-global-committed-lsn");
pub(crate) const QUORUM_ACKED_LSN: HeaderName = name("x-ms-quorum-acked-lsn");
pub(crate) const LOCAL_LSN: HeaderName = name("x-ms-cosmos-llsn");
pub(crate) const ITEM_LOCAL_LSN: HeaderName = name("x-ms-cosmos-item-llsn");
pub(crate) const QUORUM_ACKED_LOCAL_LSN: HeaderName = name("x-ms-cosmos-quorum-acked-llsn");
pub(crate) const CONTENT_PATH: HeaderName = name("x-ms-content-path");
pub(crate) const ALT_CONTENT_PATH: HeaderName = name("x-ms-alt-content-path");
pub(crate) const SHARE_THROUGHPUT: HeaderName = name("x-ms-share-throughput");
pub(crate) const MEDIA_MB_MAX: HeaderName = name("x-ms-max-media-storage-usage-mb");
pub(crate) const MEDIA_MB: HeaderName = name("x-ms-media-storage-usage-mb");
pub(crate) const RESOURCE_QUOTA: HeaderName = name("x-ms-resource-quota");
pub(crate) const RESOURCE_USAGE: HeaderName = name("x-ms-resource-usage");
pub(crate) const INDEX_PROGRESS: HeaderName =
    name("x-ms-documentdb-collection-index-transformation-progress");
pub(crate) const OFFER_REPLACE_PENDING: HeaderName = name("x-ms-offer-replace-pending");
pub(crate) const MIN_THROUGHPUT: HeaderName = name("x-ms-cosmos-min-throughput");
pub(crate) const QUERY_METRICS: HeaderName = name("x-ms-documentdb-query-metrics");
pub(crate) const INDEX_UTILIZATION: HeaderName = name("x-ms-cosmos-index-utilization");
pub(crate) const QUERY_EXECUTION_INFO: HeaderName = name("x-ms-cosmos-query-execution-info");

/// What the two encodings of JSON are called.
const TEXT_FORMAT: &str = "JsonText";
const BINARY_FORMAT: &str = "CosmosBinary";

/// The API versions of the service, oldest first.
const VERSIONS: [&str; 21] = [
    "2014-08-21",
    "2015-04-08",
    "2015-06-03",
    "2015-08-06",
    "2015-12-16",
    "2016-05-30",
    "2016-07-11",
    "2016-11-14",
    "2017-01-19",
    "2017-02-22",
    "2017-05-03",
    "2017-11-15",
    "2018-06-18",
    "2018-08-31",
    "2018-09-17",
    "2018-12-31",
    "2019-10-14",
    "2020-07-15",
    "2020-11-05",
    "2024-05-15",
    "2024-06-06",
];

/// From this version on, containers have a partition key and item requests name its value.
const KEY_REQUIRED_SINCE: &str = "2018-12-31";

/// A partition key range as a client names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeName<'a> {
    pub(crate) container: Option<ContainerRid>,
    pub(crate) id: &'a str,
}

/// A request's headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers<'a>(&'a Head);

impl<'a> Headers<'a> {
    pub(crate) fn new(head: &'a Head) -> Headers<'a> {
        Headers(head)
    }

    /// The header as it was sent, if it is plain ASCII.
    pub(crate) fn ascii(self, name: &HeaderName) -> Option<&'a str> {
        self.0.text(name)
    }

    /// The header's text; an empty one counts as absent.
    pub(crate) fn text(self, name: &HeaderName) -> Result<Option<&'a str>> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        match std::str::from_utf8(value) {
            Ok("") => Ok(None),
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::bad_request(format!("The header {name} is not valid UTF-8."))),
        }
    }

    /// A boolean; absent is false.
    pub(crate) fn flag(self, name: &HeaderName) -> Result<bool> {
        Ok(self.flag_if_there(name)?.unwrap_or(false))
    }

    fn flag_if_there(self, name: &HeaderName) -> Result<Option<bool>> {
        self.choice(name, [("true", true), ("false", false)], "must be true or false")
    }

    /// One of some words, in any case.
    pub(crate) fn choice<T, const N: usize>(
        self,
        name: &HeaderName,
        words: [(&str, T); N],
        rule: &str,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.into_iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
        found.map(|(_, meaning)| Some(meaning)).ok_or_else(|| bad_value(name, text, rule))
    }

    /// Shall items and rows be binary JSON? A client may say so, or that it understands nothing
    /// else. Text is among what most understand, and costs nothing to send.
    pub(crate) fn wants_binary(self) -> Result<bool> {
        let formats = [(BINARY_FORMAT, true), (TEXT_FORMAT, false)];
        match self.choice(&CONTENT_FORMAT, formats, "must be JsonText or CosmosBinary")? {
            Some(is_binary) => Ok(is_binary),
            None => self.only_binary(),
        }
    }

    fn only_binary(self) -> Result<bool> {
        let Some(formats) = self.text(&SUPPORTED_FORMATS)? else { return Ok(false) };
        let names =
            |name: &str| formats.split(',').any(|format| format.trim().eq_ignore_ascii_case(name));
        Ok(names(BINARY_FORMAT) && !names(TEXT_FORMAT))
    }

    /// Must this client name partition keys? Refuses an API version that the service never had.
    pub(crate) fn key_required(self) -> Result<KeyRequired> {
        match self.text(&VERSION)? {
            None => Ok(KeyRequired::Yes),
            Some(version) if !VERSIONS.contains(&version) => {
                let known = format!("must be one of {}", VERSIONS.join(", "));
                Err(bad_value(&VERSION, version, &known))
            }
            Some(version) if version < KEY_REQUIRED_SINCE => Ok(KeyRequired::No),
            Some(_) => Ok(KeyRequired::Yes),
        }
    }

    /// The consistency that the request asks for: the account's or a weaker one.
    pub(crate) fn consistency(self, account: Consistency) -> Result<Option<Consistency>> {
        let Some(text) = self.text(&CONSISTENCY_LEVEL)? else { return Ok(None) };
        let level = Consistency::parse(text)?;
        if !account.allows(level) {
            return Err(Error::bad_request(format!(
                "The consistency level {level} in {CONSISTENCY_LEVEL} is stronger than the \
                 account's default {account}; a request may only ask for the same or a weaker one."
            )));
        }
        Ok(Some(level))
    }

    /// How the request is limited when throughput is short.
    pub(crate) fn demand(self) -> Result<Demand> {
        let levels = [("High", Priority::High), ("Low", Priority::Low)];
        let priority = self.choice(&PRIORITY_LEVEL, levels, "must be High or Low")?;
        let priority = priority.unwrap_or(Priority::High);
        let Some(text) = self.text(&THROUGHPUT_BUCKET)? else {
            return Ok(Demand { priority, bucket: None });
        };
        let bucket =
            text.trim().parse().ok().filter(|bucket| {
                (1..=limits::THROUGHPUT_BUCKETS_MAX).contains(&usize::from(*bucket))
            });
        match bucket {
            Some(bucket) => Ok(Demand { priority, bucket: Some(bucket) }),
            // In the service's words: clients look for them.
            None => Err(Error::bad_request(format!(
                "The value '{text}' specified for the header '{THROUGHPUT_BUCKET}' is invalid. \
                 Buckets are numbered from 1 to {}.",
                limits::THROUGHPUT_BUCKETS_MAX
            ))),
        }
    }

    /// The partition key range that the request names: by its id alone, or as old .NET clients
    /// write it, by the container's resource id, a comma and its id.
    pub(crate) fn range(self) -> Result<Option<RangeName<'a>>> {
        let Some(text) = self.text(&RANGE_ID)? else { return Ok(None) };
        let Some((container, id)) = text.split_once(',') else {
            return Ok(Some(RangeName { container: None, id: text }));
        };
        let rule = "must be the id of a range, or a container's resource id, a comma and that id";
        let container = ContainerRid::parse(container.trim());
        let container = container.ok_or_else(|| bad_value(&RANGE_ID, text, rule))?;
        Ok(Some(RangeName { container: Some(container), id: id.trim() }))
    }

    pub(crate) fn partition_key(self) -> Result<Option<PartitionKeyHeader>> {
        self.text(&PARTITION_KEY)?.map(PartitionKeyHeader::parse).transpose()
    }

    /// How much of a feed is wanted.
    pub(crate) fn page(self) -> Result<PageRequest> {
        let items_max = match self.text(&MAX_ITEM_COUNT)? {
            None => None,
            // As many as fit: the size of the page decides.
            Some("-1") => Some(u32::MAX as usize),
            Some(text) => match text.parse::<usize>() {
                Ok(0) => None,
                Ok(count) => Some(count),
                Err(_) => {
                    return Err(bad_value(
                        &MAX_ITEM_COUNT,
                        text,
                        "must be -1 or an integer that is not negative",
                    ));
                }
            },
        };
        // Only continuations of queries can be long, but a limit that is none is refused of any.
        self.token_bytes_max()?;
        Ok(PageRequest { items_max, continuation: self.text(&CONTINUATION)?.map(str::to_owned) })
    }

    /// How long a continuation may be.
    pub(crate) fn token_bytes_max(self) -> Result<Option<usize>> {
        let name = &CONTINUATION_KB_MAX;
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.trim().parse::<usize>() {
            Ok(0) | Err(_) => Err(bad_value(name, text, "must be a number of kilobytes from 1 on")),
            Ok(kilobytes) => Ok(Some(kilobytes.saturating_mul(1024))),
        }
    }

    /// How long a query may take, if less than others may.
    pub(crate) fn query_millis_max(self) -> Result<Option<u64>> {
        let name = &QUERY_SECONDS_MAX;
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.trim().parse::<f64>() {
            // More than anybody waits is no limit.
            Ok(seconds) if seconds >= 0.001 => Ok(Some((seconds.min(1e9) * 1e3) as u64)),
            Ok(_) | Err(_) => Err(bad_value(name, text, "must be a number of seconds above 0")),
        }
    }

    /// An ETag in `If-Match` or `If-None-Match`; the quotes may be missing.
    pub(crate) fn etag(self, name: &HeaderName) -> Result<Option<EtagPattern>> {
        Ok(self.text(name)?.map(etag_pattern))
    }

    /// Does the client want no body in the answer to a write?
    pub(crate) fn minimal(self) -> Result<bool> {
        let returns = self.preference("return")?;
        let preferred = returns.is_some_and(|text| text.eq_ignore_ascii_case("minimal"));
        Ok(preferred || self.flag_if_there(&CONTENT_ON_WRITE)? == Some(false))
    }

    /// How long may an answer wait until there is something to tell? A wish, as all preferences:
    /// who wants more than is possible, or nothing that can be understood, is not refused.
    pub(crate) fn wait_seconds(self) -> Result<u64> {
        let seconds = self.preference("wait")?.and_then(|text| text.parse::<u64>().ok());
        Ok(seconds.unwrap_or(0).min(WAIT_SECONDS_MAX))
    }

    /// The value of a preference in `Prefer` (RFC 7240).
    fn preference(self, name: &str) -> Result<Option<&'a str>> {
        let text = self.text(&PREFER)?.unwrap_or_default();
        Ok(text.split([',', ';']).find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"'))
        }))
    }

    /// Shall the item be indexed?
    pub(crate) fn indexing(self) -> Result<Indexing> {
        let directives = [
            ("exclude", Indexing::Exclude),
            ("include", Indexing::Include),
            ("default", Indexing::ByPolicy),
        ];
        let rule = "must be Include, Exclude or Default";
        let directive = self.choice(&INDEXING_DIRECTIVE, directives, rule)?;
        Ok(directive.unwrap_or(Indexing::ByPolicy))
    }

    /// Is the body a query?
    pub(crate) fn is_query(self) -> Result<bool> {
        let by_type = self.text(&http::header::CONTENT_TYPE)?.is_some_and(|text| {
            let media_type = text.split(';').next().unwrap_or_default().trim();
            media_type.eq_ignore_ascii_case("application/query+json")
        });
        Ok(self.flag(&IS_QUERY)? || by_type)
    }
}

/// An ETag as a client writes it: the quotes may be missing.
pub(crate) fn etag_pattern(text: &str) -> EtagPattern {
    match text.trim() {
        "*" => EtagPattern::Any,
        text => {
            let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            EtagPattern::Exact(inner.unwrap_or(text).to_owned())
        }
    }
}

/// A 400 that names header, value and rule.
pub(crate) fn bad_value(name: &HeaderName, value: &str, rule: &str) -> Error {
    Error::bad_request(format!("The value '{value}' of the header {name} {rule}."))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Uri};

    use super::*;

    fn head(map: &HeaderMap) -> Head {
        Head::new(&Uri::from_static("/"), map)
    }

    fn with(name: HeaderName, value: &str) -> Head {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        head(&HeaderMap::from_iter([(name, value)]))
    }

    #[test]
    fn booleans_are_read_in_any_case_and_nothing_else_is() {
        for (text, flag) in [("True", true), ("true", true), ("FALSE", false), ("", false)] {
            assert_eq!(Headers::new(&with(IS_UPSERT, text)).flag(&IS_UPSERT), Ok(flag), "{text}");
        }
        let error = Headers::new(&with(IS_UPSERT, "yes")).flag(&IS_UPSERT).unwrap_err();
        assert!(error.message.contains("'yes'") && error.message.contains("is-upsert"), "{error}");
    }

    #[test]
    fn versions_decide_whether_keys_are_required() {
        let required = |text| Headers::new(&with(VERSION, text)).key_required();
        assert_eq!(required("2018-09-17"), Ok(KeyRequired::No));
        assert_eq!(required("2018-12-31"), Ok(KeyRequired::Yes));
        assert_eq!(required("2024-06-06"), Ok(KeyRequired::Yes));
        assert_eq!(Headers::new(&head(&HeaderMap::new())).key_required(), Ok(KeyRequired::Yes));
        let error = required("2019-01-01").unwrap_err();
        assert!(error.message.contains("2020-07-15"), "{error}");
    }

    #[test]
    fn a_stronger_consistency_than_the_accounts_is_refused() {
        let read =
            |text| Headers::new(&with(CONSISTENCY_LEVEL, text)).consistency(Consistency::Session);
        assert_eq!(read("Eventual"), Ok(Some(Consistency::Eventual)));
        assert_eq!(read("Session"), Ok(Some(Consistency::Session)));
        assert!(read("Strong").unwrap_err().message.contains("stronger"));
        assert!(read("Sessions").is_err());
    }

    #[test]
    fn priorities_and_buckets_are_read_and_checked() {
        let demand = |name, value| Headers::new(&with(name, value)).demand();
        let low = Demand { priority: Priority::Low, bucket: None };
        assert_eq!(demand(PRIORITY_LEVEL, "low"), Ok(low));
        assert_eq!(demand(PRIORITY_LEVEL, "High"), Ok(Demand::default()));
        let third = Demand { bucket: Some(3), ..Demand::default() };
        assert_eq!(demand(THROUGHPUT_BUCKET, "3"), Ok(third));
        for bad in ["0", "6", "256", "-1", "x"] {
            let error = demand(THROUGHPUT_BUCKET, bad).unwrap_err();
            let text = "specified for the header 'x-ms-cosmos-throughput-bucket' is invalid.";
            assert!(error.message.contains(text), "{error}");
        }
        demand(PRIORITY_LEVEL, "medium").unwrap_err();
    }

    #[test]
    fn a_preference_to_wait_is_in_seconds_and_bounded() {
        let read = |text| Headers::new(&with(PREFER, text)).wait_seconds();
        assert_eq!(read("wait=5"), Ok(5));
        assert_eq!(read("return=minimal; Wait = \"7\""), Ok(7));
        assert_eq!(read("wait=86400"), Ok(WAIT_SECONDS_MAX));
        for not_understood in ["wait", "wait=soon", "wait=-1", "waiting=5", "return=minimal"] {
            assert_eq!(read(not_understood), Ok(0), "{not_understood}");
        }
    }

    #[test]
    fn page_sizes_are_minus_one_or_not_negative() {
        let read =
            |text| Headers::new(&with(MAX_ITEM_COUNT, text)).page().map(|page| page.items_max);
        assert_eq!(read("-1"), Ok(Some(u32::MAX as usize)));
        assert_eq!(read("7"), Ok(Some(7)));
        assert_eq!(read("0"), Ok(None), "as if it were absent");
        for bad in ["-2", "x", "1.5", "99999999999999999999"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn etags_are_read_with_and_without_quotes() {
        let read =
            |text| Headers::new(&with(http::header::IF_MATCH, text)).etag(&http::header::IF_MATCH);
        assert_eq!(read("*"), Ok(Some(EtagPattern::Any)));
        assert_eq!(read("\"e\""), Ok(Some(EtagPattern::Exact("e".into()))));
        assert_eq!(read("e"), Ok(Some(EtagPattern::Exact("e".into()))));
    }

    #[test]
    fn a_minimal_answer_can_be_asked_for_in_two_ways() {
        assert_eq!(Headers::new(&with(PREFER, "return=minimal")).minimal(), Ok(true));
        assert_eq!(
            Headers::new(&with(PREFER, "respond-async, Return=Minimal")).minimal(),
            Ok(true)
        );
        assert_eq!(Headers::new(&with(PREFER, "return=representation")).minimal(), Ok(false));
        assert_eq!(Headers::new(&with(PREFER, "wait=5, return=minimal")).minimal(), Ok(true));
        assert_eq!(Headers::new(&with(CONTENT_ON_WRITE, "False")).minimal(), Ok(true));
        assert_eq!(Headers::new(&with(CONTENT_ON_WRITE, "true")).minimal(), Ok(false));
    }

    #[test]
    fn indexing_directives_are_checked() {
        let read = |text| Headers::new(&with(INDEXING_DIRECTIVE, text)).indexing();
        assert_eq!(
            (read("Exclude"), read("include"), read("Default")),
            (Ok(Indexing::Exclude), Ok(Indexing::Include), Ok(Indexing::ByPolicy))
        );
        assert!(read("maybe").is_err());
    }

    #[test]
    fn a_query_is_told_by_header_or_content_type() {
        let content_type = http::header::CONTENT_TYPE;
        assert_eq!(Headers::new(&with(IS_QUERY, "True")).is_query(), Ok(true));
        let typed = with(content_type.clone(), "application/query+json; charset=utf-8");
        assert_eq!(Headers::new(&typed).is_query(), Ok(true));
        assert_eq!(Headers::new(&with(content_type, "application/json")).is_query(), Ok(false));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_by_name() {
        let map = HeaderMap::from_iter([(
            PARTITION_KEY,
            HeaderValue::from_bytes(b"[\"\xff\"]").unwrap(),
        )]);
        let error = Headers::new(&head(&map)).partition_key().unwrap_err();
        assert!(error.message.contains("x-ms-documentdb-partitionkey"), "{error}");
    }
}
