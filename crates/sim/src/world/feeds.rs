//! Readers of change feeds, and what they must have been told.
//!
//! A *group* reads all of a container together: one reader for each of its ranges, which go on in
//! the ranges that come after a split or merge; or one for a logical partition; or one for all.
//! Readers of latest versions are told what is there now and nothing else, each version once, in
//! the order of commits within a logical partition; whoever has reached the end has been told of
//! everything there is. Readers of all versions are told every change, once, in order, also that an
//! item expired: the model has a list of them. Who stays away for longer than versions are kept may
//! be refused, having missed something, and begins anew at that moment.

use std::collections::BTreeMap;

use partita_engine::{
    ChangeKind, ChangedItem, ChangesFrom, ChangesMode, ChangesRequest, Context, Op, Outcome, Scope,
    VersionChange,
};
use partita_model::{Clock, EpkRange, ErrorKind, Value};

use super::{Changed, Checked, World};
use crate::kind::{KEYS, Kind, id_number, path};
use crate::model::lives;

/// Readers who read a container, or a part of it, together.
pub(super) struct Group {
    container: usize,
    mode: ChangesMode,
    members: Vec<Member>,
    /// The logical partition that it reads; none: all of them.
    key: Option<u8>,
    /// The versions that it was told last.
    told: BTreeMap<(u8, u8), u64>,
    /// The LSN of what it was told last of each logical partition.
    lsns: BTreeMap<u8, u64>,
    /// How many changes of each logical partition it was told.
    counts: BTreeMap<u8, usize>,
    /// It came too late, and has to begin anew.
    is_late: bool,
}

/// One reader.
#[derive(Clone)]
struct Member {
    scope: Scope,
    /// What it reads, for a reader of ranges.
    epks: Option<EpkRange>,
    from: ChangesFrom,
    /// How many commits there had been when it was at the end last.
    read: u64,
}

impl Member {
    fn of_range((id, epks): (u32, EpkRange), from: ChangesFrom) -> Member {
        let scope = Scope::Range { id: id.to_string(), within: None };
        Member { scope, epks: Some(epks), from, read: 0 }
    }
}

/// What a page came to.
enum Read {
    Page {
        more: bool,
    },
    /// Its range is no more.
    Gone,
    /// What it wants is not kept any more.
    Late,
    Failed,
}

impl Group {
    fn new(
        (container, mode, key): (usize, ChangesMode, Option<u8>),
        members: Vec<Member>,
        is_late: bool,
    ) -> Group {
        let (told, lsns, counts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Group { container, mode, members, key, told, lsns, counts, is_late }
    }
}

impl World {
    /// Begins to follow a container in all ways.
    pub(super) fn follow_all(&mut self, container: usize, kind: Kind) -> Checked {
        let mut modes = vec![ChangesMode::LatestVersion];
        if kind.keeps_versions() {
            modes.push(ChangesMode::AllVersions);
        }
        for mode in modes {
            let ranges = self.ranges(container)?.unwrap_or_default();
            let of_range = |range| Member::of_range(range, ChangesFrom::Beginning);
            let ranges = ranges.into_iter().map(of_range).collect();
            let from = ChangesFrom::Beginning;
            let alone = |scope| vec![Member { scope, epks: None, from: from.clone(), read: 0 }];
            let mut groups = vec![(None, ranges)];
            groups.extend(
                (0..KEYS).map(|key| (Some(key), alone(Scope::PartitionKey(kind.key(key))))),
            );
            groups.push((None, alone(Scope::All)));
            for (key, members) in groups {
                // All versions are told from a moment on, which is before anything is written.
                let is_late = mode == ChangesMode::AllVersions;
                let of = (container, mode, key);
                self.groups.push(Group::new(of, members, is_late));
                self.begin_anew(self.groups.len() - 1)?;
            }
        }
        Ok(())
    }

    /// Has a group that came too late begin at this moment, unless a fault of the store is in the
    /// way. True if it is not late.
    fn begin_anew(&mut self, group: usize) -> Checked<bool> {
        if !self.groups[group].is_late {
            return Ok(true);
        }
        let container = self.groups[group].container;
        let ranges = self.ranges(container)?.unwrap_or_default();
        let late = &mut self.groups[group];
        match late.members.iter().any(|member| member.epks.is_some()) {
            true => {
                let of_range = |range| Member::of_range(range, ChangesFrom::Now);
                late.members = ranges.into_iter().map(of_range).collect();
            }
            false => late.members.iter_mut().for_each(|member| member.from = ChangesFrom::Now),
        }
        for member in 0..self.groups[group].members.len() {
            if !matches!(self.read_changes(group, member, 1)?, Read::Page { .. }) {
                return Ok(false);
            }
        }
        let changes = self.containers[container].changes.iter();
        let late = &mut self.groups[group];
        late.counts = changes.map(|(key, changes)| (*key, changes.len())).collect();
        late.is_late = false;
        Ok(true)
    }

    /// A reader of a group reads a page.
    pub(super) fn follow(&mut self, group: usize, member: usize, items: usize) -> Checked {
        if group >= self.groups.len() || !self.begin_anew(group)? {
            return Ok(());
        }
        let member = member % self.groups[group].members.len().max(1);
        match self.read_changes(group, member, items)? {
            Read::Gone => self.succeed(group, member),
            Read::Late | Read::Page { .. } | Read::Failed => Ok(()),
        }
    }

    /// All readers read to the end: then they know everything.
    pub(super) fn follow_to_the_end(&mut self) -> Checked {
        for group in 0..self.groups.len() {
            let mut member = 0;
            while member < self.groups[group].members.len() {
                if !self.begin_anew(group)? {
                    continue;
                }
                match self.read_changes(group, member, 100)? {
                    Read::Page { more: true } | Read::Failed => {}
                    Read::Page { more: false } => member += 1,
                    Read::Gone => self.succeed(group, member)?,
                    Read::Late => member = 0,
                }
            }
            self.check_group(group).map_err(|what| {
                let Group { container, mode, key, .. } = &self.groups[group];
                format!("the {mode:?} feed of container {container}, key {key:?}: {what}")
            })?;
        }
        Ok(())
    }

    fn read_changes(&mut self, group: usize, member: usize, items: usize) -> Checked<Read> {
        let Group { container, mode, members, .. } = &self.groups[group];
        let (container, mode) = (*container, *mode);
        let Member { scope, from, .. } = members[member].clone();
        let request = Box::new(ChangesRequest {
            scope,
            mode,
            from,
            since: None,
            query: None,
            items_max: Some(items),
            listen: false,
        });
        let faults = self.disk.faults();
        let op = Op::ReadChanges { container: path(container), request };
        let reply = self.now(op, &Context::default())?;
        if self.is_excused(&reply, faults) {
            return Ok(Read::Failed);
        }
        match reply.result {
            Ok(Outcome::Changes { changes, etag, more, .. }) => {
                let reader = &mut self.groups[group].members[member];
                reader.from = ChangesFrom::Etag(etag);
                reader.read = if more { reader.read } else { self.stamp };
                for change in &changes {
                    self.hear(group, change).map_err(|what| {
                        format!("the {mode:?} feed of container {container}: {what}: {change:?}")
                    })?;
                }
                Ok(Read::Page { more })
            }
            Err(error) if error.kind == ErrorKind::RangeGone => Ok(Read::Gone),
            Err(error) if error.message.contains("within the retention period") => {
                self.come_late(group, member).map_err(|what| {
                    format!("the {mode:?} feed of container {container}: {what}: {error:?}")
                })
            }
            other => Err(format!("the {mode:?} feed of container {container}: {other:?}")),
        }
    }

    /// A reader is refused since versions that it was not told are not kept any more: there must be
    /// some that are old enough.
    fn come_late(&mut self, group: usize, member: usize) -> Checked<Read> {
        let late = &mut self.groups[group];
        let read = late.members[member].read;
        let contents = &self.containers[late.container];
        let kept = contents.kind.and_then(Kind::retention_seconds);
        let kept = kept.ok_or("versions are kept for longer than the run")?;
        let now = self.clock.unix_millis() / 1_000;
        let mut missed = contents.ages.iter().rev().take_while(|(stamp, _)| *stamp > read);
        if !missed.any(|(_, seconds)| seconds + kept < now) {
            return Err("nothing is that old that the reader was not told".into());
        }
        late.is_late = true;
        self.report.latecomers += 1;
        Ok(Read::Late)
    }

    /// Readers of the ranges that came after the one that is gone go on in its place.
    fn succeed(&mut self, group: usize, member: usize) -> Checked {
        let container = self.groups[group].container;
        let Some(ranges) = self.ranges(container)? else { return Ok(()) };
        let gone = self.groups[group].members.remove(member);
        let epks =
            gone.epks.clone().ok_or("a reader of no range is told that its range is gone")?;
        for (id, range) in ranges {
            let Some(part) = range.intersect(&epks) else { continue };
            let scope = Scope::Range { id: id.to_string(), within: Some(part.clone()) };
            let heir = Member { scope, epks: Some(part), ..gone.clone() };
            self.groups[group].members.insert(member, heir);
        }
        Ok(())
    }

    /// A reader is told of a change.
    fn hear(&mut self, group: usize, change: &ChangedItem) -> Checked {
        let container = self.groups[group].container;
        let (kind, seconds) = (self.kind(container), self.seconds());
        let lsn = change.lsn.0;
        if let Some(version) = &change.version {
            return self.hear_version(group, change, version);
        }
        let body = change.current.as_ref().ok_or("a latest version without an item")?;
        let document = Value::parse(&body.0).map_err(|error| error.to_string())?;
        let id = document.get("id").and_then(Value::as_str).and_then(id_number);
        let (key, id) = kind.key_of(&document).zip(id).ok_or("it is of no item")?;
        let item = self.containers[container].keys[&key].get(&id);
        let item = item.filter(|item| lives(kind, item, seconds));
        let n = number(&body.0, "n");
        if item.map(|item| (item.n, item.lsn)) != n.map(|n| (n, lsn)) {
            return Err(format!("the item is {item:?}"));
        }
        let group = &mut self.groups[group];
        // No two versions of a run have the same number.
        if n.is_some() && group.told.insert((key, id), n.unwrap_or(0)) == n {
            return Err("it is told again".into());
        }
        let before = group.lsns.insert(key, lsn).unwrap_or(0);
        match before <= lsn {
            true => Ok(()),
            false => Err(format!("LSN {before} was told before")),
        }
    }

    /// A reader of all versions is told of a change: it must be the next one.
    fn hear_version(
        &mut self,
        group: usize,
        change: &ChangedItem,
        version: &VersionChange,
    ) -> Checked {
        let container = self.groups[group].container;
        let kind = self.kind(container);
        let header = version.partition_key.to_string();
        let key = (0..KEYS).find(|key| same_key(&kind.key_json(*key), &header));
        let (key, id) = key.zip(id_number(&version.id)).ok_or("it is of no item")?;
        let n = change.current.as_ref().and_then(|body| number(&body.0, "n"));
        let (expired, previous) = (version.expired, version.previous_lsn.map(|lsn| lsn.0));
        let told = Changed { lsn: change.lsn.0, id, n, expired, previous };
        let sort = match (n, previous) {
            (None, _) => ChangeKind::Delete,
            (Some(_), None) => ChangeKind::Create,
            (Some(_), Some(_)) => ChangeKind::Replace,
        };
        let count = self.groups[group].counts.entry(key).or_default();
        let expected = self.containers[container].changes.get(&key);
        let expected = expected.and_then(|changes| changes.get(*count));
        *count += 1;
        match expected == Some(&told) && version.kind == sort {
            true => Ok(()),
            false => Err(format!("the next change is {expected:?}")),
        }
    }

    /// Who has read to the end has been told of everything.
    fn check_group(&self, group: usize) -> Checked {
        let Group { container, mode, key, told, counts, .. } = &self.groups[group];
        let is_read = |of: u8| key.is_none_or(|key| key == of);
        if *mode == ChangesMode::AllVersions {
            let changes = self.containers[*container].changes.iter();
            for (of, changes) in changes.filter(|(of, _)| is_read(**of)) {
                let count = counts.get(of).copied().unwrap_or(0);
                if count != changes.len() {
                    let missed = changes.get(count);
                    return Err(format!("the reader was not told of {missed:?} of key {of}"));
                }
            }
            return Ok(());
        }
        for (of, id, item) in self.living(*container) {
            if is_read(of) && told.get(&(of, id)) != Some(&item.n) {
                return Err(format!("the reader was not told of {item:?} of key {of}"));
            }
        }
        Ok(())
    }
}

fn number(text: &[u8], name: &str) -> Option<u64> {
    let document = Value::parse(text).ok()?;
    document.get(name).and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok())
}

/// Are two keys the same, as JSON or as they are printed?
fn same_key(one: &str, other: &str) -> bool {
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    plain(one) == plain(other)
}
