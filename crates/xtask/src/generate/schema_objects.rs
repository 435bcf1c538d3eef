//! The objects that the migrations create, which `redrive migrate --check` compares with a database.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use postgres::{Client, NoTls};

use super::Generated;
use crate::cluster::{Cluster, Durability};
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;

const FILE: &str = "migrations/objects.tsv";
/// The statement that lists them, the same on every major version.
const LIST: &str = "crates/redrive/sql/db/schema_objects.sql";

/// Lists the objects of a database that the migrations of the sources create.
pub(super) fn generated(root: &Path, interrupt: &Interrupt) -> Result<Generated> {
    let list =
        fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let binaries = Binaries::find(interrupt)?;
    let cluster = Cluster::start(&binaries, Durability::Throwaway, interrupt)?;
    let url = cluster.create_database("objects")?;
    redrive::connect(&url)?.migrate()?;
    let mut client = Client::connect(&url, NoTls)?;
    client.batch_execute(
        "SET search_path = pg_catalog, pg_temp; SET TimeZone = 'UTC'; SET DateStyle = 'ISO'",
    )?;
    let mut text = String::new();
    for row in client.query(&list, &[])? {
        let (object, definition): (&str, &str) = (row.get(0), row.get(1));
        text.extend([object, "\t", definition, "\n"]);
    }
    Ok(Generated { file: FILE, text })
}
