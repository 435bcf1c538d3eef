//! The order and checksums of the migrations.

use super::*;

#[test]
fn migrations_are_numbered_in_order() {
    for (version, migration) in (1..).zip(MIGRATIONS) {
        assert_eq!(migration.version(), Some(version));
    }
    assert!(DEFINITIONS.iter().all(|one| one.version().is_none()));
}

/// Returns a ledger of these versions, each with its `breaking` flag.
fn ledger(versions: &[(i32, bool)]) -> Vec<Entry> {
    let entry = |&(version, breaking): &(i32, bool)| {
        let ours = MIGRATIONS
            .iter()
            .find(|ours| ours.version() == Some(version));
        Entry {
            version: Some(version),
            name: ours.map_or_else(|| format!("{version:04}_later"), |ours| ours.name.into()),
            checksum: ours.map_or_else(String::new, |ours| checksum(ours.text)),
            breaking,
            library: None,
        }
    };
    versions.iter().map(entry).collect()
}

#[test]
fn a_ledger_is_valid_without_gaps_and_newer_breaking_migrations() {
    let last = last();
    let ours = || (1..=last).map(|version| (version, false));
    for (had, missing_at_most, is_good) in [
        (vec![], last, true),
        (ours().take(1).collect(), last - 1, true),
        (ours().collect(), 0, true),
        (ours().chain([(last + 1, false)]).collect(), 0, true),
        (ours().chain([(last + 1, true)]).collect(), 0, false),
        (ours().filter(|had| had.0 != 9).collect(), 1, false),
        (ours().skip(1).collect(), 1, false),
        // A later migration was applied while an earlier one is missing.
        ([(1, false), (last + 1, false)].into(), last - 1, false),
    ] {
        let ledger = ledger(&had);
        assert_eq!(examine(&ledger).is_ok(), is_good, "{had:?}");
        let missing = i32::try_from(missing(&ledger).len());
        assert_eq!(missing, Ok(missing_at_most), "{had:?}");
    }
    let gap = examine(&ledger(&[(1, true), (3, true)])).expect_err("2 is not there");
    gap.assert_invalid("0002_");
}
