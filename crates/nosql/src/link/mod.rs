//! Resource links: from the raw path of a request to what it addresses and what its client signed.
//!
//! Routing is positional. The raw path is cut at its slashes first and each piece is
//! percent-decoded once afterwards, so a database may be called `colls` and an id may hold
//! `%2F`-like text. Empty pieces are skipped: some SDKs end every path with a slash, and some begin
//! with two.
//!
//! The protocol has no query strings, but JavaScript clients send an id with a question mark as it
//! is: behind an item's id, what looks like a query is the rest of the id.
//!
//! A client signs the *link* of the addressed resource: its decoded path, or for feeds and
//! creations the path of the parent. Paths made of resource ids are signed by their last id alone,
//! in lower case. Which of both a path is cannot always be told from its text (`AAAAAQ==` is also a
//! valid name), so [`Address::signing`] gives every form that the client may have meant.

mod admin;
mod percent;
mod segments;

use std::borrow::Cow;

use partita_engine::{
    ContainerPath, DatabasePath, EncryptionKeyPath, PermissionPath, ScriptPath, UserPath,
};
use partita_gateway::Head;
use partita_model::{ContainerLink, DatabaseRid, LinkedResource, Result, ScriptKind};

use self::segments::Segments;
use crate::feature::Feature;

pub(crate) use self::admin::{ADMIN_ROOT, AdminLink, AdminResource};
pub(crate) use self::percent::{decode, encode};

/// The path of the metrics, which is signed like those of the admin API.
const METRICS: &str = "metrics";

/// A link by name, and by resource id in two spellings.
pub(crate) const LINKS_MAX: usize = 3;

/// What a path addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Account,
    Databases,
    Database(DatabasePath),
    Containers(DatabasePath),
    Container(ContainerPath),
    Items(ContainerPath),
    Item {
        container: ContainerPath,
        id: String,
    },
    Ranges(ContainerPath),
    Conflicts(ContainerPath),
    Conflict {
        container: ContainerPath,
        id: String,
    },
    PartitionKeyDelete(ContainerPath),
    Scripts(ContainerPath, ScriptKind),
    Script(ScriptPath),
    Offers,
    Offer(String),
    EncryptionKeys(DatabasePath),
    EncryptionKey(EncryptionKeyPath),
    Users(DatabasePath),
    User(UserPath),
    Permissions(UserPath),
    Permission(PermissionPath),
    /// The admin API.
    Admin(AdminLink),
    /// A resource of a feature that is refused.
    Later(Feature),
    /// Nothing that the protocol knows.
    Unknown,
}

/// A path that was taken apart, not yet decoded.
#[derive(Clone, Debug)]
pub(crate) struct Address<'a> {
    path: &'a str,
    query: Option<&'a str>,
    segments: Segments<'a>,
}

/// What a request's signature may cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signing<'a> {
    /// Resource types, the usual one first.
    pub(crate) types: [Option<&'a str>; 2],
    /// Links, the usual one first; at most [`LINKS_MAX`].
    pub(crate) links: Vec<Cow<'a, str>>,
}

impl<'a> Address<'a> {
    /// Takes the path of a request apart, and for an item also what follows a question mark.
    pub(crate) fn new(head: &'a Head) -> Address<'a> {
        let address = Address::of_path(head.path());
        let Some(query) = head.query() else { return address };
        let link = address.in_container();
        let is_item = link.is_some_and(|link| matches!(link.resource(), LinkedResource::Item(_)));
        if is_item && !address.path.ends_with('/') {
            Address::of_path(head.path_and_query())
        } else {
            Address { query: Some(query), ..address }
        }
    }

    pub(crate) fn of_path(path: &'a str) -> Address<'a> {
        Address { path, query: None, segments: Segments::split(path) }
    }

    /// What is addressed.
    pub(crate) fn link(&self) -> Result<Link> {
        match self.segments.as_slice() {
            _ if self.segments.cut => Ok(Link::Unknown),
            [ADMIN_ROOT, inside @ ..] => {
                Ok(admin::route(inside, self.query)?.map_or(Link::Unknown, Link::Admin))
            }
            segments => route(segments),
        }
    }

    /// Is it what clients in Direct mode ask for first?
    pub(crate) fn is_of_direct_mode(&self) -> bool {
        self.segments.as_slice().first() == Some(&"addresses")
    }

    /// The container's path as the client wrote it, for paths inside a container: `dbs/x/colls/y`.
    pub(crate) fn raw_container(&self) -> Option<&'a str> {
        self.in_container()?;
        self.segments.raw_prefix(self.path, 4)
    }

    /// The path as a link, if it leads into a container.
    fn in_container(&self) -> Option<ContainerLink<'_, 'a>> {
        ContainerLink::parse(self.segments.as_slice())
    }

    /// The database and the container as the path writes them: by name, or by resource id.
    pub(crate) fn names(&self) -> (Option<Cow<'a, str>>, Option<Cow<'a, str>>) {
        if let Some(link) = self.in_container() {
            return (decode(link.database).ok(), decode(link.container).ok());
        }
        match self.segments.as_slice() {
            ["dbs", database, ..] => (decode(database).ok(), None),
            _ => (None, None),
        }
    }

    /// Does the path address this container by its names?
    pub(crate) fn is_by_names(&self, database: &str, name: &str) -> bool {
        let is = |segment: &str, text: &str| decode(segment).is_ok_and(|decoded| decoded == text);
        let link = self.in_container();
        link.is_some_and(|link| is(link.database, database) && is(link.container, name))
    }

    /// What the client of this path may have signed.
    pub(crate) fn signing(&self) -> Result<Signing<'a>> {
        if self.segments.cut {
            return sign_unknown(self.path);
        }
        let segments = self.segments.as_slice();
        if let [_, _, _, _, "operations", "partitionkeydelete"] = segments {
            // Python and JavaScript sign the container, .NET a type of its own.
            let types = [Some("colls"), Some("partitionkey")];
            return Ok(Signing { types, links: self.links(4)? });
        }
        if segments.first() == Some(&ADMIN_ROOT) || segments == [METRICS] {
            let types = [Some(ADMIN_ROOT), None];
            return Ok(Signing { types, links: self.links(segments.len())? });
        }
        let (resource_type, linked) = type_and_link(segments);
        Ok(Signing { types: [Some(resource_type), None], links: self.links(linked)? })
    }

    /// The forms of the link made of the first `linked` segments.
    fn links(&self, linked: usize) -> Result<Vec<Cow<'a, str>>> {
        let segments = self.segments.as_slice().get(..linked).unwrap_or_default();
        let by_name = match self.segments.raw_prefix(self.path, linked) {
            Some(raw) => decode(raw)?,
            None => Cow::Owned(decode(&segments.join("/"))?.into_owned()),
        };
        let mut links = vec![by_name];
        if let (Some(last), true) = (segments.last(), may_be_rids(segments)) {
            let rid = decode(last)?;
            links.push(Cow::Owned(rid.to_lowercase()));
            links.push(rid);
        }
        Ok(links)
    }
}

/// The resource type that these segments end in, and how many of them make the link: an odd path
/// ends in a kind, and so names a feed of its parent.
fn type_and_link<'a>(segments: &[&'a str]) -> (&'a str, usize) {
    let linked = segments.len() & !1;
    let kind = if segments.len() > linked { linked } else { linked.saturating_sub(2) };
    (segments.get(kind).copied().unwrap_or_default(), linked)
}

/// A path longer than any resource's is refused, but first its client is authenticated as any
/// other.
fn sign_unknown(path: &str) -> Result<Signing<'_>> {
    let segments: Vec<&str> = path.split('/').filter(|piece| !piece.is_empty()).collect();
    let (resource_type, linked) = type_and_link(&segments);
    let link = segments.get(..linked).unwrap_or_default().join("/");
    let link = Cow::Owned(decode(&link)?.into_owned());
    Ok(Signing { types: [Some(resource_type), None], links: vec![link] })
}

/// Offers are always addressed by resource id; below `dbs` the database's segment tells.
fn may_be_rids(segments: &[&str]) -> bool {
    match segments {
        ["offers", _] => true,
        ["dbs", database, ..] => {
            decode(database).is_ok_and(|text| DatabaseRid::parse(&text).is_some())
        }
        _ => false,
    }
}

fn route(segments: &[&str]) -> Result<Link> {
    if let Some(link) = ContainerLink::parse(segments) {
        return route_inside(&link);
    }
    Ok(match segments {
        [] => Link::Account,
        ["dbs"] => Link::Databases,
        ["dbs", database] => Link::Database(database_path(database)?),
        ["dbs", database, "colls"] => Link::Containers(database_path(database)?),
        ["dbs", database, "users", inside @ ..] => route_users(database, inside)?,
        ["dbs", database, "clientencryptionkeys"] => Link::EncryptionKeys(database_path(database)?),
        ["dbs", database, "clientencryptionkeys", key] => Link::EncryptionKey(EncryptionKeyPath {
            database: decode(database)?.into_owned(),
            key: decode(key)?.into_owned(),
        }),
        ["offers"] => Link::Offers,
        ["offers", rid] => Link::Offer(decode(rid)?.into_owned()),
        ["addresses", ..] => Link::Later(Feature::Addresses),
        ["operations", "dtc"] => Link::Later(Feature::DistributedTransactions),
        _ => Link::Unknown,
    })
}

/// What a path addresses that leads into a container.
fn route_inside(link: &ContainerLink<'_, '_>) -> Result<Link> {
    let container = ContainerPath {
        database: decode(link.database)?.into_owned(),
        container: decode(link.container)?.into_owned(),
    };
    Ok(match link.resource() {
        LinkedResource::Container => Link::Container(container),
        LinkedResource::Items => Link::Items(container),
        LinkedResource::Item(id) => Link::Item { container, id: decode(id)?.into_owned() },
        LinkedResource::Scripts(kind) => Link::Scripts(container, kind),
        LinkedResource::Script(kind, script) => {
            let script = decode(script)?.into_owned();
            Link::Script(ScriptPath { container, kind, script })
        }
        LinkedResource::Other(inside) => match inside {
            ["docs", _, "attachments", ..] => Link::Later(Feature::Attachments),
            ["pkranges"] => Link::Ranges(container),
            ["conflicts"] => Link::Conflicts(container),
            ["conflicts", id] => Link::Conflict { container, id: decode(id)?.into_owned() },
            ["operations", "partitionkeydelete"] => Link::PartitionKeyDelete(container),
            _ => Link::Unknown,
        },
    })
}

/// The part of a path behind `users`.
fn route_users(database: &str, inside: &[&str]) -> Result<Link> {
    let user = |user: &str| -> Result<UserPath> {
        Ok(UserPath { database: decode(database)?.into_owned(), user: decode(user)?.into_owned() })
    };
    Ok(match inside {
        [] => Link::Users(database_path(database)?),
        [name] => Link::User(user(name)?),
        [name, "permissions"] => Link::Permissions(user(name)?),
        [name, "permissions", permission] => Link::Permission(PermissionPath {
            user: user(name)?,
            permission: decode(permission)?.into_owned(),
        }),
        _ => Link::Unknown,
    })
}

fn database_path(segment: &str) -> Result<DatabasePath> {
    Ok(DatabasePath(decode(segment)?.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(path: &str) -> Link {
        Address::of_path(path).link().unwrap()
    }

    fn container(database: &str, container: &str) -> ContainerPath {
        ContainerPath { database: database.into(), container: container.into() }
    }

    fn links(path: &str) -> Vec<String> {
        let signing = Address::of_path(path).signing().unwrap();
        signing.links.into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn routing_goes_by_position_and_not_by_word() {
        assert_eq!(link("/"), Link::Account);
        assert_eq!(link("/dbs"), Link::Databases);
        assert_eq!(link("/dbs/dbs"), Link::Database(DatabasePath("dbs".into())));
        assert_eq!(link("/dbs/colls/colls"), Link::Containers(DatabasePath("colls".into())));
        assert_eq!(link("/dbs/colls/colls/docs"), Link::Container(container("colls", "docs")));
        assert_eq!(link("/dbs/d/colls/c/docs"), Link::Items(container("d", "c")));
        assert_eq!(link("/dbs/d/colls/c/pkranges"), Link::Ranges(container("d", "c")));
        let item = Link::Item { container: container("d", "c"), id: "docs".into() };
        assert_eq!(link("/dbs/d/colls/c/docs/docs"), item);
        assert_eq!(link("/offers/AbCd"), Link::Offer("AbCd".into()));
    }

    #[test]
    fn trailing_and_doubled_slashes_are_tolerated() {
        assert_eq!(link("//"), Link::Account);
        assert_eq!(link("//dbs//d///colls/"), Link::Containers(DatabasePath("d".into())));
        assert_eq!(link("//addresses/"), Link::Later(Feature::Addresses));
        assert_eq!(links("//dbs//my%20db///colls/"), ["dbs/my db"]);
    }

    #[test]
    fn segments_are_decoded_once_after_the_cut() {
        let id = |path: &str| match link(path) {
            Link::Item { id, .. } => id,
            other => panic!("{path} is {other:?}"),
        };
        assert_eq!(id("/dbs/d/colls/c/docs/a%20b+c"), "a b+c");
        assert_eq!(id("/dbs/d/colls/c/docs/%2520"), "%20");
        assert_eq!(id("/dbs/d/colls/c/docs/%E9%B1%80"), "鱀");
        assert_eq!(id("/dbs/d/colls/c/docs/a%2Fb"), "a/b");
        assert_eq!(id("/dbs/d/colls/c/docs/%20x%20/"), " x ");
    }

    #[test]
    fn a_question_mark_belongs_to_an_items_id_and_to_nothing_else() {
        let head = |target: &str| Head::new(&target.parse().unwrap(), &http::HeaderMap::new());
        let link = |target: &str| Address::new(&head(target)).link().unwrap();
        let item = |id: &str| Link::Item { container: container("d", "c"), id: id.into() };
        assert_eq!(link("/dbs/d/colls/c/docs/a?b"), item("a?b"));
        assert_eq!(link("/dbs/d/colls/c/docs/a%20?%20b?"), item("a ? b?"));
        assert_eq!(link("/dbs/d/colls/c/docs/a"), item("a"));
        assert_eq!(link("/dbs/d/colls/c/docs/a/?b"), item("a"));
        assert_eq!(link("/dbs/d/colls/c/docs?b"), Link::Items(container("d", "c")));
        assert_eq!(link("/dbs/d?b"), Link::Database(DatabasePath("d".into())));
        let target = head("/dbs/d/colls/c/docs/a?b");
        let signing = Address::new(&target).signing().unwrap();
        assert_eq!(signing.links, ["dbs/d/colls/c/docs/a?b"]);
    }

    #[test]
    fn what_does_not_decode_is_refused_with_the_segment() {
        for path in ["/dbs/%", "/dbs/%4", "/dbs/%zz", "/dbs/%ff"] {
            let error = Address::of_path(path).link().unwrap_err();
            assert_eq!(error.kind, partita_model::ErrorKind::BadRequest);
            assert!(error.message.contains(path.trim_start_matches("/dbs/")), "{error}");
        }
    }

    #[test]
    fn unknown_and_overlong_paths_are_unknown() {
        for path in
            ["/x", "/dbs/d/x", "/dbs/d/colls/c/docs/i/x", "/offers/a/b", "/a/b/c/d/e/f/g/h/i"]
        {
            assert_eq!(link(path), Link::Unknown, "{path}");
        }
    }

    #[test]
    fn later_features_have_their_routes() {
        for (path, feature) in [
            ("/dbs/d/colls/c/docs/i/attachments/a", Feature::Attachments),
            ("/operations/dtc", Feature::DistributedTransactions),
        ] {
            assert_eq!(link(path), Link::Later(feature), "{path}");
        }
    }

    #[test]
    fn scripts_have_their_routes() {
        for (segment, kind) in [
            ("sprocs", ScriptKind::Procedure),
            ("triggers", ScriptKind::Trigger),
            ("udfs", ScriptKind::Function),
        ] {
            let feed = format!("/dbs/d/colls/c/{segment}");
            assert_eq!(link(&feed), Link::Scripts(container("d", "c"), kind));
            let script = ScriptPath { container: container("d", "c"), kind, script: "a b".into() };
            assert_eq!(link(&format!("{feed}/a%20b/")), Link::Script(script));
            assert_eq!(link(&format!("{feed}/a/x")), Link::Unknown);
            assert_eq!(links(&format!("{feed}/a")), [format!("dbs/d/colls/c/{segment}/a")]);
        }
    }

    #[test]
    fn users_and_permissions_have_their_routes() {
        let user = UserPath { database: "d".into(), user: "my user".into() };
        assert_eq!(link("/dbs/d/users/"), Link::Users(DatabasePath("d".into())));
        assert_eq!(link("/dbs/d/users/my%20user"), Link::User(user.clone()));
        assert_eq!(link("/dbs/d/users/my%20user/permissions"), Link::Permissions(user.clone()));
        let permission = PermissionPath { user, permission: "p".into() };
        assert_eq!(link("/dbs/d/users/my%20user/permissions/p"), Link::Permission(permission));
        assert_eq!(link("/dbs/d/users/u/x"), Link::Unknown);
        let keys = "/dbs/d/clientencryptionkeys";
        assert_eq!(link(keys), Link::EncryptionKeys(DatabasePath("d".into())));
        let key = EncryptionKeyPath { database: "d".into(), key: "k".into() };
        assert_eq!(link(&format!("{keys}/k")), Link::EncryptionKey(key));
        assert_eq!(link(&format!("{keys}/k/x")), Link::Unknown);
        assert_eq!(links("/dbs/d/users/u/permissions/p"), ["dbs/d/users/u/permissions/p"]);
        assert_eq!(links("/dbs/d/users/u/permissions"), ["dbs/d/users/u"]);
    }

    #[test]
    fn paths_of_resource_ids_may_be_signed_by_their_last_id() {
        assert_eq!(links("/dbs/ToDoList"), ["dbs/ToDoList"]);
        assert_eq!(
            links("/dbs/AAAAAQ==/colls/AAAAAYAAAAE=/docs/"),
            ["dbs/AAAAAQ==/colls/AAAAAYAAAAE=", "aaaaayaaaae=", "AAAAAYAAAAE="]
        );
        assert_eq!(links("/offers/AbCd/"), ["offers/AbCd", "abcd", "AbCd"]);
        assert_eq!(links("/offers"), [""]);
    }

    #[test]
    fn delete_by_partition_key_is_signed_as_its_container() {
        let address = Address::of_path("/dbs/d/colls/c/operations/partitionkeydelete");
        let signing = address.signing().unwrap();
        assert_eq!(signing.types, [Some("colls"), Some("partitionkey")]);
        assert_eq!(signing.links, ["dbs/d/colls/c"]);
    }

    #[test]
    fn the_container_keeps_its_spelling() {
        let raw = |path| Address::of_path(path).raw_container();
        assert_eq!(raw("/dbs/my%20db/colls/%C3%A9/docs/1/"), Some("dbs/my%20db/colls/%C3%A9"));
        assert_eq!(raw("/dbs/d//colls/c/docs"), None);
        assert_eq!(raw("/dbs/d/colls"), None);
        assert_eq!(encode("my db/é~"), "my%20db%2F%C3%A9~");
    }
}
