//! Provisioned throughput: request units per second, fixed or scaled with the load.

use crate::error::{Error, Result};
use crate::limits;
use crate::policy::shape;
use crate::value::{Object, Value};

/// What is provisioned for a container, or for a database whose containers share it.
#[derive(Clone, Debug, PartialEq)]
pub enum Throughput {
    /// So many request units per second.
    Manual(u32),
    /// Between a tenth of the maximum and the maximum.
    Autoscale {
        /// The maximum.
        max: u32,
        /// By how much the maximum grows by itself, if stated; shown again, not acted on.
        increment_percent: Option<u32>,
    },
}

/// A part of a container's throughput that some requests may use at most. Nothing is reserved for
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThroughputBucket {
    /// 1 to 5.
    pub id: u8,
    /// The most that its requests may use, 1 to 100.
    pub percent: u8,
    /// Requests that name no bucket belong to this one.
    pub is_default: bool,
}

impl ThroughputBucket {
    /// The buckets of an offer: `[{"id":1,"maxThroughputPercentage":20,"isDefaultBucket":false}]`.
    pub fn parse_all(list: &Value) -> Result<Vec<ThroughputBucket>> {
        let Value::Array(list) = list else {
            return Err(Error::bad_request("'throughputBuckets' must be an array"));
        };
        let buckets: Vec<ThroughputBucket> = list.iter().map(bucket).collect::<Result<_>>()?;
        for (at, bucket) in buckets.iter().enumerate() {
            let before = buckets.get(..at).unwrap_or_default();
            if before.iter().any(|other| other.id == bucket.id) {
                return Err(Error::bad_request(format!(
                    "'throughputBuckets' has the bucket {} twice",
                    bucket.id
                )));
            }
            if bucket.is_default && before.iter().any(|other| other.is_default) {
                return Err(Error::bad_request(
                    "'throughputBuckets' has two default buckets, one is the most",
                ));
            }
        }
        Ok(buckets)
    }

    /// The bucket as [`ThroughputBucket::parse_all`] reads it.
    pub fn to_value(&self) -> Value {
        let mut object = Object::new()
            .with("id", i64::from(self.id))
            .with("maxThroughputPercentage", i64::from(self.percent));
        if self.is_default {
            object.insert("isDefaultBucket", true);
        }
        Value::from(object)
    }
}

fn bucket(value: &Value) -> Result<ThroughputBucket> {
    let object = shape::object(value, "throughput bucket")?;
    let number = |name, max: usize| -> Result<u8> {
        let number = shape::integer(shape::required(object, name, "A throughput bucket")?, name)?;
        let fits = u8::try_from(number).ok().filter(|n| (1..=max).contains(&usize::from(*n)));
        fits.ok_or_else(|| {
            Error::bad_request(format!("'{name}' must be between 1 and {max}, it is {number}"))
        })
    };
    let is_default = match shape::present(object, "isDefaultBucket") {
        None => false,
        Some(Value::Bool(is_default)) => *is_default,
        Some(_) => return Err(Error::bad_request("'isDefaultBucket' must be true or false")),
    };
    Ok(ThroughputBucket {
        id: number("id", limits::THROUGHPUT_BUCKETS_MAX)?,
        percent: number("maxThroughputPercentage", 100)?,
        is_default,
    })
}

impl Throughput {
    /// A fixed throughput, as in `x-ms-offer-throughput`.
    pub fn manual(ru: i64) -> Result<Throughput> {
        match u32::try_from(ru) {
            Ok(fits)
                if (limits::THROUGHPUT_MANUAL_RU_MIN..=limits::THROUGHPUT_RU_MAX)
                    .contains(&fits)
                    && fits.is_multiple_of(limits::THROUGHPUT_RU_STEP) =>
            {
                Ok(Throughput::Manual(fits))
            }
            _ => Err(Error::bad_request(format!(
                "The offer should have valid throughput values between {} and {} inclusive in \
                 increments of {}.",
                limits::THROUGHPUT_MANUAL_RU_MIN,
                limits::THROUGHPUT_RU_MAX,
                limits::THROUGHPUT_RU_STEP
            ))),
        }
    }

    /// A scaled throughput, as in `x-ms-cosmos-offer-autopilot-settings`:
    /// `{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":1}}}`.
    pub fn autoscale(settings: &Value) -> Result<Throughput> {
        let settings = shape::object(settings, "autopilot settings")?;
        let max = shape::required(settings, "maxThroughput", "Autoscale")?;
        let max = autoscale_max(shape::integer(max, "maxThroughput")?)?;
        let policy = shape::present(settings, "autoUpgradePolicy")
            .map(|value| shape::object(value, "autoUpgradePolicy"))
            .transpose()?
            .and_then(|policy| shape::present(policy, "throughputPolicy"))
            .map(|value| shape::object(value, "throughputPolicy"))
            .transpose()?
            .and_then(|policy| shape::present(policy, "incrementPercent"));
        let increment_percent = policy.map(increment).transpose()?;
        Ok(Throughput::Autoscale { max, increment_percent })
    }

    /// What has been reserved: the manual value, or the autoscale maximum.
    pub fn provisioned(&self) -> u32 {
        match self {
            Throughput::Manual(ru) => *ru,
            Throughput::Autoscale { max, .. } => *max,
        }
    }

    /// What an offer shows as its throughput: the manual value, or the autoscale minimum.
    pub fn current(&self) -> u32 {
        match self {
            Throughput::Manual(ru) => *ru,
            Throughput::Autoscale { max, .. } => max / 10,
        }
    }

    /// How many physical partitions a new container starts with.
    pub fn initial_partitions(&self) -> usize {
        self.provisioned().div_ceil(limits::INITIAL_PARTITION_RU).max(1) as usize
    }
}

fn autoscale_max(ru: i64) -> Result<u32> {
    let min = limits::THROUGHPUT_AUTOSCALE_RU_MIN;
    if ru < i64::from(min) {
        return Err(Error::bad_request(format!(
            "Requested throughput {ru} is less than required minimum throughput {min}"
        )));
    }
    match u32::try_from(ru) {
        Ok(fits) if fits <= limits::THROUGHPUT_RU_MAX && fits.is_multiple_of(min) => Ok(fits),
        _ => Err(Error::bad_request(format!(
            "'maxThroughput' must be between {min} and {} in increments of {min}, it is {ru}",
            limits::THROUGHPUT_RU_MAX
        ))),
    }
}

fn increment(value: &Value) -> Result<u32> {
    let percent = shape::integer(value, "incrementPercent")?;
    u32::try_from(percent).map_err(|_| {
        Error::bad_request(format!("'incrementPercent' must not be negative, it is {percent}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn autoscale(text: &str) -> Result<Throughput> {
        Throughput::autoscale(&Value::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn manual_throughput_goes_from_400_to_a_million_in_hundreds() {
        for ru in [400, 500, 10_100, 1_000_000] {
            assert_eq!(Throughput::manual(ru), Ok(Throughput::Manual(ru as u32)));
        }
        for ru in [i64::MIN, -400, 0, 300, 399, 450, 1_000_100, i64::MAX] {
            let error = Throughput::manual(ru).unwrap_err();
            assert_eq!(
                error.message,
                "The offer should have valid throughput values between 400 and 1000000 inclusive \
                 in increments of 100."
            );
        }
    }

    #[test]
    fn autoscale_settings_are_read_as_the_sdks_send_them() {
        assert_eq!(
            autoscale(
                r#"{"maxThroughput": 4000, "autoUpgradePolicy":
                    {"throughputPolicy": {"incrementPercent": 0}}}"#
            ),
            Ok(Throughput::Autoscale { max: 4000, increment_percent: Some(0) })
        );
        assert_eq!(
            autoscale(r#"{"maxThroughput":7000}"#),
            Ok(Throughput::Autoscale { max: 7000, increment_percent: None })
        );
    }

    #[test]
    fn autoscale_refuses_in_the_words_clients_look_for() {
        assert_eq!(
            autoscale(r#"{"maxThroughput":-200}"#).unwrap_err().message,
            "Requested throughput -200 is less than required minimum throughput 1000"
        );
        for bad in [
            "{}",
            "[]",
            r#"{"maxThroughput":"4000"}"#,
            r#"{"maxThroughput":1500}"#,
            r#"{"maxThroughput":1001000}"#,
            r#"{"maxThroughput":1000,"autoUpgradePolicy":
                {"throughputPolicy":{"incrementPercent":-1}}}"#,
            r#"{"maxThroughput":1000,"autoUpgradePolicy":5}"#,
        ] {
            autoscale(bad).expect_err(bad);
        }
    }

    #[test]
    fn throughput_buckets_are_read_and_shown_as_the_service_does() {
        let parse =
            |text: &str| ThroughputBucket::parse_all(&Value::parse(text.as_bytes()).unwrap());
        let text = r#"[{"id":1,"maxThroughputPercentage":20},
            {"id":5,"maxThroughputPercentage":100,"isDefaultBucket":true}]"#;
        let buckets = parse(text).unwrap();
        let bucket = |id, percent, is_default| ThroughputBucket { id, percent, is_default };
        assert_eq!(buckets, [bucket(1, 20, false), bucket(5, 100, true)]);
        let shown = Value::Array(buckets.iter().map(ThroughputBucket::to_value).collect());
        assert_eq!(shown, Value::parse(text.as_bytes()).unwrap());
        for bad in [
            "{}",
            "[1]",
            r#"[{"id":1}]"#,
            r#"[{"id":0,"maxThroughputPercentage":20}]"#,
            r#"[{"id":6,"maxThroughputPercentage":20}]"#,
            r#"[{"id":1,"maxThroughputPercentage":0}]"#,
            r#"[{"id":1,"maxThroughputPercentage":101}]"#,
            r#"[{"id":1,"maxThroughputPercentage":20,"isDefaultBucket":1}]"#,
            r#"[{"id":1,"maxThroughputPercentage":20},{"id":1,"maxThroughputPercentage":30}]"#,
            r#"[{"id":1,"maxThroughputPercentage":20,"isDefaultBucket":true},
                {"id":2,"maxThroughputPercentage":30,"isDefaultBucket":true}]"#,
        ] {
            parse(bad).expect_err(bad);
        }
    }

    #[test]
    fn a_container_starts_with_one_partition_per_6000() {
        let partitions = |ru| Throughput::Manual(ru).initial_partitions();
        assert_eq!([400, 6000, 6100, 10_100, 12_000, 30_000].map(partitions), [1, 1, 2, 2, 2, 5]);
        let scaled = Throughput::Autoscale { max: 5000, increment_percent: None };
        assert_eq!((scaled.provisioned(), scaled.current()), (5000, 500));
    }
}
