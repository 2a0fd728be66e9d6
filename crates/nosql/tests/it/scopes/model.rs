//! The reference: items, what can be asked, and who may do and see what. It knows nothing of how
//! the server decides.

use std::collections::BTreeSet;

use partita_engine::DataAction;
use partita_model::{Entropy, SeededEntropy};

/// Two levels of keys with three values each, and two items under each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    pub(super) t: u64,
    pub(super) u: u64,
    pub(super) id: u64,
}

impl Item {
    pub(super) fn all() -> impl Iterator<Item = Item> {
        (0..18).map(|number| Item { t: number / 6, u: number / 2 % 3, id: number % 2 })
    }

    /// Its id, by which it is known wherever it appears.
    pub(super) fn name(self) -> String {
        format!("N-{}-{}-{}-E", self.t, self.u, self.id)
    }

    pub(super) fn secret(self) -> String {
        format!("S-{}-{}-{}-E", self.t, self.u, self.id)
    }

    pub(super) fn body(self) -> String {
        let (Item { t, u, .. }, name, secret) = (self, self.name(), self.secret());
        format!(r#"{{"id":"{name}","t":"t{t}","u":"u{u}","secret":"{secret}"}}"#)
    }

    pub(super) fn place(self) -> Where {
        Where::Key(self.t, self.u)
    }
}

/// The keys that a request names, or a permission: both levels, the first one, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Key(u64, u64),
    Prefix(u64),
    Everywhere,
}

impl Where {
    pub(super) fn json(self) -> Option<String> {
        match self {
            Where::Key(t, u) => Some(format!(r#"["t{t}","u{u}"]"#)),
            Where::Prefix(t) => Some(format!(r#"["t{t}"]"#)),
            Where::Everywhere => None,
        }
    }

    pub(super) fn holds(self, other: Where) -> bool {
        match (self, other) {
            (Where::Everywhere, _) => true,
            (Where::Prefix(t), Where::Key(of, _) | Where::Prefix(of)) => t == of,
            (mine, other) => mine == other,
        }
    }
}

/// Something that is read page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Paging {
    Plain,
    Filtered,
    Ordered,
    Distinct,
    /// Through a user-defined function.
    Function,
    List,
    /// The change feed: latest versions, all versions.
    Feed,
    Versions,
}

impl Paging {
    const ALL: [Paging; 8] = [
        Paging::Plain,
        Paging::Filtered,
        Paging::Ordered,
        Paging::Distinct,
        Paging::Function,
        Paging::List,
        Paging::Feed,
        Paging::Versions,
    ];

    /// The text of a query.
    pub(super) fn text(self) -> Option<&'static str> {
        match self {
            Paging::Plain => Some("SELECT * FROM c"),
            Paging::Filtered => Some("SELECT * FROM c WHERE c.secret >= 'S-1'"),
            Paging::Ordered => Some("SELECT * FROM c ORDER BY c.secret"),
            Paging::Distinct => Some("SELECT DISTINCT VALUE c.secret FROM c"),
            Paging::Function => Some("SELECT VALUE udf.tell(c) FROM c"),
            Paging::List | Paging::Feed | Paging::Versions => None,
        }
    }
}

/// Stored procedures, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Procedure {
    /// Everything that can be found in all ways.
    All,
    /// One item, by its name and by its resource id.
    One,
    /// Writes an item.
    Write,
    /// One row of a query behind a continuation.
    Page,
}

impl Procedure {
    pub(super) const ALL: [Procedure; 4] =
        [Procedure::All, Procedure::One, Procedure::Write, Procedure::Page];

    pub(super) fn name(self) -> &'static str {
        match self {
            Procedure::All => "all",
            Procedure::One => "one",
            Procedure::Write => "write",
            Procedure::Page => "page",
        }
    }
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Read(Item),
    /// By its resource id, with this key beside it.
    ReadByRid(Item, Where),
    Create(Item),
    Upsert(Item),
    Replace(Item),
    Patch(Item),
    Delete(Item),
    /// Writes with a trigger that looks at everything.
    UpsertTriggered(Item),
    ReplaceTriggered(Item),
    /// A page; `resumed`: behind a continuation that somebody took somewhere.
    Page {
        paging: Paging,
        place: Where,
        resumed: bool,
        short: bool,
    },
    Run(Procedure, Where, Item),
    BatchRead(Item),
    BatchWrite(Item),
    Bulk(Item, Item),
    ReadMany(Item, Item),
    Plan,
    ReadProcedure(Procedure),
    /// Writes a procedure anew, as it is.
    WriteProcedure(Procedure),
    ListProcedures,
    Definition,
    Statistics,
}

impl Act {
    /// Which items could its answer be about?
    pub(super) fn reaches(self, item: Item) -> bool {
        match self {
            Act::Read(one)
            | Act::ReadByRid(one, _)
            | Act::Create(one)
            | Act::Upsert(one)
            | Act::Replace(one)
            | Act::Patch(one)
            | Act::Delete(one)
            | Act::BatchRead(one)
            | Act::BatchWrite(one) => one == item,
            Act::UpsertTriggered(one) | Act::ReplaceTriggered(one) => one.place() == item.place(),
            Act::Page { place, .. } | Act::Run(_, place, _) => place.holds(item.place()),
            Act::Bulk(one, other) | Act::ReadMany(one, other) => [one, other].contains(&item),
            Act::Plan
            | Act::ReadProcedure(_)
            | Act::WriteProcedure(_)
            | Act::ListProcedures
            | Act::Definition
            | Act::Statistics => false,
        }
    }

    /// Does the request itself name this item, so that an error may repeat the name?
    pub(super) fn names(self, item: Item) -> bool {
        match self {
            Act::Run(_, _, one) => one == item,
            Act::Page { .. } => false,
            _ => self.reaches(item),
        }
    }

    /// Must its answer show everything that it reaches?
    pub(super) fn is_complete(self) -> bool {
        match self {
            Act::Page { paging, resumed, short, .. } => {
                let all = !matches!(paging, Paging::Filtered | Paging::Versions);
                all && !resumed && !short
            }
            Act::Run(Procedure::All, ..) | Act::UpsertTriggered(_) => true,
            _ => false,
        }
    }
}

/// What a permission is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opens {
    Place(Where),
    Item(Item),
    Procedure(Procedure, Where),
}

/// What a credential opens.
#[derive(Clone, Debug)]
pub(super) enum Holds {
    Token { opens: Opens, writes: bool },
    Roles(BTreeSet<DataAction>),
}

/// What must be held for an act, for tokens.
enum Needs {
    Nothing,
    Item(Item),
    /// All under these keys, which the request names.
    Places(Vec<Where>),
    Everything,
    Procedure(Procedure),
    /// The procedure, under all keys.
    Change(Procedure),
    Run(Procedure, Where),
}

fn needs(act: Act) -> (Needs, bool) {
    let places = |one: Item| Needs::Places(vec![one.place()]);
    match act {
        Act::Read(one) => (Needs::Item(one), false),
        Act::ReadByRid(one, under) if one.place() == under => (Needs::Item(one), false),
        Act::ReadByRid(_, under) => (Needs::Places(vec![under]), false),
        Act::Replace(one) | Act::Patch(one) | Act::Delete(one) => (Needs::Item(one), true),
        Act::Create(one)
        | Act::Upsert(one)
        | Act::BatchWrite(one)
        | Act::UpsertTriggered(one)
        | Act::ReplaceTriggered(one) => (places(one), true),
        Act::BatchRead(one) => (places(one), false),
        Act::Bulk(one, other) => (Needs::Places(vec![one.place(), other.place()]), false),
        Act::Page { place: Where::Everywhere, .. } | Act::ReadMany(..) => {
            (Needs::Everything, false)
        }
        Act::Page { place, .. } => (Needs::Places(vec![place]), false),
        Act::Run(procedure, place, _) => (Needs::Run(procedure, place), true),
        Act::Plan | Act::Definition => (Needs::Nothing, false),
        Act::ReadProcedure(procedure) => (Needs::Procedure(procedure), false),
        Act::WriteProcedure(procedure) => (Needs::Change(procedure), true),
        Act::ListProcedures | Act::Statistics => (Needs::Everything, false),
    }
}

/// None: closed to all roles.
fn action(act: Act) -> Option<DataAction> {
    Some(match act {
        Act::Read(_) | Act::ReadByRid(..) | Act::BatchRead(_) | Act::Bulk(..) => {
            DataAction::ReadItem
        }
        Act::Create(_) => DataAction::CreateItem,
        Act::Upsert(_) | Act::BatchWrite(_) | Act::UpsertTriggered(_) => DataAction::UpsertItem,
        Act::Replace(_) | Act::Patch(_) | Act::ReplaceTriggered(_) => DataAction::ReplaceItem,
        Act::Delete(_) => DataAction::DeleteItem,
        Act::Page { paging: Paging::List, .. } => DataAction::ReadItem,
        Act::Page { paging: Paging::Feed | Paging::Versions, .. } => DataAction::ReadChangeFeed,
        Act::Page { .. } | Act::ReadMany(..) | Act::Plan => DataAction::ExecuteQuery,
        Act::Run(..) => DataAction::ExecuteStoredProcedure,
        Act::Definition | Act::Statistics => DataAction::ReadMetadata,
        Act::ReadProcedure(_) | Act::WriteProcedure(_) | Act::ListProcedures => return None,
    })
}

impl Holds {
    pub(super) fn allows(&self, act: Act) -> bool {
        match self {
            Holds::Roles(actions) => action(act).is_some_and(|action| actions.contains(&action)),
            Holds::Token { opens, writes } => {
                let (needs, changes) = needs(act);
                (*writes || !changes) && opens.suffices(&needs)
            }
        }
    }

    /// May this item appear in the answer to an act?
    pub(super) fn shows(&self, act: Act, item: Item) -> bool {
        let held = match self {
            Holds::Roles(_) => true,
            Holds::Token { opens: Opens::Place(place), .. } => place.holds(item.place()),
            Holds::Token { opens: Opens::Item(one), .. } => *one == item,
            Holds::Token { opens: Opens::Procedure(procedure, place), .. } => {
                matches!(act, Act::Run(run, ..) if run == *procedure) && place.holds(item.place())
            }
        };
        held && act.reaches(item) && self.allows(act)
    }
}

impl Opens {
    fn suffices(&self, needs: &Needs) -> bool {
        match (self, needs) {
            (_, Needs::Nothing) => true,
            (Opens::Place(place), Needs::Item(item)) => place.holds(item.place()),
            (Opens::Place(place), Needs::Places(all)) => all.iter().all(|one| place.holds(*one)),
            (Opens::Place(place), Needs::Everything | Needs::Procedure(_) | Needs::Change(_)) => {
                *place == Where::Everywhere
            }
            (Opens::Place(place), Needs::Run(_, under)) => place.holds(*under),
            (Opens::Item(one), Needs::Item(item)) => one == item,
            (Opens::Item(_), _) => false,
            (Opens::Procedure(mine, _), Needs::Procedure(other)) => mine == other,
            (Opens::Procedure(mine, place), Needs::Change(other)) => {
                mine == other && *place == Where::Everywhere
            }
            (Opens::Procedure(mine, place), Needs::Run(other, under)) => {
                mine == other && place.holds(*under)
            }
            (Opens::Procedure(..), _) => false,
        }
    }
}

/// Chance.
pub(super) struct Chance(SeededEntropy);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(SeededEntropy::new(seed))
    }

    pub(super) fn below(&self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    pub(super) fn is_heads(&self) -> bool {
        self.below(2) == 0
    }

    pub(super) fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub(super) fn item(&self) -> Item {
        Item { t: self.below(3), u: self.below(3), id: self.below(2) }
    }

    pub(super) fn key(&self) -> Where {
        Where::Key(self.below(3), self.below(3))
    }

    pub(super) fn place(&self) -> Where {
        match self.below(3) {
            0 => Where::Everywhere,
            1 => Where::Prefix(self.below(3)),
            _ => self.key(),
        }
    }

    pub(super) fn opens(&self) -> Opens {
        match self.below(6) {
            0 => Opens::Item(self.item()),
            1 => Opens::Procedure(self.one_of(&Procedure::ALL), self.place()),
            _ => Opens::Place(self.place()),
        }
    }

    /// An act; half of those on one item are on this one.
    pub(super) fn act(&self, near: Item) -> Act {
        let item = || if self.is_heads() { near } else { self.item() };
        match self.below(25) {
            0 => Act::Read(item()),
            1 => Act::ReadByRid(item(), if self.is_heads() { near.place() } else { self.key() }),
            2 => Act::Create(item()),
            3 => Act::Upsert(item()),
            4 => Act::Replace(item()),
            5 => Act::Patch(item()),
            6 => Act::Delete(item()),
            7 => Act::UpsertTriggered(item()),
            8 => Act::ReplaceTriggered(item()),
            9 => Act::BatchRead(item()),
            10 => Act::BatchWrite(item()),
            11 => Act::Bulk(item(), item()),
            12 => Act::ReadMany(item(), item()),
            13 => self.one_of(&[Act::Plan, Act::ListProcedures, Act::Definition, Act::Statistics]),
            14 => Act::ReadProcedure(self.one_of(&Procedure::ALL)),
            24 => Act::WriteProcedure(self.one_of(&Procedure::ALL)),
            15..=17 => Act::Run(self.one_of(&Procedure::ALL), item().place(), item()),
            _ => Act::Page {
                paging: self.one_of(&Paging::ALL),
                place: if self.is_heads() { near.place() } else { self.place() },
                resumed: self.is_heads(),
                short: self.is_heads(),
            },
        }
    }
}
