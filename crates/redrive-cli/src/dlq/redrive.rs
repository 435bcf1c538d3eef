//! `redrive dlq redrive`: sends letters back to their queue.

mod validated;
mod preview;

use std::num::NonZeroU32;
use std::time::Duration;

use clap::ArgGroup;
use redrive::BatchProgress;
use redrive::dlq::runs::RunOptions;
use redrive::dlq::{LetterFilter, LetterState, RedriveOptions, RedrivePreview, Skip};

use super::blocked::warn_blocked;
use super::follow::{MaxWait, follow};
use super::none_matched::none_of;
use super::runs::show;
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Changed, Found};
use crate::not_done::{ID, NotDone, locked};
use crate::prelude::*;
use crate::stop::StopSignal;
use validated::{ValidateArgs, Validated};

const REDRIVE: Batches = Batches::of_letters("redrive", "redriven", Undo::None);

/// Send dead letters back to their queue as jobs
///
/// Without --yes this is a dry run. With --yes it starts a redrive run at 100 letters per second
/// (see --rate) and waits for the outcomes. It exits with 1 if the run skips a letter, or if more
/// letters die again than it tolerates. Letters given by id are redriven at once, without a run.
///
/// Ctrl-C pauses the run; once all letters are sent, it only stops waiting. If this command dies, a
/// worker continues the run.
///
/// A job keeps the id, payload and history of its letter and gets all its attempts again. Captured
/// letters that are not JSON are skipped.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("validators").args(["schema", "exec"]).requires("validate")),
    before_help = "\
Examples:
  redrive dlq redrive orders class=Timeout 'age>2h' --reason 'now fixed' --yes
  redrive dlq redrive orders --canary 10 --reason 'gateway fixed, INC-7' --yes
  redrive dlq redrive orders cause=rejected --limit 100 --yes
  redrive dlq redrive orders --validate --schema order.schema.json --yes
  redrive dlq redrive orders --unthrottled --yes
  redrive dlq redrive 42 43
",
    after_help = "\
Halt: a run halts when more than a tenth of at least 20 outcomes are deaths
(--tolerate). The remaining letters stay open.

Canary: --canary N redrives N letters first. If they recover, four times and
sixteen times as many follow, then the rest."
)]
pub(super) struct Redrive {
    #[command(flatten)]
    selection: Bulk,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    validation: ValidateArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    wait: MaxWait,
}

/// Options of the jobs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Jobs")]
#[group(skip)]
struct JobArgs {
    /// Enqueue the jobs in this queue [default: the queue of each letter].
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// Priority of the jobs [default: unchanged]. Within a priority, redriven jobs run after new ones.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    priority: Option<i16>,
    /// Maximum attempts of the jobs [default: unchanged].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_attempts: Option<u32>,
    /// Time until the jobs are ready [default: none], such as 10m.
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    delay: Option<Duration>,
    /// Also redrive quarantined letters (three identical deaths in a row, or ten after redrives), and
    /// letters whose payload was redacted, which go back without the redacted values.
    #[arg(long)]
    force: bool,
}

/// The pace of a redrive run, and when it halts.
#[derive(Args, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Run")]
#[group(skip)]
struct RunArgs {
    /// Letters per second [default: 100].
    #[arg(long, value_name = "N", conflicts_with = "unthrottled")]
    rate: Option<NonZeroU32>,
    /// Redrive as fast as live jobs allow: slower while these wait more than twice as long as at the
    /// start.
    #[arg(long)]
    unthrottled: bool,
    /// Redrive N letters first and continue only if they recover.
    #[arg(long, value_name = "N")]
    canary: Option<NonZeroU32>,
    /// Create the run, let the workers send its letters, and do not wait.
    #[arg(long, conflicts_with = "max_wait")]
    detach: bool,
    /// Halt the run, and exit with 1, if more than this share of the letters die again
    /// [default: 10%]. With 100%, all letters are sent.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    tolerate: Option<u8>,
}

fn percent(text: &str) -> std::result::Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err("expected a percentage from 0% to 100%".to_owned()),
    }
}

impl Redrive {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let is_run = self.run != RunArgs::default() || self.wait.is_given();
        if is_run && !self.selection.ids().is_empty() {
            return Err(Error::new(
                "the options of a run, such as --rate and --max-wait, cannot be used with ids: these letters are \
                 redriven at once, without a run",
            ));
        }
        let to_act = self.selection.to_act(self.job.force.then_some("--force"))?;
        let db = cx.database()?;
        // Of letters in other states, the redrive says why it skips them.
        let redrivable = self.selection.letters()?.within(self.states());
        let validated = self.validation.validated(&redrivable, cx.program, &db)?;
        match to_act.is_some() || !self.selection.ids().is_empty() {
            true => self.redrive(to_act, validated.as_ref(), cx),
            false => self.start_run(validated, cx),
        }
    }

    fn states(&self) -> &'static [LetterState] {
        match self.job.force {
            true => &[LetterState::Open, LetterState::Quarantined],
            false => &[LetterState::Open],
        }
    }

    /// Says that no letter can be redriven, and why.
    fn nothing_matched(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (letters, states) = (self.selection.letters()?, self.states());
        let named = letters.named_states();
        // With --force, they are among the states that it takes.
        let may_be = named.is_none_or(|named| named.contains(&LetterState::Quarantined));
        let way = may_be.then_some("--force --reason TEXT includes the quarantined ones");
        none_of(states, &self.selection, &letters, way, cx)
    }

    fn options(&self) -> RedriveOptions {
        RedriveOptions::new()
            .with(self.job.to.as_ref(), RedriveOptions::to_queue)
            .with(self.job.priority, RedriveOptions::priority)
            .with(self.job.max_attempts, RedriveOptions::max_attempts)
            .with(self.job.delay, RedriveOptions::delay)
            .with_flag(self.job.force, RedriveOptions::force)
    }

    /// Shows which letters would be redriven, or redrives those that are given by id.
    fn redrive(
        &self,
        to_act: Option<Vec<&'static str>>,
        validated: Option<&Validated>,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let (ids, db) = (self.selection.ids(), &cx.database()?);
        let left_out = validated.map(Validated::left_out).unwrap_or_default();
        let is_valid = to_act.is_some() || left_out.is_empty();
        let (found, mut preview) = match to_act.is_some() {
            true => self.find(validated, db)?,
            false => {
                let found = Found::of(ids.len() as u64, "letter", &self.selection);
                (Found { left_out, ..found }, RedrivePreview::default())
            }
        };
        let mut valid = ids.clone();
        valid.retain(|id| validated.is_none_or(|validated| !validated.rejected.contains(id)));
        let letters = LetterFilter::new().limit(valid.len() as u64).ids(valid);
        let act = |db: &Watched| -> redrive::Result<Changed> {
            let operator = self.selection.operator();
            let done = db
                .dlq()
                .redrive_with(&letters, &self.options(), &operator)?;
            // All were tried, so a signal stops nothing.
            let unchanged = (ids.len() - done.redriven.len()) as u64;
            _ = db.go_on(BatchProgress::of(done.redriven.len(), None).and_unchanged(unchanged));
            let (mut others, mut not_done) = (Vec::new(), NotDone::default());
            for (id, skip) in &done.skipped {
                // What they are is more than that they are not open.
                if matches!(skip, Skip::Gone | Skip::NotOpen | Skip::Locked) {
                    others.push(*id);
                    continue;
                }
                let can_be_forced = matches!(skip, Skip::Quarantined | Skip::Redacted);
                let cause = match can_be_forced {
                    true => format!("{skip}: {Me} dlq redrive {ID} --force --reason TEXT"),
                    false => skip.to_string(),
                };
                not_done.0.push((*id, (skip.as_str(), cause)));
            }
            let others = NotDone::letters(&others, self.states(), |_| locked(), db);
            not_done.0.extend(others.0);
            // They were redriven, whether or not this can be read.
            let redriven = LetterFilter::new().ids(done.redriven);
            preview.blocked = db.dlq().blocked(&redriven, None).unwrap_or_default();
            Ok(not_done.into())
        };
        let ending = found.change(REDRIVE, to_act, cx, act, |cx| self.nothing_matched(cx))?;
        warn_blocked(&preview.blocked, cx);
        Ok(ending.and(Ending::of(is_valid)))
    }

    fn start_run(&self, validated: Option<Validated>, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let operator = self.selection.operator();
        let filter = self.selection.letters()?;
        let mut chosen = filter.clone();
        let mut options = RunOptions::new()
            .letters(self.options())
            .with(self.run.canary.map(NonZeroU32::get), RunOptions::canary)
            .with(self.run.rate.map(NonZeroU32::get), RunOptions::rate)
            .with_flag(self.run.unthrottled, RunOptions::unthrottled)
            .with(self.run.tolerate, RunOptions::tolerate);
        // A signal that arrives from now on pauses the run.
        StopSignal::listen()?;
        let mut is_valid = true;
        if let Some(validated) = validated {
            let left_out = validated.left_out();
            for line in &left_out {
                let letters = counted(line.count, "letter");
                cx.say(format!("{letters} left out: {}", line.because));
            }
            if validated.passing.is_empty() && !left_out.is_empty() {
                cx.no_change("redrive", "letters", false)?;
                return cx.nothing("no letter passes validation; nothing was redriven");
            }
            is_valid = left_out.is_empty();
            chosen = LetterFilter::new().ids(validated.passing.iter().copied());
            options = options.only(validated.passing);
        }
        let blocked = db.dlq().blocked(&chosen, Some(&self.options()))?;
        let runs = db.dlq().runs();
        let created = match self.run.detach {
            true => runs
                .create(&filter, &options, &operator)?
                .map(|run| (run, None)),
            false => {
                let started = runs.start(&filter, &options, &operator)?;
                started.map(|(run, driver)| (run, Some(driver)))
            }
        };
        let Some((run, driver)) = created else {
            cx.no_change("redrive", "letters", false)?;
            return self.nothing_matched(cx);
        };
        warn_blocked(&blocked, cx);
        let patience = self.wait.patience(self.job.delay, cx);
        let ending = match driver {
            Some(_) => follow((run.id, run.letters), driver, patience, cx)?,
            None => show(run.id, cx)?,
        };
        Ok(ending.and(Ending::of(is_valid)))
    }
}
