//! What can go wrong in a store, by what the caller should do about it.
//!
//! The error is `Clone`: one failed write resolves every ticket that waited for it. It therefore
//! carries the text of an I/O error, not the error itself.

use crate::contract::{PartitionId, Space};

/// Why a store refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// An expectation of the batch does not hold: nothing was changed. Read again, prepare again.
    #[error("the record {} in {space:?} is not as the batch expected", hex(key))]
    Conflict { space: Space, key: Vec<u8> },

    /// Choose another id: ids are never reused, also not those of dropped partitions.
    #[error("partition {} exists already or was dropped before", .0.0)]
    PartitionExists(PartitionId),

    /// The partition was dropped or never made. Look up where its data live now.
    #[error("partition {} does not exist", .0.0)]
    PartitionGone(PartitionId),

    /// The partition rests, because its data are about to live elsewhere. Wait for that, or for its
    /// end, and look up where they live then.
    #[error("partition {} is sealed", .0.0)]
    Sealed(PartitionId),

    /// The batch itself is at fault (a key twice, a key too long): a defect of the caller.
    #[error("the batch is not valid: {0}")]
    BadBatch(String),

    /// More is waiting to be written than the store holds in memory. Retry after a moment.
    #[error("the store's queue is full ({0} bytes waiting): retry later")]
    Overloaded(u64),

    /// This write failed, and what of it reached the disk is unknown until the store is opened
    /// again: it may be done then or not, whole in any case.
    #[error(
        "the store stopped at a failed write ({0}). Whether this write was done is known when the \
         store has been opened again, which it tries by itself: read what is there before you \
         repeat it"
    )]
    Poisoned(String),

    /// Another write failed before this one, which was not tried. The store is to be opened again.
    #[error(
        "the store stopped after a failed write ({0}) and is being opened again: this request was \
         not done, retry later"
    )]
    Stopped(String),

    /// The snapshot is from before the store was opened again: take a new one.
    #[error("the store was opened again while this was read: retry")]
    Reopened,

    /// The disk has no room for this batch. Nothing was changed.
    #[error("{0}")]
    DiskFull(String),

    /// The store was closed.
    #[error("the store is closed")]
    Closed,

    /// Stored bytes are not what was written. Repair is explicit, never silent.
    #[error("stored data are damaged: {0}")]
    Corrupt(String),

    /// The operating system refused a read or a file operation. Nothing was changed.
    #[error("input/output error: {0}")]
    Io(String),

    /// The data directory and the settings do not fit together, or another process holds it.
    #[error("{0}")]
    Settings(String),
}

impl StorageError {
    /// An I/O error with what was being done.
    pub fn io(doing: impl std::fmt::Display, error: &std::io::Error) -> StorageError {
        StorageError::Io(format!("{doing}: {error}"))
    }
}

impl From<StorageError> for partita_model::Error {
    /// What a failure of the store means to the one who asked the database. Conflicts and lost or
    /// sealed partitions are the engine's to handle before they get here; a retry is right then.
    fn from(error: StorageError) -> partita_model::Error {
        use partita_model::ErrorKind;
        let kind = match &error {
            StorageError::Conflict { .. }
            | StorageError::PartitionGone(_)
            | StorageError::Sealed(_) => ErrorKind::RetryWith,
            StorageError::Overloaded(_)
            | StorageError::Poisoned(_)
            | StorageError::Stopped(_)
            | StorageError::Reopened
            | StorageError::Closed => ErrorKind::Unavailable,
            StorageError::DiskFull(_) => ErrorKind::DiskFull,
            StorageError::Corrupt(_) => ErrorKind::Corrupt,
            StorageError::PartitionExists(_)
            | StorageError::BadBatch(_)
            | StorageError::Io(_)
            | StorageError::Settings(_) => ErrorKind::Internal,
        };
        partita_model::Error::new(kind, error.to_string())
    }
}

/// The beginning of a key, for messages.
fn hex(key: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    let mut text: String = key.iter().take(SHOWN_BYTES_MAX).map(|b| format!("{b:02x}")).collect();
    if key.len() > SHOWN_BYTES_MAX {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_names_space_and_key() {
        let error = StorageError::Conflict { space: Space::Items, key: vec![0xab, 0x01] };
        assert_eq!(error.to_string(), "the record ab01 in Items is not as the batch expected");
    }

    #[test]
    fn a_long_key_is_cut_in_messages() {
        let error = StorageError::Conflict { space: Space::Meta, key: vec![7; 1000] };
        assert!(error.to_string().len() < 250);
    }
}
