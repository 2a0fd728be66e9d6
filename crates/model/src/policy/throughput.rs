//! Provisioned throughput: request units per second, fixed or scaled with the load.

use crate::error::{Error, Result};
use crate::limits;
use crate::policy::shape;
use crate::value::Value;

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
    fn a_container_starts_with_one_partition_per_6000() {
        let partitions = |ru| Throughput::Manual(ru).initial_partitions();
        assert_eq!([400, 6000, 6100, 10_100, 12_000, 30_000].map(partitions), [1, 1, 2, 2, 2, 5]);
        let scaled = Throughput::Autoscale { max: 5000, increment_percent: None };
        assert_eq!((scaled.provisioned(), scaled.current()), (5000, 500));
    }
}
