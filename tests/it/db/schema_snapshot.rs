//! The list of objects that `redrive migrate --check` compares with the database.

use std::fs;

use redrive_tests::TestDatabase;

const UPDATE: &str = "REDRIVE_UPDATE_SNAPSHOTS";
const OBJECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/objects.tsv");
const LIST: &str = include_str!("../../../crates/redrive/sql/db/schema_objects.sql");

#[test]
fn the_list_of_objects_is_what_the_migrations_create_on_every_version() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute("SET search_path = pg_catalog, pg_temp")
        .unwrap();
    let mut objects = String::new();
    for row in client.query(LIST, &[]).unwrap() {
        let (object, definition): (&str, &str) = (row.get(0), row.get(1));
        objects.extend([object, "\t", definition, "\n"]);
    }
    if std::env::var_os(UPDATE).is_some() {
        fs::write(OBJECTS, &objects).unwrap();
    }
    let expected = fs::read_to_string(OBJECTS).unwrap_or_default();
    let (expected, objects): (Vec<_>, Vec<_>) =
        (expected.lines().collect(), objects.lines().collect());
    let only = |these: &[&str], others: &[&str]| -> Vec<String> {
        let missing = these.iter().filter(|line| !others.contains(line));
        missing.map(ToString::to_string).collect()
    };
    assert!(
        expected == objects,
        "migrations/objects.tsv is out of date; update it with\n    \
         {UPDATE}=1 cargo nextest run -p redrive-tests schema_snapshot\nonly there: {:#?}\nnew: {:#?}",
        only(&expected, &objects),
        only(&objects, &expected)
    );
}
