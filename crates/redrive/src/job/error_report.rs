//! Error reports: descriptions of errors, cut and cleaned for the database.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::iter;

use crate::error::driver::place_of;
use crate::job::caught::caught;
use crate::job::name;

/// The longest error class that is stored, in bytes.
pub(super) const MAX_CLASS_BYTES: usize = 1024;
/// The longest error message that is stored, in bytes. The detail has the whole text of a
/// longer message; it is stored once per failure group.
pub(crate) const MAX_MESSAGE_BYTES: usize = 2 * 1024;
/// The longest detail (cause chain, backtrace) that is stored, in bytes.
pub(super) const MAX_DETAIL_BYTES: usize = 64 * 1024;

/// How many errors of a chain are looked at.
const MAX_CHAIN: usize = 100;

/// A description of an error that PostgreSQL can store, within the length limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorReport {
    pub(crate) class: Box<str>,
    pub(crate) message: String,
    pub(crate) detail: Option<Box<str>>,
    /// The key of the failure group, if the handler chose it.
    pub(crate) key: Option<Box<str>>,
}

impl ErrorReport {
    pub(crate) fn new(class: &str, message: String, detail: Option<String>) -> ErrorReport {
        let detail = if message.len() > MAX_MESSAGE_BYTES {
            let after = detail.map_or_else(String::new, |detail| format!("\n{detail}"));
            Some(format!("{message}{after}"))
        } else {
            detail
        };
        ErrorReport {
            class: clip(class.to_owned(), MAX_CLASS_BYTES).into(),
            message: clip(message, MAX_MESSAGE_BYTES),
            detail: detail.map(|detail| clip(detail, MAX_DETAIL_BYTES).into()),
            key: None,
        }
    }

    /// Applies the program's redaction hook. If the hook panics, the text is dropped.
    pub(crate) fn redacted(self, redact: &(dyn Fn(&str) -> String + Send + Sync)) -> ErrorReport {
        let cleaned = |text: &str| {
            caught(|| redact(text)).unwrap_or_else(|_| "[redacted: the hook panicked]".to_owned())
        };
        let detail = self.detail.as_deref().map(cleaned);
        let key = self
            .key
            .as_deref()
            .and_then(|key| name::kept(&cleaned(key)));
        ErrorReport {
            key,
            ..ErrorReport::new(&self.class, cleaned(&self.message), detail)
        }
    }

    /// Describes a job that an operator cancelled while it was snoozed.
    pub(crate) fn cancelled() -> ErrorReport {
        ErrorReport::new("cancelled", "cancelled by an operator".to_owned(), None)
    }

    /// Describes an error: class, message, cause chain, SQLSTATE and constraint, and a backtrace with `RUST_BACKTRACE`.
    pub(super) fn of(class: &str, error: &(dyn StdError + 'static)) -> ErrorReport {
        let mut detail = String::new();
        let mut place = place_of(error);
        let mut message = shown(error);
        if place.is_some()
            && let Some(server) = chain(error).nth(1)
        {
            // The driver itself says `db error` to everything. Further lines may have row data.
            let server = shown(server);
            message = format!("{message}: {}", server.lines().next().unwrap_or_default());
        }
        let mut last = shown(error);
        for cause in chain(error).skip(1) {
            let text = shown(cause);
            // Some wrappers say what their cause says.
            if text != last {
                // Writing to a String cannot fail.
                _ = writeln!(detail, "caused by: {text}");
            }
            last = text;
            place = place.or_else(|| place_of(cause));
        }
        if let Some(place) = place {
            _ = writeln!(detail, "{place}");
        }
        detail.push_str(&backtrace().unwrap_or_default());
        let detail = (!detail.is_empty()).then_some(detail);
        ErrorReport::new(class, message, detail)
    }
}

/// Returns a backtrace, if `RUST_BACKTRACE` asks for one.
pub(crate) fn backtrace() -> Option<String> {
    let taken = Backtrace::capture();
    let is_captured = taken.status() == BacktraceStatus::Captured;
    is_captured.then(|| from_program(&taken.to_string()).to_owned())
}

/// Returns a backtrace from the first frame on that is of the program: those above took the trace. Letters of a failure group
/// whose details begin alike share one, so they would show each other's frames.
fn from_program(backtrace: &str) -> &str {
    let is_ours = |name: &str| {
        let name = name.trim_start_matches('<');
        // Of a type parameter or a primitive type.
        let implemented = name.split_once(" as core::");
        implemented.is_some_and(|(of, _)| !of.contains("::"))
            || [
                "std::",
                "core::",
                "alloc::",
                "redrive::",
                "__rustc::",
                "rust_begin_unwind",
            ]
            .iter()
            .any(|of| name.starts_with(of))
    };
    let mut start = 0;
    for line in backtrace.split_inclusive('\n') {
        // Between frames there are lines with their places.
        if let Some((number, name)) = line.split_once(": ")
            && number.trim().parse::<u32>().is_ok()
            && !is_ours(name)
        {
            return &backtrace[start..];
        }
        start += line.len();
    }
    backtrace
}

/// The errors of a chain, from the outermost to its first cause. A chain in a circle ends, and so does
/// one whose `source` panics.
pub(super) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    let links = iter::from_fn(move || {
        let link = next?;
        next = caught(|| link.source()).ok().flatten();
        Some(link)
    });
    links.take(MAX_CHAIN)
}

/// Finds a class for an error whose type is hidden: the name at the start of the `Debug` of its innermost
/// cause, which a derived `Debug` takes from the type or the variant.
pub(super) fn class_in(error: &(dyn StdError + 'static)) -> Option<Box<str>> {
    let innermost = chain(error).last()?;
    if innermost.is::<std::io::Error>() {
        return Some("std::io::Error".into());
    }
    let debug = caught(|| format!("{innermost:?}")).ok()?;
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = debug.find(|c| !is_part(c)).unwrap_or(debug.len());
    let (name, rest) = debug.split_at(end);
    let is_name = name.starts_with(char::is_alphabetic)
        && (rest.is_empty() || rest.starts_with('(') || rest.starts_with(" {"));
    // Without a derived `Debug`, it is a text.
    (is_name && debug != shown(innermost)).then(|| name.into())
}

/// Returns the text of an error, even if its `Display` panics.
fn shown(error: &dyn StdError) -> String {
    caught(|| error.to_string()).unwrap_or_else(|_| "an error whose Display panics".to_owned())
}

/// Replaces the middle of a text that is too long.
const CUT: &str = "\n[... cut ...]\n";

/// Cuts a text to its head and tail, and replaces NUL, which PostgreSQL cannot store.
pub(crate) fn clip(text: String, bytes: usize) -> String {
    // Cut before replacing, too: an error text can have many megabytes. The replacement is longer than NUL.
    cut(without_nul(cut(text, bytes)), bytes)
}

fn cut(text: String, bytes: usize) -> String {
    if text.len() <= bytes {
        return text;
    }
    let half = (bytes - CUT.len()) / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!("{}{CUT}{}", &text[..head], &text[tail..])
}

/// Returns a text with a blank for each character that begins a line or changes a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Replaces NUL, which PostgreSQL cannot store.
pub(crate) fn without_nul(text: String) -> String {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_begins_with_the_program() {
        let error = "   0: std::backtrace_rs::backtrace::trace
             at /rustc/a/b.rs:1:2
   1: redrive::job::error_report::ErrorReport::of
   2: <redrive::job::failure::Failure as core::convert::From<E>>::from
   3: <T as core::convert::Into<U>>::into
";
        let panic = "   0: redrive::pipeline::attempt::install_hook::{{closure}}
   1: <alloc::boxed::Box<F,A> as core::ops::function::Fn<Args>>::call
   2: __rustc::rust_begin_unwind
   3: <usize as core::slice::index::SliceIndex<[T]>>::index
";
        let program = "   4: <redrive_shop::Card as core::ops::Drop>::drop
             at ./src/main.rs:7:5
   5: core::ops::f
";
        for above in [error, panic] {
            assert_eq!(from_program(&format!("{above}{program}")), program);
            assert_eq!(from_program(above), above);
        }
        for whole in [program, "", "no frames"] {
            assert_eq!(from_program(whole), whole);
        }
    }
}
