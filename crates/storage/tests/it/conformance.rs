//! Every store and every decorator runs the one list of cases.

use std::sync::Arc;

use partita_storage::suite::{self, Rig};
use partita_storage::{
    Durability, EmbeddedSettings, EmbeddedStore, FaultPlan, FaultStore, MemoryStore, MirrorStore,
    Store,
};

use crate::dir::TempDir;

struct Memory;

impl Rig for Memory {
    fn open(&self) -> Box<dyn Store> {
        Box::new(MemoryStore::new())
    }

    fn is_durable(&self) -> bool {
        false
    }
}

struct Embedded {
    dir: TempDir,
    settings: EmbeddedSettings,
}

impl Embedded {
    fn rig(lanes: usize, durability: Durability) -> Box<dyn Rig> {
        let settings =
            EmbeddedSettings { durability, lanes: Some(lanes), ..EmbeddedSettings::default() };
        Box::new(Embedded { dir: TempDir::new(), settings })
    }
}

impl Rig for Embedded {
    fn open(&self) -> Box<dyn Store> {
        Box::new(EmbeddedStore::open(self.dir.path(), self.settings.clone()).unwrap())
    }

    fn is_durable(&self) -> bool {
        true
    }
}

struct Mirror(Box<dyn Rig>);

impl Rig for Mirror {
    fn open(&self) -> Box<dyn Store> {
        Box::new(MirrorStore::new(Box::new(MemoryStore::new()), self.0.open()))
    }

    fn is_durable(&self) -> bool {
        false
    }
}

struct Fault(Box<dyn Rig>);

impl Rig for Fault {
    fn open(&self) -> Box<dyn Store> {
        let plan = FaultPlan { seed: 7, latency_micros_max: 50, ..FaultPlan::default() };
        Box::new(FaultStore::new(Arc::from(self.0.open()), plan))
    }

    fn is_durable(&self) -> bool {
        self.0.is_durable()
    }
}

#[test]
fn the_store_in_memory_conforms() {
    suite::run("memory", &|| Box::new(Memory));
}

#[test]
fn the_embedded_store_with_one_lane_conforms() {
    suite::run("embedded, one lane", &|| Embedded::rig(1, Durability::Sync));
}

#[test]
fn the_embedded_store_with_two_lanes_conforms() {
    suite::run("embedded, two lanes", &|| Embedded::rig(2, Durability::Sync));
}

#[test]
fn the_relaxed_embedded_store_conforms() {
    suite::run("embedded, relaxed", &|| Embedded::rig(2, Durability::Relaxed));
}

#[test]
fn memory_and_embedded_agree() {
    suite::run("mirror", &|| Box::new(Mirror(Embedded::rig(2, Durability::Relaxed))));
}

#[test]
fn a_slow_store_in_memory_conforms() {
    suite::run("fault(memory)", &|| Box::new(Fault(Box::new(Memory))));
}

#[test]
fn a_slow_embedded_store_conforms() {
    suite::run("fault(embedded)", &|| Box::new(Fault(Embedded::rig(2, Durability::Sync))));
}
