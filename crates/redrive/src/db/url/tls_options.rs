//! Extracts the options from a database URL that the driver does not know or interprets differently,
//! mostly those of TLS.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::db::tls::TlsOptions;
use crate::error::{Error, Result};

impl TlsOptions {
    /// Stores a TLS option; the last value of a name counts. Returns the name and, if it differs, the
    /// value for the driver, unless the option is not the driver's.
    fn keep<'a>(&mut self, name: &'a str, value: &str) -> Option<(&'a str, Option<&'static str>)> {
        let place = match (name, value) {
            ("sslmode", _) => &mut self.mode,
            ("sslrootcert", _) => &mut self.roots,
            ("sslcert", _) => &mut self.certificate,
            ("sslkey", _) => &mut self.key,
            ("keepalives_count", _) => return Some(("keepalives_retries", None)),
            // Both need a server that can write.
            ("target_session_attrs", "primary") => return Some((name, Some("read-write"))),
            // Options of libpq that ask for what redrive does anyway.
            ("client_encoding", "utf8" | "UTF8" | "utf-8" | "UTF-8" | "auto")
            | ("gssencmode", "disable" | "prefer")
            | ("sslcompression", "0")
            | ("sslsni", "1")
            | ("ssl_min_protocol_version", "TLSv1" | "TLSv1.1" | "TLSv1.2") => return None,
            // The driver refuses what it does not know.
            _ => return Some((name, None)),
        };
        *place = Some(value.to_owned());
        None
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
    // The driver ends the password at the first `@`. Other characters may be part of it.
    let host = url.find('@').map_or(0, |at| at + 1);
    let is_name = |rest: &str| {
        !rest
            .split(['/', '?'])
            .next()
            .unwrap_or_default()
            .contains('@')
    };
    if !is_name(&url[host..]) {
        return Err(Error::invalid(
            "the database URL has an `@` in its user or password; write it as %40",
        ));
    }
    if has_option(&url[..host]) {
        return Err(Error::invalid(
            "the database URL has an `@` in an option; write it as %40, and a `?` in a password as %3F",
        ));
    }
    let Some((before, query)) = url[host..].split_once('?') else {
        return Ok((url.to_owned(), words));
    };
    let mut left = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let Some((name, other)) = words.keep(name, &decoded(value)?) {
            left.push(format!("{name}={}", other.unwrap_or(value)));
        }
    }
    let mut rest = format!("{}{before}", &url[..host]);
    if !left.is_empty() {
        rest.push('?');
        rest.push_str(&left.join("&"));
    }
    Ok((rest, words))
}

/// Whether what should be a user and a password ends in an option, so that the driver would take its value for the host.
fn has_option(credentials: &str) -> bool {
    let is_name = |name: &str| {
        name.bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_lowercase())
    };
    let option = credentials
        .split_once('?')
        .and_then(|(_, option)| option.split_once('='));
    option.is_some_and(|(name, _)| is_name(name))
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
        if let Some((name, other)) = words.keep(name, &value) {
            left.push_str(name);
            left.push('=');
            left.push_str(other.unwrap_or(&after[..length]));
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
        const PLAIN: &str = "postgres://me@host/db";
        let full = "postgres://me@host/db?sslmode=verify-full";
        let twice = "postgres://me@host/db?sslmode=disable&sslmode=verify-ca";
        for (address, left, expected) in [
            (PLAIN, PLAIN, words(None, None)),
            (full, PLAIN, words(Some("verify-full"), None)),
            (
                "postgres://host/db?connect_timeout=3&sslrootcert=%2Fetc%2Fca.pem&options=-c%20x",
                "postgres://host/db?connect_timeout=3&options=-c%20x",
                words(None, Some("/etc/ca.pem")),
            ),
            (twice, PLAIN, words(Some("verify-ca"), None)),
            (
                r"host=db sslmode = disable password='a b\'c' sslrootcert=/my\ ca.pem dbname=x",
                r"host=db password='a b\'c' dbname=x ",
                words(Some("disable"), Some("/my ca.pem")),
            ),
            // Options of libpq.
            (
                "postgres://me:p?w@host/db?target_session_attrs=primary&keepalives_count=3&gssencmode=disable",
                "postgres://me:p?w@host/db?target_session_attrs=read-write&keepalives_retries=3",
                words(None, None),
            ),
            (
                "host=db target_session_attrs=primary client_encoding='UTF8'",
                "host=db target_session_attrs=read-write ",
                words(None, None),
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
