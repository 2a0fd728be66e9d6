//! Why the program ended, as a message and an exit code.
//!
//! Scripts and service managers act on the code, people on the message: each kind of trouble that
//! asks for a different reaction has its own code. They are listed in `partita --help`.

use std::fmt;
use std::process::ExitCode;

use partita_gateway::{BindError, TlsError};
use partita_storage::StorageError;

/// What went wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    kind: Kind,
    message: String,
}

/// What to do about it decides the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything else.
    Other = 1,
    /// A flag or a combination of flags is wrong. The code clap uses as well.
    Usage = 2,
    /// An address cannot be listened on: in use, not ours, not allowed.
    Address = 3,
    /// The data directory is locked by another process, not writable, or made with other settings.
    DataDirectory = 4,
    /// Stored data are damaged.
    Damaged = 5,
}

/// Ended by a second signal while draining: what a shell reports for Ctrl-C.
pub const EXIT_INTERRUPTED: i32 = 130;

impl Failure {
    pub fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Usage, message)
    }

    pub fn other(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Other, message)
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Failure {
        Failure::new(Kind::Address, format!("{error} (--listen)"))
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Failure {
        let kind = match error {
            StorageError::Settings(_) | StorageError::Io(_) => Kind::DataDirectory,
            StorageError::Corrupt(_) => Kind::Damaged,
            _ => Kind::Other,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<partita_model::Error> for Failure {
    fn from(error: partita_model::Error) -> Failure {
        let kind = match error.kind {
            partita_model::ErrorKind::Corrupt => Kind::Damaged,
            _ => Kind::Other,
        };
        Failure::new(kind, error.message)
    }
}

impl From<TlsError> for Failure {
    fn from(error: TlsError) -> Failure {
        let kind = match error {
            TlsError::Name { .. } => Kind::Usage,
            TlsError::Write { .. } => Kind::DataDirectory,
            _ => Kind::Other,
        };
        Failure::new(kind, error.to_string())
    }
}
