//! What the recording has only the beginning of: items that a client created in a loop.
//!
//! They are made as the client made them, so that answers can be compared row by row: in the same
//! order, with the same values. Those of the SDK v2 are random numbers of .NET, with a fixed seed.

use super::Record;
use crate::support::World;

/// Readings that the client of the SDK v2 created, with those that are recorded.
const READINGS: usize = 300;

/// Creates the items that followed a recorded one.
pub(super) fn follow(world: &World, record: &Record) {
    match record.kind.as_str() {
        "fill 300" if record.body.starts_with(br#"{"id":"r1""#) => {
            let mut random = Random::new(1);
            for n in 0..READINGS {
                let (key, item) = reading(n, random.next() * 200.0);
                if n > 1 {
                    world.post("/dbs/db/colls/coll/docs", &item).key(&key).expect(201);
                }
            }
        }
        "fill hierarchical" if record.body.starts_with(br#"{"id":"i001""#) => {
            for n in 2..60 {
                let (t, u, s) = (n / 20, n / 5 % 4, n % 5);
                let item = format!(
                    r#"{{"id":"i{t}{u}{s}","TenantId":"T{t}","UserId":"U{u}","SessionId":"S{s}","N":{n}}}"#
                );
                let key = format!(r#"["T{t}","U{u}","S{s}"]"#);
                world.post("/dbs/v3db/colls/hier/docs", &item).key(&key).expect(201);
            }
        }
        "fill 200 items (create)" if record.body.starts_with(br#"{"id":"i1""#) => {
            for n in 2..200 {
                let (key, cat, value) = (n % 37, n % 5, f64::from(n) * 1.5);
                let tags = [n % 3, n % 7].map(|tag| format!("\"t{tag}\"")).join(",");
                let item = format!(
                    r#"{{"id":"i{n}","pk":"p{key}","n":{n},"v":{value:.1},"cat":"c{cat}","tags":[{tags}],"text":"some text {n}"}}"#
                );
                let key = format!(r#"["p{key}"]"#);
                world.post("/dbs/v3db/colls/items/docs", &item).key(&key).expect(201);
            }
        }
        _ => {}
    }
}

/// The key and the text of a reading.
fn reading(n: usize, value: f64) -> (String, String) {
    let (device, hour, minute) = (n % 40, n / 60, n % 60);
    let kind = if n.is_multiple_of(3) { "Temperature" } else { "Humidity" };
    let item = format!(
        r#"{{"id":"r{n}","deviceId":"XMS-{device:04}","readingTime":"2016-07-21T{hour:02}:{minute:02}:00Z","metricType":"{kind}","unit":"F","metricValue":{value:.1}}}"#
    );
    (format!(r#"["XMS-{device:04}"]"#), item)
}

/// `System.Random` of .NET with a seed: Knuth's subtractive generator.
struct Random {
    state: [i64; 55],
    at: usize,
}

impl Random {
    const BIG: i64 = i32::MAX as i64;

    fn new(seed: i64) -> Random {
        let mut state = [0; 55];
        let (mut last, mut next) = (161_803_398 - seed, 1);
        state[54] = last;
        for step in 1..55 {
            let at = 21 * step % 55 - 1;
            state[at] = next;
            next = (last - next).rem_euclid(Random::BIG);
            last = state[at];
        }
        for _ in 0..4 {
            for at in 0..55 {
                state[at] = (state[at] - state[(at + 31) % 55]).rem_euclid(Random::BIG);
            }
        }
        Random { state, at: 0 }
    }

    /// The next number, at least 0 and below 1.
    fn next(&mut self) -> f64 {
        let number =
            (self.state[self.at] - self.state[(self.at + 21) % 55]).rem_euclid(Random::BIG);
        self.state[self.at] = number;
        self.at = (self.at + 1) % 55;
        #[allow(clippy::cast_precision_loss, reason = "it is below 2^31")]
        let (number, big) = (number as f64, Random::BIG as f64);
        number / big
    }
}

#[test]
fn random_numbers_are_those_of_dotnet() {
    let mut random = Random::new(1);
    let numbers: Vec<String> = (0..4).map(|_| format!("{:.1}", random.next() * 200.0)).collect();
    // The first two are recorded as values of readings, the fourth in an answer.
    assert_eq!(numbers, ["49.7", "22.1", "93.4", "154.3"]);
}
