//! How much memory there is for this process: what its cgroups allow, or what the machine has.
//!
//! A container's limit is a file of its cgroup, and a cgroup is bound by those that it is in, so
//! the least on the way up to the root counts. The machine's own memory bounds all of them. What is
//! divided among caches and budgets is this number, never a constant.
//!
//! ```text
//!   /proc/self/cgroup                 0::/app/server        version 2: one hierarchy
//!   /sys/fs/cgroup/app/server/memory.max      max           no limit here
//!   /sys/fs/cgroup/app/memory.max             314572800     this one counts
//!   /proc/meminfo                     MemTotal: 16303116 kB
//! ```
//!
//! Within a container the path is often the host's while the mount shows only the container's own
//! cgroup: directories that are not there are passed over, and the mount's root is asked in any
//! case. Version 1 is read likewise, in the hierarchy of its memory controller. Other systems than
//! Linux tell nothing here, and who asks must have a number of his own for that.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// How much memory there is, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: u64,
    pub(crate) set_by: SetBy,
}

/// Where a limit of memory comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetBy {
    /// This file of a cgroup.
    Cgroup(PathBuf),
    /// What the machine has.
    Machine,
}

/// Where a version of cgroups has its hierarchy and its limit.
struct Hierarchy {
    mount: &'static str,
    file: &'static str,
}

const VERSION_2: Hierarchy = Hierarchy { mount: "sys/fs/cgroup", file: "memory.max" };
const VERSION_1: Hierarchy =
    Hierarchy { mount: "sys/fs/cgroup/memory", file: "memory.limit_in_bytes" };

impl MemoryLimit {
    /// The limit of this process; None if the system does not tell.
    pub(crate) fn of_this_process() -> Option<MemoryLimit> {
        MemoryLimit::below(Path::new("/"))
    }

    /// The same, with the system's files below this directory.
    fn below(root: &Path) -> Option<MemoryLimit> {
        let machine = machine_bytes(root);
        let machine = machine.map(|bytes| MemoryLimit { bytes, set_by: SetBy::Machine });
        // Of equal limits the machine's is named: version 1 writes "none" as a huge number.
        machine.into_iter().chain(cgroup_limits(root)).min_by_key(|limit| limit.bytes)
    }
}

fn machine_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The limits of all cgroups that this process is in.
fn cgroup_limits(root: &Path) -> Vec<MemoryLimit> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in text.lines() {
        // The number of the hierarchy, its controllers, the path.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let hierarchy = match controllers {
            "" => VERSION_2,
            names if names.split(',').any(|name| name == "memory") => VERSION_1,
            _ => continue,
        };
        limits.extend(limits_on_the_way_up(root, &hierarchy, path));
    }
    limits
}

fn limits_on_the_way_up(root: &Path, hierarchy: &Hierarchy, path: &str) -> Vec<MemoryLimit> {
    let mount = root.join(hierarchy.mount);
    // A path that leads above the root of a namespace names nothing that can be seen from here.
    let visible = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let is_visible = Path::new(path).components().skip(1).all(|part| visible(&part));
    let mut directory =
        if is_visible { mount.join(path.trim_start_matches('/')) } else { mount.clone() };
    let mut limits = Vec::new();
    loop {
        let file = directory.join(hierarchy.file);
        if let Some(bytes) = read_limit(&file) {
            limits.push(MemoryLimit { bytes, set_by: SetBy::Cgroup(file) });
        }
        if directory == mount || !directory.pop() {
            return limits;
        }
    }
}

/// None if there is no such file, or it says `max`.
fn read_limit(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes / (1024 * 1024);
        match &self.set_by {
            SetBy::Cgroup(file) => write!(f, "{megabytes} MB, the limit in {}", file.display()),
            SetBy::Machine => write!(f, "{megabytes} MB, the machine's memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       16303116 kB\nMemFree: 1 kB\n");
    const MACHINE: u64 = 16_303_116 * 1024;

    /// A directory with these files, as the root of a system.
    struct Root(PathBuf);

    impl Root {
        fn with(files: &[(&str, &str)]) -> Root {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("partita-memory-limit-{}-{number}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for (path, text) in files {
                let file = root.join(path);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            Root(root)
        }

        /// The limit in bytes, and the file below the root that sets it.
        fn limit(&self) -> Option<(u64, Option<String>)> {
            let MemoryLimit { bytes, set_by } = MemoryLimit::below(&self.0)?;
            let SetBy::Cgroup(file) = set_by else { return Some((bytes, None)) };
            Some((bytes, Some(file.strip_prefix(&self.0).unwrap().display().to_string())))
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn limit(files: &[(&str, &str)]) -> Option<(u64, Option<String>)> {
        Root::with(files).limit()
    }

    #[test]
    fn without_cgroups_it_is_what_the_machine_has() {
        assert_eq!(limit(&[MEMINFO]), Some((MACHINE, None)));
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[("proc/meminfo", "MemTotal: many kB\n")]), None);
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let own = ("proc/self/cgroup", "0::/app/server\n");
        let limits = |server: &str, app: &str, top: &str| {
            limit(&[
                MEMINFO,
                own,
                ("sys/fs/cgroup/app/server/memory.max", server),
                ("sys/fs/cgroup/app/memory.max", app),
                ("sys/fs/cgroup/memory.max", top),
            ])
        };
        let set_in = |bytes, file: &str| Some((bytes, Some(format!("sys/fs/cgroup/{file}"))));
        assert_eq!(limits("max\n", "max\n", "max\n"), Some((MACHINE, None)));
        assert_eq!(limits("300\n", "max\n", "max\n"), set_in(300, "app/server/memory.max"));
        assert_eq!(limits("300\n", "200\n", "max\n"), set_in(200, "app/memory.max"));
        assert_eq!(limits("300\n", "200\n", "100\n"), set_in(100, "memory.max"));
        let beyond = (MACHINE + 1).to_string();
        assert_eq!(limits(&beyond, "max\n", "max\n"), Some((MACHINE, None)));
        // A broken file limits nothing.
        assert_eq!(limits("-1", "", "many"), Some((MACHINE, None)));
    }

    #[test]
    fn a_path_of_the_hosts_is_looked_up_in_what_the_mount_shows() {
        let top = ("sys/fs/cgroup/memory.max", "300\n");
        for path in ["/", "/docker/0123", "/../../system.slice", "/a/../../b"] {
            let own = format!("0::{path}\n");
            let found = limit(&[MEMINFO, ("proc/self/cgroup", &own), top]);
            assert_eq!(found, Some((300, Some("sys/fs/cgroup/memory.max".into()))), "{path}");
        }
    }

    #[test]
    fn the_first_version_is_read_in_its_own_hierarchy() {
        let own = "12:cpu,cpuacct:/c\n4:memory:/m\n0::/unified\n";
        let file = "sys/fs/cgroup/memory/m/memory.limit_in_bytes";
        let found = limit(&[MEMINFO, ("proc/self/cgroup", own), (file, "300\n")]);
        assert_eq!(found, Some((300, Some(file.into()))));
        // No limit is written as a number of pages that no machine has.
        let none = limit(&[MEMINFO, ("proc/self/cgroup", own), (file, "9223372036854771712\n")]);
        assert_eq!(none, Some((MACHINE, None)));
    }

    #[test]
    fn a_limit_says_where_it_comes_from() {
        let machine = MemoryLimit { bytes: 3 << 30, set_by: SetBy::Machine };
        assert_eq!(machine.to_string(), "3072 MB, the machine's memory");
        let file = PathBuf::from("/sys/fs/cgroup/memory.max");
        let cgroup = MemoryLimit { bytes: 300 << 20, set_by: SetBy::Cgroup(file) };
        assert_eq!(cgroup.to_string(), "300 MB, the limit in /sys/fs/cgroup/memory.max");
    }
}
