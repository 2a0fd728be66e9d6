//! Resource ids of users, permissions and client encryption keys.
//!
//! ```text
//!   user        8 bytes   database, then number, big-endian, with its top bit clear
//!   key         8 bytes   the same, in a space of its own
//!   permission 16 bytes   user, then number, big-endian
//! ```
//!
//! The clear bit tells a user from a container. The number 0 is no user's: ids that begin with it
//! belong to the database itself.

use std::fmt;

use super::base64;
use super::{CONTAINER_BIT, DatabaseRid};

/// A user's resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserRid {
    /// The database it is in.
    pub database: DatabaseRid,
    /// Its number there: 31 bits, not 0.
    pub user: u32,
}

/// A client encryption key's resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EncryptionKeyRid {
    /// The database it is in.
    pub database: DatabaseRid,
    /// Its number there: 31 bits, not 0.
    pub key: u32,
}

/// A permission's resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermissionRid {
    /// The user it is given to.
    pub user: UserRid,
    /// Its number there.
    pub permission: u64,
}

impl UserRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<UserRid> {
        UserRid::from_word(u64::from_be_bytes(base64::decode(text)?))
    }

    fn from_word(word: u64) -> Option<UserRid> {
        let (database, user) = ((word >> 32) as u32, word as u32);
        let is_user = user != 0 && user & CONTAINER_BIT == 0;
        is_user.then_some(UserRid { database: DatabaseRid(database), user })
    }

    fn to_word(self) -> u64 {
        debug_assert!(self.user != 0 && self.user & CONTAINER_BIT == 0, "31 bits, not 0");
        u64::from(self.database.0) << 32 | u64::from(self.user)
    }
}

impl fmt::Display for UserRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64::encode(&self.to_word().to_be_bytes()))
    }
}

impl EncryptionKeyRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<EncryptionKeyRid> {
        UserRid::parse(text).map(|rid| EncryptionKeyRid { database: rid.database, key: rid.user })
    }
}

impl fmt::Display for EncryptionKeyRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        UserRid { database: self.database, user: self.key }.fmt(f)
    }
}

impl PermissionRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<PermissionRid> {
        let both = u128::from_be_bytes(base64::decode(text)?);
        let user = UserRid::from_word((both >> 64) as u64)?;
        Some(PermissionRid { user, permission: both as u64 })
    }
}

impl fmt::Display for PermissionRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = u128::from(self.user.to_word()) << 64 | u128::from(self.permission);
        f.write_str(&base64::encode(&both.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ContainerRid;
    use super::*;

    const USER: UserRid = UserRid { database: DatabaseRid(0x0102_0304), user: 5 };

    #[test]
    fn users_and_permissions_come_back_from_their_texts() {
        assert_eq!(USER.to_string().len(), 12);
        assert_eq!(UserRid::parse(&USER.to_string()), Some(USER));
        for permission in [0, 1, u64::MAX] {
            let rid = PermissionRid { user: USER, permission };
            assert_eq!(rid.to_string().len(), 24);
            assert_eq!(PermissionRid::parse(&rid.to_string()), Some(rid));
        }
    }

    #[test]
    fn a_user_is_no_container_and_a_container_no_user() {
        assert_eq!(ContainerRid::parse(&USER.to_string()), None);
        let container = ContainerRid { database: USER.database, container: 5 };
        assert_eq!(UserRid::parse(&container.to_string()), None);
        let nobody = base64::encode(&0x0102_0304_0000_0000_u64.to_be_bytes());
        assert_eq!(UserRid::parse(&nobody), None);
    }
}
