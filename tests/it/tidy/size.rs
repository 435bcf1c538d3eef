//! The size of source files: at most 400 lines, so that a file stays one concept.

use super::{assert_none, files, read, shown};

const MAX_LINES: usize = 400;
const MAX_MIGRATION_LINES: usize = 300;

#[test]
fn no_source_file_is_longer_than_400_lines() {
    let mut offences = Vec::new();
    for folder in ["crates", "tests", "benches", "migrations", "grafana"] {
        for path in files(folder, &["rs", "sql", "mjs", "jsx"]) {
            let name = shown(&path);
            // The snapshot of the whole schema is generated.
            if name.ends_with("/schema.sql") {
                continue;
            }
            let max = match folder {
                "migrations" => MAX_MIGRATION_LINES,
                _ => MAX_LINES,
            };
            let lines = read(&path).lines().count();
            if lines > max {
                offences.push(format!("{name}: {lines} lines, over {max}"));
            }
        }
    }
    assert_none(&offences);
}
