//! Stopping: by signal, with requests under way, and twice.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::process::{Directory, Process};

#[test]
fn both_signals_stop_the_server_cleanly() {
    for signal in ["TERM", "INT"] {
        let directory = Directory::new(&format!("stop_{signal}"));
        let process = Process::start(&directory, &[]);
        process.signal(signal);
        let (code, rest, log) = process.end();
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(rest, "", "standard output carries the ready line and nothing else");
        assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
        assert!(log.contains("stopped"), "{log}");
        // What it left can be opened again, with the same certificate.
        let again = Process::start(&directory, &[]);
        assert_eq!(again.get("/ready").0, 200);
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let directory = Directory::new("stop_twice");
    let process = Process::start(&directory, &["--drain-seconds", "600"]);
    // A request whose body never comes holds up the drain.
    let mut stream = TcpStream::connect(process.address()).unwrap();
    let head =
        b"POST /dbs HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    stream.write_all(head).unwrap();
    // The server asks for the body: the request is under way.
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100");

    process.signal("TERM");
    // The listener closes when the first signal has arrived.
    while TcpStream::connect(process.address()).is_ok() {
        std::thread::yield_now();
    }
    process.signal("TERM");
    assert_eq!(process.end().0, Some(130));
}

#[test]
fn a_killed_server_starts_again() {
    let directory = Directory::new("killed");
    for _ in 0..3 {
        let process = Process::start(&directory, &[]);
        assert_eq!(process.get("/ready").0, 200);
        process.signal("KILL");
        assert_eq!(process.end().0, None);
    }
}
