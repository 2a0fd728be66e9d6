//! Files and connections that this process may have open: its limit of descriptors.
//!
//! Shells and service managers give a process a low limit, the soft one, from which it may go up to
//! the hard one by itself. We do, at the start. A quarter of what there is then is kept for the
//! store, which could not write without; connections get the rest.

use partita_gateway::ServerSettings;

/// Raises the limit as far as it goes, and accepts no more connections than it has room for.
pub(crate) fn fit(server: &mut ServerSettings) {
    let wanted = server.connections_max;
    let limit = raise();
    let room = limit.map_or(usize::MAX, room);
    server.connections_max = wanted.min(room);
    server.connections_advice = match limit {
        Some(limit) if room < wanted => {
            tracing::info!(
                "accepting {room} connections at once, not {wanted}: this process may open {limit} \
                 files ({RAISE})"
            );
            format!("this process may open {limit} files: {RAISE}")
        }
        _ => "--connections-max raises the limit".to_owned(),
    };
}

/// How somebody else can.
const RAISE: &str =
    "raise the hard limit: ulimit -Hn, LimitNOFILE= of a service, --ulimit nofile= of a container";

/// The connections that there is room for.
fn room(descriptors: u64) -> usize {
    usize::try_from(descriptors / 4 * 3).unwrap_or(usize::MAX).max(1)
}

/// Raises the soft limit to the hard one. The limit from now on, if there is one.
#[cfg(unix)]
fn raise() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if raised == before {
        return before.current;
    }
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => before.maximum,
        Err(error) => {
            tracing::info!("the limit of open files stays as it is: {error}");
            before.current
        }
    }
}

#[cfg(not(unix))]
fn raise() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_kept_for_the_store_and_one_connection_is_always_accepted() {
        assert_eq!(room(1024), 768);
        assert_eq!(room(3), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let (soft, hard) = line.trim().split_once(char::is_whitespace).unwrap();
        assert_eq!(Some(soft), hard.split_whitespace().next());
        assert_eq!(limit, soft.parse().ok());
    }
}
