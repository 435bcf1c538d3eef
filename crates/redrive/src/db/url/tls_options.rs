//! Extracts the TLS options from a database URL, because the driver does not know them or
//! interprets them differently.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};

/// The TLS options of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsOptions {
    pub(super) mode: Option<String>,
    pub(super) roots: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
}

impl TlsOptions {
    /// Stores a TLS option. Returns whether it was one. The last value of a name counts.
    fn keep(&mut self, name: &str, value: String) -> bool {
        let place = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.roots,
            "sslcert" => &mut self.certificate,
            "sslkey" => &mut self.key,
            _ => return false,
        };
        *place = Some(value);
        true
    }
}

/// Returns the URL without the TLS options, and the options.
pub(super) fn take(address: &str) -> Result<(String, TlsOptions)> {
    let is_url = ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| address.starts_with(scheme));
    match is_url {
        true => of_url(address),
        false => of_words(address),
    }
}

fn of_url(url: &str) -> Result<(String, TlsOptions)> {
    let mut words = TlsOptions::default();
    let Some((before, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), words));
    };
    let mut left = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !words.keep(name, decoded(value)?) {
            left.push(pair);
        }
    }
    let rest = match left.is_empty() {
        true => before.to_owned(),
        false => format!("{before}?{}", left.join("&")),
    };
    Ok((rest, words))
}

fn decoded(value: &str) -> Result<String> {
    percent_decode_str(value)
        .decode_utf8()
        .map(Cow::into_owned)
        .map_err(|_| Error::invalid("a value in the database URL is not UTF-8"))
}

/// Parses `name = value` pairs. A quoted value may contain spaces; a backslash escapes the next
/// character. Other pairs stay as written.
fn of_words(text: &str) -> Result<(String, TlsOptions)> {
    let unreadable = || Error::invalid("the database URL cannot be read");
    let mut words = TlsOptions::default();
    let mut left = String::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find('=').ok_or_else(unreadable)?;
        let name = rest[..end].trim_end();
        let after = rest[end + 1..].trim_start();
        let (value, length) = value(after).ok_or_else(unreadable)?;
        if !words.keep(name, value) {
            left.push_str(name);
            left.push('=');
            left.push_str(&after[..length]);
            left.push(' ');
        }
        rest = after[length..].trim_start();
    }
    Ok((left, words))
}

/// Returns the value at the start of a text and its length in bytes.
fn value(text: &str) -> Option<(String, usize)> {
    let is_quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(is_quoted));
    while let Some((place, character)) = characters.next() {
        match character {
            '\'' if is_quoted => return Some((value, place + 1)),
            blank if !is_quoted && blank.is_whitespace() => return Some((value, place)),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    (!is_quoted).then_some((value, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(mode: Option<&str>, roots: Option<&str>) -> TlsOptions {
        TlsOptions {
            mode: mode.map(str::to_owned),
            roots: roots.map(str::to_owned),
            ..TlsOptions::default()
        }
    }

    #[test]
    fn tls_options_are_extracted_and_everything_else_stays() {
        for (address, left, expected) in [
            (
                "postgres://me@host/db",
                "postgres://me@host/db",
                words(None, None),
            ),
            (
                "postgres://host/db?sslmode=verify-full",
                "postgres://host/db",
                words(Some("verify-full"), None),
            ),
            (
                "postgres://host/db?connect_timeout=3&sslrootcert=%2Fetc%2Fca.pem&options=-c%20x",
                "postgres://host/db?connect_timeout=3&options=-c%20x",
                words(None, Some("/etc/ca.pem")),
            ),
            (
                "postgres://host/db?sslmode=disable&sslmode=verify-ca",
                "postgres://host/db",
                words(Some("verify-ca"), None),
            ),
            (
                r"host=db sslmode = disable password='a b\'c' sslrootcert=/my\ ca.pem dbname=x",
                r"host=db password='a b\'c' dbname=x ",
                words(Some("disable"), Some("/my ca.pem")),
            ),
        ] {
            let taken = take(address).expect(address);
            assert_eq!(taken, (left.to_owned(), expected), "{address}");
        }
    }

    #[test]
    fn an_unreadable_url_is_rejected() {
        for bad in [
            "postgres://host/db?sslmode=%ff",
            "host",
            "host=db sslmode='verify-full",
            "host=db password=\\",
        ] {
            take(bad).expect_err(bad);
        }
    }
}
