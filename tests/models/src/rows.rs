//! Rows and parameters, in the driver's own binary format: whatever the library sends or reads is
//! checked against the types of the columns.

use bytes::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type};

/// A row of an answer.
#[derive(Debug, Default)]
pub(crate) struct Row(Vec<Column>);

/// A value with the name and the type of its column.
#[derive(Debug)]
pub(crate) struct Column {
    name: &'static str,
    ty: Type,
    value: Option<BytesMut>,
}

impl Column {
    pub(crate) fn name(&self) -> &str {
        self.name
    }
}

/// How a column is asked for.
pub(crate) trait Place {
    fn of(self, columns: &[Column]) -> Option<&Column>;
}

impl Place for &str {
    fn of(self, columns: &[Column]) -> Option<&Column> {
        columns.iter().find(|column| column.name == self)
    }
}

impl Place for usize {
    fn of(self, columns: &[Column]) -> Option<&Column> {
        columns.get(self)
    }
}

impl Row {
    pub(crate) fn columns(&self) -> &[Column] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The same with one column more.
    pub(crate) fn with(mut self, name: &'static str, ty: Type, value: &(dyn ToSql + Sync)) -> Row {
        let value = written(value, &ty);
        self.0.push(Column { name, ty, value });
        self
    }

    /// The value of a column; of one that is not there, NULL.
    pub(crate) fn get<'a, P: Place, T: FromSql<'a>>(&'a self, place: P) -> T {
        let column = place.of(&self.0);
        let read = match column {
            Some(column) => {
                assert!(T::accepts(&column.ty), "{column:?} is read as another type");
                T::from_sql_nullable(&column.ty, column.value.as_deref())
            }
            None => T::from_sql_null(&Type::UNKNOWN),
        };
        read.unwrap_or_else(|error| panic!("the model has no {column:?}: {error}"))
    }
}

/// A parameter of a statement, by its number, as this type.
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
        Err(error) => panic!("{value:?} is no {ty}: {error}"),
    }
}
