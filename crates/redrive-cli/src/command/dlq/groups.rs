//! `redrive dlq groups`: failure groups, and what people say of them.

use clap::{Args, Subcommand};
use redrive::{Database, FailureGroup, GroupId, GroupState, Groups};
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{ago, rfc3339};
use crate::error::Result;
use crate::person;
use crate::render::{Looks, clean, grouped, json_line, one_line};
use crate::spark::{Charset, sparkline};
use crate::table::{Column, Table};
use crate::{Ending, Streams};

/// Show failure groups: letters that died of the same thing; say what is known of them.
///
/// Queue, kind, error class and message are the same but for numbers, ids, quoted words,
/// addresses and times. Without a verb it lists them.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GroupsCommand {
    #[command(subcommand)]
    act: Option<Act>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Act {
    List(List),
    Show(Show),
    Ack(Ack),
    Resolve(Resolve),
    Ignore(Ignore),
    Reopen(Reopen),
    Note(Note),
    Own(Own),
}

impl GroupsCommand {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        match &self.act {
            None => self.list.run(arguments, io),
            Some(Act::List(command)) => command.run(arguments, io),
            Some(Act::Show(command)) => command.run(arguments, io),
            Some(Act::Ack(Ack { mark })) => mark.run(GroupState::Acknowledged, arguments, io),
            Some(Act::Resolve(Resolve { mark })) => mark.run(GroupState::Resolved, arguments, io),
            Some(Act::Ignore(Ignore { mark })) => mark.run(GroupState::Ignored, arguments, io),
            Some(Act::Reopen(Reopen { mark })) => mark.run(GroupState::Open, arguments, io),
            Some(Act::Note(command)) => command.run(arguments, io),
            Some(Act::Own(command)) => command.run(arguments, io),
        }
    }
}

/// List failure groups, those with the most waiting letters first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq groups
  redrive dlq groups list orders --state open,acknowledged
  redrive dlq groups list --all --json | jq .title")]
struct List {
    /// Only those of this queue.
    queue: Option<String>,
    /// Only those of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Only those of this error class.
    #[arg(long)]
    class: Option<String>,
    /// Only those in these states: open, acknowledged, resolved, ignored.
    #[arg(long, value_delimiter = ',')]
    state: Vec<GroupState>,
    /// Also those of which no letter waits.
    #[arg(long)]
    all: bool,
    /// How many at most.
    #[arg(long, default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

impl List {
    fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let mut which = Groups::all().limit(self.limit);
        if let Some(queue) = &self.queue {
            which = which.queue(queue);
        }
        if let Some(kind) = &self.kind {
            which = which.kind(kind);
        }
        if let Some(class) = &self.class {
            which = which.error_class(class);
        }
        if !self.state.is_empty() {
            which = which.states(self.state.iter().copied());
        }
        if !self.all {
            which = which.waiting();
        }
        let groups = connect::database(arguments, Patience::Minute, io)?.groups(&which)?;
        if groups.is_empty() {
            io.say("no failure group matches");
            return Ok(Ending::NothingMatched);
        }
        if arguments.json {
            for group in &groups {
                json_line(io.out, &object(group))?;
            }
        } else {
            table(&groups, Charset::of_locale()).write(io.out)?;
        }
        Ok(Ending::Done)
    }
}

/// A table of groups.
fn table(groups: &[FailureGroup], charset: Charset) -> Table {
    let mut table = Table::new([
        Column::Number("GROUP"),
        Column::Text("QUEUE"),
        Column::Text("STATE"),
        Column::Number("OPEN"),
        Column::Number("LAST"),
        Column::Text("LAST 24 HOURS"),
        Column::Text("FAILURE"),
    ]);
    for group in groups {
        // A table makes one blank of many, and here each is an hour.
        let line = sparkline(&group.hours, charset).replace(' ', "\u{b7}");
        let line = match charset {
            Charset::Unicode => line,
            Charset::Ascii => line.replace('\u{b7}', "_"),
        };
        table.row([
            group.id.to_string(),
            group.queue.clone(),
            state(group).to_owned(),
            grouped(group.open + group.quarantined),
            ago(group.last_seen),
            line,
            failure(group),
        ]);
    }
    table
}

/// The state in a word, of which a regression is one.
pub(super) fn state(group: &FailureGroup) -> &'static str {
    match group.is_regression() {
        true => "REGRESSION",
        false => group.state.as_str(),
    }
}

/// Class and message of a group, with what differs masked.
pub(super) fn failure(group: &FailureGroup) -> String {
    match &*group.title {
        "" => group.error_class.clone(),
        title => format!("{}: {title}", group.error_class),
    }
}

/// Show one failure group.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq groups show 12")]
struct Show {
    /// The group.
    group: GroupId,
}

impl Show {
    fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let Some(group) = db.group(self.group)? else {
            return Ok(unknown(self.group, io));
        };
        if arguments.json {
            json_line(io.out, &object(&group))?;
            return Ok(Ending::Done);
        }
        let looks = Looks::of_stdout();
        let heading = format!("group {}: {}", group.id, state(&group));
        writeln!(io.out, "{}\n", looks.heading(&heading))?;
        for (name, value) in facts(&group) {
            writeln!(io.out, "  {name:<12} {}", one_line(&value))?;
        }
        let charset = Charset::of_locale();
        let line = sparkline(&group.hours, charset);
        writeln!(io.out, "\n  last 24 h    |{line}|")?;
        writeln!(io.out, "\n{}", looks.heading("First message:"))?;
        for line in clean(&group.sample).lines() {
            writeln!(io.out, "  {line}")?;
        }
        if let Some(note) = &group.note {
            writeln!(io.out, "\n{}", looks.heading("Note:"))?;
            for line in clean(note).lines() {
                writeln!(io.out, "  {line}")?;
            }
        }
        writeln!(
            io.out,
            "\nIts letters:\n  redrive dlq list group={}",
            group.id
        )?;
        Ok(Ending::Done)
    }
}

fn facts(group: &FailureGroup) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("queue", group.queue.clone()),
        ("kind", group.kind.clone()),
        ("class", group.error_class.clone()),
        ("message", group.title.clone()),
        (
            "letters",
            format!(
                "{} open, {} quarantined, {} redriving, {} recovered, {} discarded",
                grouped(group.open),
                grouped(group.quarantined),
                grouped(group.redriving),
                grouped(group.recovered),
                grouped(group.discarded)
            ),
        ),
        ("deaths ever", grouped(group.deaths)),
    ];
    let version = group.first_version.as_ref();
    let version = version.map(|version| format!(", in version {version}"));
    facts.push((
        "first seen",
        format!(
            "{} ago{}",
            ago(group.first_seen),
            version.unwrap_or_default()
        ),
    ));
    facts.push(("last seen", format!("{} ago", ago(group.last_seen))));
    if let Some(owner) = &group.owner {
        facts.push(("owner", owner.clone()));
    }
    if let Some(resolved) = group.resolved_at {
        facts.push(("resolved", format!("{} ago", ago(resolved))));
    }
    if let Some(regressed) = group.regressed_at {
        let times = group.regressions;
        facts.push((
            "died again",
            format!("{} ago; regressions: {times}", ago(regressed)),
        ));
    }
    facts
}

/// Which group, and why.
#[derive(Args, Debug)]
struct Mark {
    /// The group.
    group: GroupId,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

impl Mark {
    fn run(
        &self,
        state: GroupState,
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let known = db.mark_group(self.group, state, &person::act(self.why.as_deref()))?;
        told(known, self.group, &db, arguments, io)
    }
}

/// Acknowledge a failure group: somebody is at it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq groups ack 12")]
struct Ack {
    #[command(flatten)]
    mark: Mark,
}

/// Resolve a failure group: it is fixed; when it dies again that is a regression.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq groups resolve 12 --why 'fixed in 1.4.3'")]
struct Resolve {
    #[command(flatten)]
    mark: Mark,
}

/// Ignore a failure group: it is known, and stays so when it dies again.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq groups ignore 12 --why 'test data'")]
struct Ignore {
    #[command(flatten)]
    mark: Mark,
}

/// Reopen a failure group: nobody is at it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq groups reopen 12")]
struct Reopen {
    #[command(flatten)]
    mark: Mark,
}

/// Write a note on a failure group in place of the one that is there.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq groups note 12 'see the runbook of the gateway'
  redrive dlq groups note 12 ''")]
struct Note {
    /// The group.
    group: GroupId,
    /// The note; nothing takes it away.
    text: String,
}

impl Note {
    fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let note = Some(&*self.text).filter(|text| !text.trim().is_empty());
        let known = db.note_group(self.group, note, &person::act(None))?;
        told(known, self.group, &db, arguments, io)
    }
}

/// Say whose a failure group is.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq groups own 12 payments
  redrive dlq groups own 12 ''")]
struct Own {
    /// The group.
    group: GroupId,
    /// A person or a team; nothing: nobody.
    owner: String,
}

impl Own {
    fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let owner = Some(&*self.owner).filter(|owner| !owner.trim().is_empty());
        let known = db.own_group(self.group, owner, &person::act(None))?;
        told(known, self.group, &db, arguments, io)
    }
}

/// Says what the group is now.
fn told(
    known: bool,
    id: GroupId,
    db: &Database,
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<Ending> {
    let Some(group) = db.group(id)?.filter(|_| known) else {
        return Ok(unknown(id, io));
    };
    if arguments.json {
        json_line(io.out, &object(&group))?;
    } else {
        let owner = group
            .owner
            .as_ref()
            .map(|owner| format!(", of {}", one_line(owner)));
        writeln!(
            io.out,
            "group {id} is {}{}",
            state(&group),
            owner.unwrap_or_default()
        )?;
    }
    Ok(Ending::Done)
}

fn unknown(id: GroupId, io: &mut Streams<'_>) -> Ending {
    io.say(format!("there is no failure group {id}"));
    Ending::NothingMatched
}

/// A group as JSON.
pub(super) fn object(group: &FailureGroup) -> serde_json::Value {
    json!({
        "id": group.id.get(),
        "queue": group.queue,
        "kind": group.kind,
        "error_class": group.error_class,
        "title": group.title,
        "sample": group.sample,
        "state": group.state.as_str(),
        "regression": group.is_regression(),
        "note": group.note,
        "owner": group.owner,
        "first_seen": rfc3339(group.first_seen),
        "first_version": group.first_version,
        "last_seen": rfc3339(group.last_seen),
        "resolved_at": group.resolved_at.map(rfc3339),
        "regressed_at": group.regressed_at.map(rfc3339),
        "regressions": group.regressions,
        "deaths": group.deaths,
        "open": group.open,
        "redriving": group.redriving,
        "recovered": group.recovered,
        "discarded": group.discarded,
        "quarantined": group.quarantined,
        "deaths_by_hour": group.hours,
    })
}
