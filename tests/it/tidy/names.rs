//! Names of files.

use super::{assert_none, files, shown};

#[test]
fn no_file_has_a_vague_name() {
    let vague = [
        "utils", "util", "helpers", "helper", "common", "misc", "manager", "types",
    ];
    let offences: Vec<String> = files("", &["rs"])
        .iter()
        .filter(|path| {
            path.file_stem()
                .is_some_and(|stem| vague.iter().any(|word| stem == *word))
        })
        .map(|path| shown(path))
        .collect();
    assert_none(&offences);
}
