//! A container as it is typed, and where it is in the admin API.

/// A container as it is typed: `database/container`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerName {
    pub(crate) database: String,
    pub(crate) container: String,
}

impl ContainerName {
    /// Reads `database/container`.
    pub(crate) fn parse(text: &str) -> Result<ContainerName, String> {
        match text.split_once('/') {
            Some((database, container))
                if !database.is_empty() && !container.is_empty() && !container.contains('/') =>
            {
                Ok(ContainerName { database: database.into(), container: container.into() })
            }
            _ => Err("name a container as DATABASE/CONTAINER, for example shop/orders".to_owned()),
        }
    }

    /// The path of the container in the admin API, and something inside.
    pub(crate) fn path(&self, inside: &[&str]) -> Vec<String> {
        let names = ["_partita", "databases", &self.database, "containers", &self.container];
        names.iter().chain(inside).map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_with_its_database() {
        let name = ContainerName::parse("shop/my orders").unwrap();
        assert_eq!((name.database.as_str(), name.container.as_str()), ("shop", "my orders"));
        for wrong in ["shop", "/orders", "shop/", "a/b/c", ""] {
            assert!(ContainerName::parse(wrong).unwrap_err().contains("DATABASE/CONTAINER"));
        }
    }
}
