//! What a comparison found: the report of `audit counters` and `migrate --check`.

use crate::prelude::*;

/// Prints what differs, and what follows from it. The exit code is 1.
pub(super) fn report(
    fault: &str,
    what: &[String],
    to_act: &str,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let table = table!(what in what => {
        Word "FAULT" => fault,
        Text "WHAT" => what,
    });
    cx.items(what, |what| json!({ "fault": fault, "what": what }), &table)?;
    cx.nothing(to_act)
}
