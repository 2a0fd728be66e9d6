//! What lies in a store's directory: its files, what they must be, and that they are on disk.
//!
//! A store writes down what must be there ([`manifest`]), compares it with what is there before the
//! engine is opened ([`inventory`]), and syncs the names of files with their directories
//! ([`durable`]). Of the engine's own files it knows the journals ([`files::journal`]) and the
//! tables ([`engine_files`]); a check works on a copy of them ([`copy`]).

pub(in crate::embedded) mod checked;
pub(in crate::embedded) mod copy;
pub(in crate::embedded) mod directory;
pub(in crate::embedded) mod durable;
pub(in crate::embedded) mod engine_files;
pub(in crate::embedded) mod inventory;
pub(in crate::embedded) mod journal;
pub(in crate::embedded) mod manifest;
pub(in crate::embedded) mod mark;
