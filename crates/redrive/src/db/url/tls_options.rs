//! Extracts the TLS options from a database URL, which the driver does not know or interprets differently.

use percent_encoding::percent_decode_str;

use crate::db::tls::TlsOptions;
use crate::error::{Error, Result};

const NAMES: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// Returns the URL without the TLS options, and the options.
pub(super) fn take(address: &str) -> Result<(String, TlsOptions)> {
    match address.starts_with("postgres://") || address.starts_with("postgresql://") {
        true => of_url(address),
        false => of_words(address),
    }
}

fn of_url(url: &str) -> Result<(String, TlsOptions)> {
    let mut options = TlsOptions::default();
    // The driver takes what is before the first `@` for a user and a password, and what is behind it for a host.
    let (credentials, rest) = url.split_at(url.find('@').map_or(0, |at| at + 1));
    if credentials.contains('?') || rest.contains('@') {
        return Err(Error::invalid(
            "the database URL has an `@` or a `?` in its user, its password or an option; write them as %40 and %3F",
        ));
    }
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut left = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !NAMES.contains(&name) {
            left.push(format!("{name}={value}"));
            continue;
        }
        let decoded = percent_decode_str(value).decode_utf8();
        let invalid = |_| Error::invalid("a value in the database URL is not UTF-8");
        // The last value counts.
        options.insert(name.to_owned(), decoded.map_err(invalid)?.into_owned());
    }
    Ok((format!("{credentials}{before}?{}", left.join("&")), options))
}

/// Parses `name = value` pairs. A quoted value may contain spaces; a backslash escapes the next
/// character. Other pairs stay as written.
fn of_words(text: &str) -> Result<(String, TlsOptions)> {
    let unreadable = || Error::invalid("the database URL cannot be read");
    let mut options = TlsOptions::default();
    let mut left = String::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(unreadable)?;
        let (name, after) = (name.trim_end(), after.trim_start());
        let (value, length) = value(after).ok_or_else(unreadable)?;
        match NAMES.contains(&name) {
            true => drop(options.insert(name.to_owned(), value)),
            false => left.extend([name, "=", &after[..length], " "]),
        }
        rest = after[length..].trim_start();
    }
    Ok((left, options))
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

    #[test]
    fn tls_options_are_extracted_and_everything_else_stays() {
        const PLAIN: &str = "postgres://me@host/db?";
        let full = "postgres://me@host/db?sslmode=verify-full";
        let twice = "postgres://me@host/db?sslmode=disable&sslmode=verify-ca";
        for (address, left, expected) in [
            ("postgres://me@host/db", PLAIN, ""),
            (full, PLAIN, "sslmode=verify-full"),
            (
                "postgres://host/db?connect_timeout=3&sslrootcert=%2Fetc%2Fca.pem&options=-c%20x",
                "postgres://host/db?connect_timeout=3&options=-c%20x",
                "sslrootcert=/etc/ca.pem",
            ),
            (twice, PLAIN, "sslmode=verify-ca"),
            (
                r"host=db sslmode = disable password='a b\'c' sslrootcert=/my\ ca.pem dbname=x",
                r"host=db password='a b\'c' dbname=x ",
                "sslmode=disable sslrootcert=/my ca.pem",
            ),
        ] {
            let (rest, options) = take(address).expect(address);
            let options: Vec<String> = options
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let taken = (&*rest, &*options.join(" "));
            assert_eq!(taken, (left, expected), "{address}");
        }
    }
}
