//! Signatures: the types of a statement's parameters, parsed from the header of its file, or the casts of a call. Pure.
//!
//! A statement that is not prepared must send the types of its parameters. The header defines them
//! once, for readers too; a test compares them with those of the server.

use std::collections::BTreeMap;

use postgres::types::Type;

/// Returns the types of `$1`, `$2` and so on: what follows where they are first named with a type.
pub(crate) fn signature(text: &str) -> Vec<Type> {
    let mut types: BTreeMap<usize, Type> = BTreeMap::new();
    for (number, is) in text.split('$').skip(1).filter_map(parameter) {
        types.entry(number).or_insert(is);
    }
    types.into_values().collect()
}

/// Parses the text after a `$`: the number of a parameter and its type. `None`: a mere mention.
fn parameter(declaration: &str) -> Option<(usize, Type)> {
    let digits = declaration.find(|c: char| !c.is_ascii_digit())?;
    let (number, rest) = declaration.split_at(digits);
    let rest = rest.trim_start_matches([' ', ':']);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
    let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let is = type_of(name, rest.starts_with("[]"))?;
    Some((number.parse().ok()?, is))
}

fn type_of(name: &str, is_array: bool) -> Option<Type> {
    let (one, many) = match name {
        "bigint" => (Type::INT8, Type::INT8_ARRAY),
        "boolean" => (Type::BOOL, Type::BOOL_ARRAY),
        "bytea" => (Type::BYTEA, Type::BYTEA_ARRAY),
        "float8" => (Type::FLOAT8, Type::FLOAT8_ARRAY),
        "integer" => (Type::INT4, Type::INT4_ARRAY),
        "interval" => (Type::INTERVAL, Type::INTERVAL_ARRAY),
        "json" => (Type::JSON, Type::JSON_ARRAY),
        "jsonb" => (Type::JSONB, Type::JSONB_ARRAY),
        "smallint" => (Type::INT2, Type::INT2_ARRAY),
        "text" => (Type::TEXT, Type::TEXT_ARRAY),
        "timestamptz" => (Type::TIMESTAMPTZ, Type::TIMESTAMPTZ_ARRAY),
        "uuid" => (Type::UUID, Type::UUID_ARRAY),
        _ => return None,
    };
    Some(if is_array { many } else { one })
}
