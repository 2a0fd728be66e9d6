//! The engine through its one entry, on containers with one and with several partitions.

mod catalog;
mod concurrency;
mod harness;
mod items;
mod lists;
mod model;
mod restart;
