//! `redrive dlq` without a verb: the screen of whoever is on call.
//!
//! How deep the queues are, what fails most, the oldest letter, what is going on; and for each
//! what to type next. It reads well at 80 columns without colour.

use std::io::Write;

use redrive::{
    BreakerState, Database, FailureGroup, GroupState, Groups, Lapse, Letters, QueueStats, RunState,
};
use serde_json::{Value, json};

use super::filter::quoted;
use super::groups::{failure, object, state};
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{ago, rfc3339, short};
use crate::error::{Error, Result};
use crate::render::{Looks, cut, grouped, json_line, one_line};
use crate::run::RunLine;
use crate::spark::{Charset, sparkline};
use crate::table::{Column, Table};
use crate::{Ending, Streams};

/// How many groups are shown.
const GROUPS: u64 = 5;
/// The columns of a terminal that is not wide.
const WIDTH: usize = 80;

/// Something that goes on, and what to type about it.
struct Going {
    /// A line for people.
    line: String,
    /// What to type next.
    next: String,
    /// The same for programs.
    object: Value,
}

/// How many runs are looked at: the newest.
const RUNS: u32 = 100;

/// The redrive runs that are not over.
fn runs(db: &Database) -> Result<Vec<Going>> {
    let runs = db.runs(RUNS)?;
    let open = runs.iter().filter(|run| {
        matches!(
            run.state,
            RunState::Running | RunState::Paused | RunState::Halted
        )
    });
    open.map(|run| {
        let died = run.died_alike + run.died_differently;
        let line = format!(
            "run {} {}: {} of {} sent, {} recovered, {} died again",
            run.id,
            run.state,
            grouped(run.sent),
            grouped(run.total),
            grouped(run.recovered),
            grouped(died)
        );
        Ok(Going {
            line,
            next: format!("redrive dlq runs show {}", run.id),
            object: serde_json::to_value(RunLine::of(run))
                .map_err(|error| Error::caused_by("could not write a run as JSON", error))?,
        })
    })
    .collect()
}

/// The breakers that are not closed.
fn breakers(db: &Database) -> Result<Vec<Going>> {
    let breakers = db.breakers()?;
    let open = breakers
        .iter()
        .filter(|breaker| breaker.state != BreakerState::Closed);
    Ok(open
        .map(|breaker| {
            let why = breaker.message.as_deref().unwrap_or_default();
            Going {
                line: format!(
                    "{} {} for {} ({}) {why}",
                    breaker.name,
                    breaker.state,
                    ago(breaker.opened_at),
                    breaker.cause
                ),
                next: format!("redrive breaker close {}", quoted(&breaker.name)),
                object: json!({
                    "name": breaker.name,
                    "state": breaker.state.as_str(),
                    "cause": breaker.cause.as_str(),
                    "message": breaker.message,
                    "opened_at": rfc3339(breaker.opened_at),
                    "probe_at": breaker.probe_at.map(rfc3339),
                }),
            }
        })
        .collect())
}

/// What the screen shows.
struct Screen {
    queues: Vec<QueueStats>,
    groups: Vec<FailureGroup>,
    more_groups: bool,
    runs: Vec<Going>,
    breakers: Vec<Going>,
    /// Why the server may lose what it has committed.
    lapses: Vec<Lapse>,
}

/// Shows the screen.
pub(super) fn run(arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let db = connect::database(arguments, Patience::Minute, io)?;
    let waiting = Groups::all().waiting().states([
        GroupState::Open,
        GroupState::Acknowledged,
        GroupState::Resolved,
    ]);
    let mut groups = db.groups(&waiting.limit(GROUPS + 1))?;
    let more_groups = groups.len() as u64 > GROUPS;
    groups.truncate(usize::try_from(GROUPS).unwrap_or(usize::MAX));
    // What was fixed and is not, first; the order is else that of the database.
    groups.sort_by_key(|group| !group.is_regression());
    let screen = Screen {
        queues: db.stats(None)?,
        groups,
        more_groups,
        runs: runs(&db)?,
        breakers: breakers(&db)?,
        // What can be shown is, whatever comes of this.
        lapses: db.lapses().unwrap_or_default(),
    };
    if arguments.json {
        json_line(io.out, &screen.object())?;
    } else {
        screen.write(io.out, Looks::of_stdout(), Charset::of_locale())?;
    }
    Ok(Ending::Done)
}

impl Screen {
    fn write(&self, out: &mut dyn Write, looks: Looks, charset: Charset) -> Result<()> {
        if self.queues.is_empty() {
            writeln!(out, "no queue holds anything yet")?;
            return Ok(());
        }
        self.depths().write(out)?;
        self.failures(out, looks, charset)?;
        self.oldest(out, looks)?;
        going(out, looks, "Redrive runs in progress", &self.runs)?;
        going(out, looks, "Breakers that are open", &self.breakers)?;
        self.losses(out, looks)
    }

    /// What a crash may cost, because of how the server is set up.
    fn losses(&self, out: &mut dyn Write, looks: Looks) -> Result<()> {
        if self.lapses.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", looks.heading("What a crash may lose"))?;
        for lapse in &self.lapses {
            let told = one_line(&lapse.to_string());
            let mut indent = "  ";
            for line in wrapped(&told, WIDTH - 8) {
                writeln!(out, "{indent}{line}")?;
                indent = "        ";
            }
        }
        Ok(())
    }

    fn depths(&self) -> Table {
        let mut table = Table::new([
            Column::Text("QUEUE"),
            Column::Number("READY"),
            Column::Number("OLDEST"),
            Column::Number("DELAYED"),
            Column::Number("LEASED"),
            Column::Number("WORKERS"),
            Column::Number("LETTERS"),
            Column::Number("OLDEST"),
        ]);
        for queue in &self.queues {
            table.row([
                queue.queue.clone(),
                grouped(queue.ready),
                queue.oldest_ready.map_or_else(|| "-".to_owned(), short),
                grouped(queue.delayed),
                grouped(queue.leased),
                grouped(queue.workers),
                grouped(queue.open + queue.quarantined),
                queue.oldest_open.map_or_else(|| "-".to_owned(), ago),
            ]);
        }
        table
    }

    fn failures(&self, out: &mut dyn Write, looks: Looks, charset: Charset) -> Result<()> {
        if self.groups.is_empty() {
            writeln!(out, "\nNo letter waits.")?;
            return Ok(());
        }
        writeln!(out, "\n{}", looks.heading("What fails most"))?;
        for group in &self.groups {
            let what = format!("{} {}  {}", group.queue, group.kind, failure(group));
            let what = one_line(&what);
            let id = format!("  {:<6}", group.id.to_string());
            writeln!(out, "{id}{}", cut(&what, WIDTH - id.chars().count()))?;
            let mut letters = format!("{} waiting", grouped(group.open + group.quarantined));
            if group.quarantined > 0 {
                let quarantined = grouped(group.quarantined);
                letters.extend([", ", &quarantined, " of them quarantined"]);
            }
            let word = state(group);
            let state = match group.is_regression() {
                true => looks.error(word),
                false => word.to_owned(),
            };
            let owner = group
                .owner
                .as_ref()
                .map(|owner| format!(" ({})", cut(&one_line(owner), 20)));
            writeln!(
                out,
                "        {state}{}, {letters}, last {} ago",
                owner.unwrap_or_default(),
                ago(group.last_seen)
            )?;
            let line = sparkline(&group.hours, charset);
            let next = match group.is_regression() {
                true => format!("redrive dlq groups show {}", group.id),
                false => format!("redrive dlq list group={}", group.id),
            };
            writeln!(out, "        |{line}| 24 h    {next}")?;
        }
        if self.more_groups {
            writeln!(out, "  more:  redrive dlq groups")?;
        }
        Ok(())
    }

    fn oldest(&self, out: &mut dyn Write, looks: Looks) -> Result<()> {
        let Some((queue, died_at)) = self.oldest_letter() else {
            return Ok(());
        };
        writeln!(out, "\n{}", looks.heading("The oldest letter"))?;
        let line = format!("died {} ago in {}", ago(died_at), one_line(&queue.queue));
        writeln!(out, "  {}", cut(&line, WIDTH - 2))?;
        let older = format!(
            "died<={}",
            rfc3339(died_at + std::time::Duration::from_millis(1))
        );
        let which = Letters::queue(&queue.queue).to_string();
        writeln!(
            out,
            "        redrive dlq list {} {}",
            quoted(&which),
            quoted(&older)
        )?;
        Ok(())
    }

    fn oldest_letter(&self) -> Option<(&QueueStats, std::time::SystemTime)> {
        let died = self
            .queues
            .iter()
            .filter_map(|queue| Some((queue, queue.oldest_open?)));
        died.min_by_key(|(_, died_at)| *died_at)
    }

    fn object(&self) -> Value {
        let queues: Vec<Value> = self
            .queues
            .iter()
            .map(|queue| {
                json!({
                    "queue": queue.queue,
                    "ready": queue.ready,
                    "oldest_ready_seconds": queue.oldest_ready.map(|age| age.as_secs_f64()),
                    "delayed": queue.delayed,
                    "leased": queue.leased,
                    "workers": queue.workers,
                    "open": queue.open,
                    "quarantined": queue.quarantined,
                    "oldest_open_died_at": queue.oldest_open.map(rfc3339),
                })
            })
            .collect();
        let objects = |all: &[Going]| all.iter().map(|one| one.object.clone()).collect::<Vec<_>>();
        json!({
            "queues": queues,
            "groups": self.groups.iter().map(object).collect::<Vec<_>>(),
            "runs": objects(&self.runs),
            "breakers": objects(&self.breakers),
            "lapses": self.lapses.iter().map(Lapse::to_string).collect::<Vec<_>>(),
        })
    }
}

fn going(out: &mut dyn Write, looks: Looks, heading: &str, all: &[Going]) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", looks.heading(heading))?;
    for one in all {
        writeln!(out, "  {}", cut(&one_line(&one.line), WIDTH - 2))?;
        writeln!(out, "        {}", one.next)?;
    }
    Ok(())
}

/// A text in lines of so many characters, broken between words where it can be.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = cut(word, width);
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(_) | None => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_none_is_too_long() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a longer one", 5), ["a", "long…", "one"]);
    }
}
