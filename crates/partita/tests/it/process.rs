//! A `partita` process, and a directory that goes away with its test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

/// A fresh directory under the build's own.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Directory {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The program, in this directory, untouched by the environment of whoever runs the tests.
pub(crate) fn partita(directory: &Directory, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partita"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PARTITA_")) {
        command.env_remove(name);
    }
    // What servers without a data directory leave is not left in the home of who runs the tests.
    command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("user-cache"));
    command.args(arguments).current_dir(&directory.0);
    command
}

/// Runs the program to its end.
pub(crate) fn run(directory: &Directory, arguments: &[&str]) -> Output {
    partita(directory, arguments).output().unwrap()
}

/// A server that has said that it is ready.
pub(crate) struct Process {
    child: Child,
    /// What it said.
    pub(crate) ready: Value,
    output: BufReader<std::process::ChildStdout>,
    /// Reads the log all along: a server that cannot write any more would stand still.
    log: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts a server on a free port and waits for its ready line.
    pub(crate) fn start(directory: &Directory, arguments: &[&str]) -> Process {
        let always = ["--listen", "0", "--log-format", "json"];
        Process::of(&mut partita(directory, &[&always, arguments].concat()))
    }

    /// Starts this one, which shall have said that it listens on any port and logs JSON.
    pub(crate) fn of(command: &mut Command) -> Process {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = child.stderr.take().unwrap();
        let log = thread::Builder::new().spawn(move || {
            let mut log = String::new();
            drop(errors.read_to_string(&mut log));
            log
        });
        let log = log.unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        match serde_json::from_str(&line) {
            Ok(ready) => Process { child, ready, output, log: Some(log) },
            Err(error) => {
                drop(child.kill());
                let log = log.join().unwrap();
                panic!("no ready line but {line:?} ({error}); the log says {log}")
            }
        }
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        self.ready["listen"][0].as_str().unwrap()
    }

    /// The status code and body of a request without a key.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        (status, text.split_once("\r\n\r\n").unwrap().1.to_string())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for the end: exit code, the rest of standard output, the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, rest, self.log.take().unwrap().join().unwrap())
    }
}

/// A test that fails leaves no server behind.
impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Asks until the answer is the expected one, since a signal is taken up in its own time.
pub(crate) fn eventually(expected: u16, mut ask: impl FnMut() -> u16) {
    let mut last = 0;
    for _ in 0..3_000 {
        last = ask();
        if last == expected {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{last} in place of {expected}");
}
