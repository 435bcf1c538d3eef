//! Rows and parameters, in the driver's own binary format: whatever the library sends or reads is
//! checked against the types of the columns.

use bytes::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type};

/// A row of an answer.
#[derive(Debug, Default)]
pub(crate) struct Row(Vec<Column>);

#[derive(Debug)]
struct Column {
    name: &'static str,
    ty: Type,
    value: Option<BytesMut>,
}

impl Row {
    /// The same with one column more.
    pub(crate) fn with(mut self, name: &'static str, ty: Type, value: &(dyn ToSql + Sync)) -> Row {
        let value = written(value, &ty);
        self.0.push(Column { name, ty, value });
        self
    }

    /// The value of a column; of one that is not there, NULL.
    pub(crate) fn get<'a, I: AsRef<str>, T: FromSql<'a>>(&'a self, name: I) -> T {
        let name = name.as_ref();
        let read = match self.0.iter().find(|column| column.name == name) {
            Some(column) => {
                assert!(T::accepts(&column.ty), "`{name}` is read as another type");
                T::from_sql_nullable(&column.ty, column.value.as_deref())
            }
            None => T::from_sql_null(&Type::UNKNOWN),
        };
        read.unwrap_or_else(|error| panic!("the model has no column `{name}`: {error}"))
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
