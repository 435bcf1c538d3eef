//! What a check found: one report of `repair` and `migrate --check`.

use crate::prelude::*;

/// Something in the database that is not as it should be.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// The kind of fault, in one word.
    pub(super) fault: String,
    /// How many places have it.
    pub(super) places: u64,
    pub(super) what: String,
    /// Some of the places.
    pub(super) examples: Vec<String>,
}

/// Prints what a check found, and that all is `fine` or what is `wrong`. The exit code is 1 if it found
/// anything.
pub(super) fn report(
    findings: &[Finding],
    fine: &str,
    wrong: &str,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let table = table!(finding in findings => {
        Word "FAULT" => finding.fault,
        Number "PLACES" => grouped(finding.places),
        Text "WHAT" => finding.what,
        Text "FIRST ONES" => finding.examples.join(", "),
    });
    cx.items(findings, |finding| finding, &table)?;
    if !findings.is_empty() {
        return cx.nothing(wrong);
    }
    cx.say(fine);
    Ok(Ending::Done)
}
