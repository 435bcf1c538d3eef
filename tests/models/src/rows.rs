//! Rows and parameters in the driver's binary format, so that the types of all values are checked.

use bytes::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type};

/// A row of a result.
#[derive(Debug, Default)]
pub(crate) struct Row(Vec<Column>);

/// A value with the name and the type of its column.
#[derive(Debug)]
pub(crate) struct Column {
    name: &'static str,
    ty: Type,
    value: Option<BytesMut>,
}

/// A name or a number that selects a column.
pub(crate) trait ColumnIndex {
    fn find(self, columns: &[Column]) -> Option<&Column>;
}

impl ColumnIndex for &str {
    fn find(self, columns: &[Column]) -> Option<&Column> {
        columns.iter().find(|column| column.name == self)
    }
}

impl ColumnIndex for usize {
    fn find(self, columns: &[Column]) -> Option<&Column> {
        columns.get(self)
    }
}

impl Row {
    /// Adds a column.
    pub(crate) fn with(mut self, name: &'static str, ty: Type, value: &(dyn ToSql + Sync)) -> Row {
        let value = written(value, &ty);
        self.0.push(Column { name, ty, value });
        self
    }

    /// Returns the value of a column, or NULL if there is no such column.
    pub(crate) fn get<'a, P: ColumnIndex, T: FromSql<'a>>(&'a self, index: P) -> T {
        let column = index.find(&self.0);
        let read = match column {
            Some(column) => {
                let is_right = T::accepts(&column.ty);
                assert!(is_right, "{column:?} is read as a different type");
                T::from_sql_nullable(&column.ty, column.value.as_deref())
            }
            None => T::from_sql_null(&Type::UNKNOWN),
        };
        read.unwrap_or_else(|error| panic!("cannot read {column:?}: {error}"))
    }

    /// As [`Row::get`], because these rows have the right types.
    #[expect(clippy::unnecessary_wraps, reason = "rows of the driver can fail")]
    pub(crate) fn try_get<'a, P: ColumnIndex, T: FromSql<'a>>(
        &'a self,
        index: P,
    ) -> Result<T, postgres::Error> {
        Ok(self.get(index))
    }
}

/// Returns a parameter of a statement by its number.
pub(crate) fn parameter<T: for<'a> FromSql<'a>>(
    parameters: &[&(dyn ToSql + Sync)],
    number: usize,
    ty: &Type,
) -> T {
    let value = written(parameters[number - 1], ty);
    T::from_sql_nullable(ty, value.as_deref())
        .unwrap_or_else(|error| panic!("parameter ${number}: {error}"))
}

fn written(value: &(dyn ToSql + Sync), ty: &Type) -> Option<BytesMut> {
    let mut bytes = BytesMut::new();
    match value.to_sql_checked(ty, &mut bytes) {
        Ok(IsNull::Yes) => None,
        Ok(IsNull::No) => Some(bytes),
        Err(error) => panic!("{value:?} is not a valid {ty}: {error}"),
    }
}
