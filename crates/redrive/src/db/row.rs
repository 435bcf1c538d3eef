//! Rows as types of the library: a field is the column of its name.

use crate::sync::Row;

use crate::db::column::Column;
use crate::error::{Error, Result};

/// A type that a row can hold.
pub(crate) trait FromRow: Sized {
    /// # Errors
    /// If a newer version stored a value that this one does not know.
    fn from_row(row: &Row) -> Result<Self>;
}

/// Returns the value of a column. A table of another program may have one of another type.
pub(crate) fn column<T: Column>(row: &Row, name: &str) -> Result<T> {
    let stored = row.try_get(name);
    T::read(stored.map_err(|error| Error::from_postgres(format!("read the column {name}"), error))?)
}

/// Returns the first row.
pub(crate) fn first<T: FromRow>(rows: &[Row]) -> Result<Option<T>> {
    rows.first().map(T::from_row).transpose()
}

/// Returns the row of a statement that always returns one.
pub(crate) fn only<T: FromRow>(doing: &str, rows: &[Row]) -> Result<T> {
    first(rows)?.ok_or_else(|| {
        Error::unavailable(format!("could not {doing}: the database returned no row"))
    })
}

/// Returns all rows.
pub(crate) fn read_all<T: FromRow>(rows: &[Row]) -> Result<Vec<T>> {
    rows.iter().map(T::from_row).collect()
}

/// A statement whose answer does not matter.
impl FromRow for () {
    fn from_row(_: &Row) -> Result<()> {
        Ok(())
    }
}

/// A row of one column.
impl<T: Column> FromRow for T {
    fn from_row(row: &Row) -> Result<T> {
        T::read(row.get(0))
    }
}

macro_rules! tuples {
    ($($($type:ident $place:literal)*;)*) => {$(
        impl<$($type: Column),*> FromRow for ($($type,)*) {
            fn from_row(row: &Row) -> Result<($($type,)*)> {
                Ok(($($type::read(row.get($place))?,)*))
            }
        }
    )*};
}

tuples! {
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
}

/// Declares a struct that a row can hold. A field that is not a column names the function that reads it
/// from the row: `pub skip: Option<Skip> = Skip::of_row,`, or with `=>` if that can fail. Each is `Clone`, `Debug` and non-exhaustive,
/// because a row can get columns.
macro_rules! row {
    ($(#[$about:meta])* $public:vis struct $name:ident {
        $($(#[$doc:meta])* $seen:vis $field:ident: $type:ty $(= $read:expr)? $(=> $try_read:expr)?,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        $public struct $name {
            $($(#[$doc])* $seen $field: $type,)*
        }

        impl $crate::db::row::FromRow for $name {
            fn from_row(row: &$crate::sync::Row) -> $crate::error::Result<$name> {
                Ok($name {
                    $($field: $crate::db::row::row!(@ row $field $(= $read)? $(=> $try_read)?),)*
                })
            }
        }
    };
    (@ $row:ident $field:ident = $read:expr) => { $read($row) };
    (@ $row:ident $field:ident => $read:expr) => { $read($row)? };
    (@ $row:ident $field:ident) => { $crate::db::row::column($row, stringify!($field))? };
}
pub(crate) use row;
