//! Roles of the server that exist for a test.

use std::fmt::{self, Debug, Formatter};

use postgres::{Client, NoTls};
use redrive::Database;

use crate::database::TestDatabase;
use crate::statement::Sql;

/// A role that can log in, removed at the end of the test with all that it owns.
pub struct Role {
    name: String,
    url: String,
    owner: Client,
}

impl TestDatabase {
    /// Creates a role without any right.
    pub fn role(&self, name: &str) -> Role {
        let name = format!("{name}_{}", self.name().trim_start_matches("redrive_test_"));
        let mut owner = self.client();
        owner.sql(&format!("CREATE ROLE {name} LOGIN"));
        let (scheme, rest) = self.url().split_once("://").expect("a URL");
        let address = rest.split_once('@').map_or(rest, |(_, address)| address);
        let url = format!("{scheme}://{name}@{address}");
        Role { name, url, owner }
    }

    /// Creates a role with the rights of these kinds.
    #[track_caller]
    pub fn role_of(&self, name: &str, kinds: &[&str]) -> Role {
        let mut role = self.role(name);
        for kind in kinds {
            let grant = "SELECT redrive.grant_role($1, $2)";
            let left: String = role.owner.ask(grant, &[&role.name, kind]);
            assert_eq!(left, "", "a superuser can do all of it");
        }
        role
    }
}

impl Role {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL of the database for it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens the database as this role.
    pub fn open(&self) -> Database {
        redrive::connect(&self.url).expect("anybody may connect")
    }

    /// Connects as this role.
    pub fn client(&self) -> Client {
        Client::connect(&self.url, NoTls).expect("anybody may connect")
    }
}

impl Debug for Role {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let name = &self.name;
        let gone = self.owner.batch_execute(&format!(
            "REASSIGN OWNED BY {name} TO CURRENT_USER; DROP OWNED BY {name}; DROP ROLE {name}"
        ));
        if !std::thread::panicking() {
            gone.expect("remove the role");
        }
    }
}
