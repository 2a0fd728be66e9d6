//! Making a failing plan short: events are left out as long as it still fails.
//!
//! First large pieces are left out, then smaller ones, down to single events. Each try is a whole
//! run, so there is a limit to their number. What fails in the end need not be what failed at
//! first, but it fails, and it is short.

use crate::plan::{Plan, Planned};

/// How many runs are spent on it.
const RUNS_MAX: usize = 3_000;

/// The shortest plan found for which `fails` is true, as it is for the given one.
pub fn shortest(plan: &Plan, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut best = plan.clone();
    let mut runs = 0;
    let mut piece = best.events.len().div_ceil(2);
    while piece > 0 {
        let (mut at, mut is_shorter) = (0, false);
        while at < best.events.len() && runs < RUNS_MAX {
            runs += 1;
            let shorter = best.with(without(&best.events, at, piece));
            if fails(&shorter) {
                best = shorter;
                is_shorter = true;
            } else {
                at += piece;
            }
        }
        if runs >= RUNS_MAX {
            break;
        }
        // Single events are tried again as long as that leaves some out.
        if piece > 1 || !is_shorter {
            piece /= 2;
        }
    }
    best
}

fn without(events: &[Planned], at: usize, piece: usize) -> Vec<Planned> {
    let is_left = |(place, _): &(usize, &Planned)| *place < at || *place >= at + piece;
    events.iter().enumerate().filter(is_left).map(|(_, event)| event.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_left_out() {
        let plan = Plan::new(1, 300);
        let needed = [17, 18, 205];
        let has_all =
            |plan: &Plan| needed.iter().all(|at| plan.events.iter().any(|event| event.at == *at));
        let short = shortest(&plan, has_all);
        let left: Vec<usize> = short.events.iter().map(|event| event.at).collect();
        assert_eq!(left, needed);
    }
}
