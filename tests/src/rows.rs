//! Rows of a query as tuples.

use postgres::Row;
use postgres::types::FromSqlOwned;

/// The columns of a row, in their order.
pub trait Columns {
    /// Returns them.
    fn of(row: &Row) -> Self;
}

macro_rules! columns {
    ($($column:ident $place:literal),*) => {
        impl<$($column: FromSqlOwned),*> Columns for ($($column),*) {
            fn of(row: &Row) -> Self {
                ($(row.get::<_, $column>($place)),*)
            }
        }
    };
}

columns!(A 0, B 1);
columns!(A 0, B 1, C 2);
columns!(A 0, B 1, C 2, D 3);
columns!(A 0, B 1, C 2, D 3, E 4);
columns!(A 0, B 1, C 2, D 3, E 4, F 5);
