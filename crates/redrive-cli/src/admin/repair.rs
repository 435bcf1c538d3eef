//! `redrive repair`: finds and fixes what points at a job that is gone, and totals that differ.

use redrive::admin::Fault;

use crate::prelude::*;

/// Find and fix letters, keys, turns and runs whose jobs are gone, and totals that differ
///
/// Without --yes this is a dry run. No operation of redrive leaves such faults, but a row deleted by
/// hand, a restore that missed some, or a restore of data into a migrated schema do. It reads every
/// job and letter, so run it when the server is not busy.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive repair
  redrive repair --reason 'restored the dump of Monday' --yes
",
    after_help = "\
The exit code of a dry run is 1 if it found a fault. Each kind of fault that is
fixed is a record of `redrive audit`. The deaths of failure groups are history,
which no row can correct."
)]
pub(crate) struct Repair {
    #[command(flatten)]
    confirm: Confirm,
}

impl Repair {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.unchecked_database()?;
        let faults = match self.confirm.yes {
            true => db.admin().repair(&self.confirm.reason.operator())?,
            false => db.admin().faults()?,
        };
        let table = table!(fault in &faults => {
            Word "FAULT" => fault.kind,
            Number "PLACES" => grouped(fault.places),
            Text "WHAT" => what(&fault.kind),
            Text "FIRST ONES" => fault.examples.join(", "),
        });
        cx.items(&faults, fault_json, &table)?;
        match (faults.is_empty(), self.confirm.yes) {
            (true, _) => cx.say("there is nothing to repair"),
            (false, true) => _ = cx.nothing("repaired")?,
            (false, false) => {
                let to_act = self.confirm.to_act();
                return cx.nothing(format!("nothing was changed; to act, add {to_act}"));
            }
        }
        Ok(Ending::Done)
    }
}

fn fault_json(fault: &Fault) -> impl Serialize {
    object!(fault => fault = &fault.kind, places, what = what(&fault.kind), examples)
}

/// Describes a kind of fault.
fn what(kind: &str) -> &'static str {
    match kind {
        "sequence" => "ids would be given twice",
        "letter" => "redriving, but the job is gone",
        "unique_key" => "held by a job that is gone",
        "group_slot" => "the turn of a job that is gone",
        "run" => "waits for a job that is gone",
        "schedule" => "no next tick",
        "group_count" => "differs from the letters",
        "counter" => "differs from the rows",
        _ => "",
    }
}
