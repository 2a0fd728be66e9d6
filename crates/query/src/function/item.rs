//! What a function can tell of an item as a whole.

use super::arguments::{Arguments, int};
use crate::cell::{Cell, Kind};
use partita_model::{ItemRid, RawKind, Scalar};

/// `DOCUMENTID(item)`: its number inside its partition, which its resource id contains.
pub(super) fn document_id<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let rid = match arguments.get(0)? {
        Cell::Text(raw) if raw.kind() == RawKind::Object => {
            match raw.document().member("_rid")?.scalar()? {
                Scalar::String(rid) => ItemRid::parse(&rid)?,
                _ => return None,
            }
        }
        cell @ Cell::Tree(tree) if cell.kind() == Kind::Object => {
            ItemRid::parse(tree.get("_rid")?.as_str()?)?
        }
        _ => return None,
    };
    Some(int(i64::try_from(rid.item).ok()?))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::expect;

    #[test]
    fn the_number_of_an_item_is_in_its_resource_id() {
        expect(&[
            (r#"DOCUMENTID {"id":"a","_rid":"36ZyAPW+uN8NAAAAAAAAAA=="}"#, "13"),
            (r#"DOCUMENTID {"id":"a","_rid":"36ZyAPW+uN8="}"#, "undefined"),
            (r#"DOCUMENTID {"id":"a","_rid":5}"#, "undefined"),
            (r#"DOCUMENTID {"id":"a"}"#, "undefined"),
            ("DOCUMENTID 5", "undefined"),
            ("DOCUMENTID [1]", "undefined"),
        ]);
    }
}
