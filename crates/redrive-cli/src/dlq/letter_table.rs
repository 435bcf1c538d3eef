//! Letters as a table.

use redrive::dlq::{Letter, LetterState};

use crate::terminal::{Column, Table};
use crate::time::ago;

/// A table of letters. It has a column for the state if a letter is not open.
pub(super) fn letter_table(letters: &[Letter]) -> Table {
    let has_states = letters
        .iter()
        .any(|letter| letter.state != LetterState::Open);
    let mut columns = vec![
        Column::Number("ID"),
        Column::Text("QUEUE"),
        Column::Name("KIND"),
    ];
    if has_states {
        columns.push(Column::Word("STATE"));
    }
    columns.extend([
        Column::Word("CAUSE"),
        Column::Number("AGE"),
        Column::Text("ERROR"),
    ]);
    let mut table = Table::new(columns);
    for letter in letters {
        let mut cells = vec![
            letter.id.to_string(),
            letter.queue.clone(),
            letter.kind.clone(),
        ];
        if has_states {
            cells.push(letter.state.to_string());
        }
        let error = match &*letter.error_message {
            "" => letter.error_class.clone(),
            message => format!("{}: {message}", letter.error_class),
        };
        cells.extend([letter.cause.to_string(), ago(letter.died_at), error]);
        table.row(cells);
    }
    table
}
