//! Numbers for people.

use indicatif::HumanCount;

/// A count and its noun: `1 letter`, `2 letters`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", grouped(count)),
    }
}

/// A number with a comma between thousands: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}
