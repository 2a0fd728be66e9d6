//! Scripts that exceed their limits again and again are not run for a while.
//!
//! A run that takes all of its time or memory costs a processor for seconds and leaves nothing
//! behind. After a few of them the next ones are refused at once, as at the service. It is known of
//! one text of a script: one that was replaced is another. Nothing of it outlives the server.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use partita_model::{Error, ErrorKind, Result};

use super::Script;

/// So many overruns...
const OVERRUNS_MAX: usize = 3;
/// ...within this time...
const WITHIN_MILLIS: u64 = 10 * 60_000;
/// ...block a script for so long: the service's numbers.
const BLOCKED_MILLIS: u64 = 5 * 60_000;

/// Scripts that are watched at once; those whose overruns are long ago go first.
const WATCHED_MAX: usize = 1_000;

/// What is known of scripts that exceeded their limits lately, by their versions.
#[derive(Debug, Default)]
pub(crate) struct Overruns(Mutex<HashMap<u128, Record>>);

#[derive(Debug, Default)]
struct Record {
    /// When, in milliseconds.
    times: Vec<u64>,
    blocked_until: u64,
}

impl Overruns {
    /// Refuses a script that is blocked at this time.
    pub(crate) fn check(&self, script: &Script, now_millis: u64) -> Result<()> {
        let watched = self.lock();
        match watched.get(&script.version) {
            Some(record) if now_millis < record.blocked_until => {
                let seconds = (record.blocked_until - now_millis).div_ceil(1_000);
                Err(Error::forbidden(format!(
                    "The script '{}' is blocked for execution because it has violated its allowed \
                     resource limit several times. It can run again in {seconds} s; replace it by \
                     one that does less at a time.",
                    script.name
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes note of how a run of a script ended.
    pub(crate) fn note<T>(&self, script: &Script, ended: &Result<T>, now_millis: u64) {
        if !Overruns::is_one(ended) {
            return;
        }
        let mut watched = self.lock();
        if watched.len() >= WATCHED_MAX {
            watched.retain(|_, record| record.is_fresh(now_millis));
        }
        if watched.len() >= WATCHED_MAX && !watched.contains_key(&script.version) {
            return;
        }
        let record = watched.entry(script.version).or_default();
        record.times.retain(|time| now_millis.saturating_sub(*time) < WITHIN_MILLIS);
        record.times.push(now_millis);
        if record.times.len() >= OVERRUNS_MAX {
            record.times.clear();
            record.blocked_until = now_millis.saturating_add(BLOCKED_MILLIS);
        }
    }

    /// Did a run end so because it exceeded its limits?
    pub(crate) fn is_one<T>(ended: &Result<T>) -> bool {
        // Memory is the one limit that is answered so: what a script is refused it tells itself.
        let exceeds =
            |error: &Error| matches!(error.kind, ErrorKind::Timeout | ErrorKind::Forbidden);
        ended.as_ref().is_err_and(exceeds)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Record>> {
        // Valid between any two statements, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn is_fresh(&self, now_millis: u64) -> bool {
        let recent = |time: &u64| now_millis.saturating_sub(*time) < WITHIN_MILLIS;
        now_millis < self.blocked_until || self.times.iter().any(recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(version: u128) -> Script {
        Script { name: "s".into(), source: "".into(), version }
    }

    fn overrun() -> Result<()> {
        Err(Error::timeout("too long"))
    }

    #[test]
    fn three_overruns_in_ten_minutes_block_a_script_for_five() {
        let (overruns, one) = (Overruns::default(), script(1));
        let minutes = |minutes: u64| minutes * 60_000;
        overruns.note(&one, &overrun(), 0);
        overruns.note(&one, &overrun(), minutes(5));
        overruns.note(&one, &Ok(()), minutes(6));
        overruns.note(&one, &Err::<(), _>(Error::bad_request("thrown")), minutes(6));
        overruns.note(&one, &overrun(), minutes(10));
        overruns.check(&one, minutes(10)).unwrap();
        overruns.note(&one, &Err::<(), _>(Error::forbidden("memory")), minutes(11));
        let refused = overruns.check(&one, minutes(12)).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        assert!(refused.message.contains("in 240 s"), "{}", refused.message);
        overruns.check(&script(2), minutes(12)).unwrap();
        overruns.check(&one, minutes(16)).unwrap();
        overruns.note(&one, &overrun(), minutes(16));
        overruns.check(&one, minutes(16)).unwrap();
    }

    #[test]
    fn what_is_remembered_is_limited_and_forgotten() {
        let overruns = Overruns::default();
        for version in 0..2 * WATCHED_MAX as u128 {
            overruns.note(&script(version), &overrun(), 0);
        }
        assert_eq!(overruns.lock().len(), WATCHED_MAX);
        overruns.note(&script(u128::MAX), &overrun(), WITHIN_MILLIS);
        assert_eq!(overruns.lock().len(), 1);
    }
}
