//! Failure groups as a table.

use redrive::dlq::FailureGroup;

use crate::dlq::group::{failure, state};
use crate::terminal::{Charset, Column, Table, grouped, sparkline};
use crate::time::ago;

/// A table of groups, each with a number of letters. It has a column for the kind if kinds differ.
pub(super) fn table<'a>(
    groups: impl Iterator<Item = (&'a FailureGroup, u64)> + Clone,
    charset: Charset,
) -> Table {
    let mut kinds = groups.clone().map(|(group, _)| &group.kind);
    let first = kinds.next();
    let has_kinds = kinds.any(|kind| Some(kind) != first);
    let mut columns = vec![Column::Number("GROUP"), Column::Text("QUEUE")];
    columns.extend(has_kinds.then_some(Column::Name("KIND")));
    columns.extend([
        Column::Word("STATE"),
        Column::Number("LETTERS"),
        Column::Number("LAST"),
        Column::Bars("BY HOUR"),
        Column::Text("FAILURE"),
    ]);
    let mut table = Table::new(columns);
    // A table joins spaces, so an hour without a death needs a visible character.
    let empty_hour = match charset {
        Charset::Unicode => "\u{b7}",
        Charset::Ascii => "_",
    };
    for (group, letters) in groups {
        let mut cells = vec![group.id.to_string(), group.queue.clone()];
        cells.extend(has_kinds.then(|| group.kind.clone()));
        cells.extend([
            state(group).to_owned(),
            grouped(letters),
            ago(group.last_seen),
            sparkline(&group.hours, charset).replace(' ', empty_hour),
            failure(group),
        ]);
        table.row(cells);
    }
    table
}
