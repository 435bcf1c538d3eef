//! The command line of a reader: every command that only reads works, and no other does.

use std::process::ExitCode;

use redrive::dlq::runs::RunOptions;
use redrive::dlq::{
    ForeignFailure, GroupFilter, GroupId, LetterFilter, LetterState, Policy, Protection, Redaction,
    RetentionRule, SplitBy,
};
use redrive::schedule::Schedule;
use redrive::{Database, JobId, NewJob, Operator, Queue};
use redrive_tests::{Order, ran_at};

use super::{Cast, Profession, letter};

/// Commands that only read. A space separates two arguments.
const READS: &[&str] = &[
    "stats",
    "stats orders",
    "job list",
    "job list orders state=ready payload.number=1",
    "job show JOB",
    "queue list",
    "queue limits",
    "queue groups show orders",
    "queue groups held orders",
    "breaker list --all",
    "redact list",
    "audit",
    "dlq",
    "dlq ls",
    "dlq ls Broken",
    "dlq list",
    "dlq list orders class=Broken age<1d payload.number=1 audit=1 state=any",
    "dlq show LETTER",
    "dlq groups",
    "dlq groups orders age<1d",
    "dlq groups show 1",
    "dlq groups list --all",
    "dlq groups show 1 --by payload.number",
    "dlq groups rules list",
    "dlq validate orders --exec true",
    "dlq export orders",
    "dlq runs list",
    "dlq runs show 1",
    "dlq runs show 1 --letters",
    "dlq runs watch 1 --max-wait 0s",
    "dlq protection list",
    "dlq policies list",
    "dlq retention list",
    "schedule list",
    "schedule show hourly",
    "schedule history hourly",
    "dlq archive list",
    "dlq archive list orders payload.number=1",
    "dlq archive show ARCHIVED",
    "dlq archive export",
];

/// Dry runs of commands that write.
const DRY_RUNS: &[&str] = &[
    "prune --dry-run",
    "prune --older-than 1d",
    "prune --audit --older-than 30d",
    "job cancel orders",
    "job priority 3 orders",
    "job run-now orders",
    "job edit orders --merge {\"a\":1}",
    "dlq groups ack class=Broken",
    "dlq groups merge 1 GROUP",
    "dlq groups split 1 --by payload.number",
    "dlq redrive orders",
    "dlq discard orders --reason x",
    "dlq reopen orders",
    "dlq edit orders --merge {\"a\":1}",
    "dlq edit orders --undo",
    "dlq deliver orders --exec true",
    "dlq policies set every --all",
    "dlq archive delete orders",
    "schedule set daily orders order {} --cron @daily --dry-run",
];

/// Commands that write, and the role that each needs.
const WRITES: &[(&str, &str)] = &[
    ("enqueue orders order {}", "enqueuer"),
    ("work orders --exec true --drain", "worker"),
    ("job cancel JOB", "operator"),
    ("job set JOB --priority 3", "operator"),
    ("job cancel orders --yes", "operator"),
    ("job priority 3 orders --yes", "operator"),
    ("job run-now JOB", "operator"),
    ("job edit JOB --set 1", "operator"),
    ("erase payload.number=1", "operator"),
    ("prune --audit --older-than 30d --yes", "operator"),
    ("dlq archive restore orders", "operator"),
    ("dlq archive restore --id ARCHIVED", "operator"),
    ("dlq archive delete orders --yes", "operator"),
    ("dlq groups merge 1 GROUP --yes", "operator"),
    ("dlq groups split 1 --by payload.number --yes", "operator"),
    ("dlq groups rules apply 1", "operator"),
    ("dlq groups rules remove 1", "operator"),
    ("dlq runs approve 1", "operator"),
    ("queue pause orders --reason x", "operator"),
    ("queue resume orders", "operator"),
    ("queue limit orders --rate 1/s --reason x", "operator"),
    ("queue unlimit orders", "operator"),
    ("queue groups set orders fair --reason x", "operator"),
    ("queue groups release orders g --reason x", "operator"),
    ("breaker open gateway", "operator"),
    ("breaker close gateway", "operator"),
    ("redact add --path /card", "operator"),
    ("redact remove 1", "operator"),
    ("prune --older-than 1d --yes", "operator"),
    ("audit counters", "operator"),
    ("repair", "operator"),
    ("dlq redrive orders --yes", "operator"),
    ("dlq redrive LETTER", "operator"),
    ("dlq discard LETTER --reason x", "operator"),
    ("dlq reopen orders --yes", "operator"),
    ("dlq runs resume 1 --detach", "operator"),
    ("redact apply", "operator"),
    ("dlq edit LETTER --merge {\"a\":1}", "operator"),
    ("dlq deliver LETTER --exec true", "operator"),
    ("dlq capture kafka 1 orders order /dev/null", "capturer"),
    ("dlq groups ack 1", "operator"),
    ("dlq groups ack class=Broken --yes", "operator"),
    ("dlq groups note 1 known", "operator"),
    ("dlq groups own 1 payments", "operator"),
    ("dlq runs pause 1", "operator"),
    ("dlq runs cancel 1", "operator"),
    (
        "schedule set daily orders order {} --cron @daily",
        "operator",
    ),
    ("schedule pause hourly", "operator"),
    ("schedule resume hourly", "operator"),
    ("schedule trigger hourly", "operator"),
    ("schedule remove hourly", "operator"),
    ("dlq policies set p orders", "operator"),
    ("dlq policies pause nightly", "operator"),
    ("dlq policies remove nightly", "operator"),
    ("dlq retention set recovered 30d", "operator"),
    ("dlq retention remove recovered", "operator"),
];

/// A database with one of everything that a command shows, and the URL of a reader.
struct Library {
    cast: Cast,
    job: String,
    letter: String,
    archived: String,
    group: String,
}

impl Library {
    fn new() -> Library {
        let cast = Cast::new();
        let db = cast.test.open();
        let operator = Operator::new("maria").reason("a test");
        let queue = Queue::new(&db, "orders").expect("a valid name");
        let job = queue.enqueue(&Order { number: 1 }).expect("a job");
        let archived = archived(&db, &operator);
        let letter = letter(&db);
        let group = other_group(&db);
        protect(&db, &operator);
        let run = db.dlq().runs().create(
            &LetterFilter::new().queue("orders"),
            &RunOptions::new(),
            &operator,
        );
        run.expect("a run").expect("a letter");
        let nightly = Policy::new("nightly", LetterFilter::new().queue("nobody"));
        db.dlq()
            .policies()
            .set(&nightly, &operator)
            .expect("a policy");
        let rule =
            RetentionRule::archive(LetterState::Recovered, std::time::Duration::from_hours(24));
        db.dlq().retention().set(&rule, &operator).expect("a rule");
        let report = NewJob::raw("order", "{}").expect("a job");
        let hourly = Schedule::every("hourly", std::time::Duration::from_hours(1));
        let hourly = hourly.expect("an interval").job("elsewhere", report);
        db.schedules().set(&hourly, &operator).expect("a schedule");
        db.schedules()
            .trigger("hourly", &operator)
            .expect("a trigger");
        let redaction = Redaction::new().path("/number");
        db.dlq()
            .redactions()
            .add(&redaction, &operator)
            .expect("a redaction");
        db.admin()
            .open_breaker("gateway", None, &operator)
            .expect("a breaker");
        let discarded = super::letter(&db);
        let discarded = LetterFilter::new().ids([discarded]);
        db.dlq().discard(&discarded, &operator).expect("a discard");
        Library {
            cast,
            job: job.to_string(),
            letter: letter.to_string(),
            archived: archived.to_string(),
            group: group.to_string(),
        }
    }

    fn run(&self, profession: Profession, line: &str) -> redrive_tests::Ran {
        let arguments: Vec<&str> = line
            .split(' ')
            .map(|word| match word {
                "JOB" => &*self.job,
                "LETTER" => &*self.letter,
                "ARCHIVED" => &*self.archived,
                "GROUP" => &*self.group,
                word => word,
            })
            .collect();
        ran_at(&self.cast.url(profession), &arguments)
    }
}

/// Archives a letter.
fn archived(db: &Database, operator: &Operator) -> JobId {
    let letter = letter(db);
    let discarded = LetterFilter::new().ids([letter]);
    db.dlq().discard(&discarded, operator).expect("a discard");
    let rule = RetentionRule::archive(LetterState::Discarded, std::time::Duration::ZERO);
    let retention = db.dlq().retention();
    retention.set(&rule, operator).expect("a rule");
    assert_eq!(retention.apply(operator).expect("an archive"), 1);
    let removed = retention.remove(None, LetterState::Discarded, operator);
    assert!(removed.expect("a removal"));
    letter
}

/// Captures a failure in another queue, and returns its group.
fn other_group(db: &Database) -> GroupId {
    let failure = ForeignFailure::new("kafka", "1", "mail", "mail", b"{}".to_vec());
    db.dlq().capture(&failure).expect("a letter");
    let groups = db.dlq().groups().list(&GroupFilter::new().queue("mail"));
    groups.expect("groups")[0].id
}

/// Protects a queue, and splits a group.
fn protect(db: &Database, operator: &Operator) {
    let protection = Protection::new("payments").approve_above(0);
    db.dlq().protect(&protection, operator).expect("a queue");
    let groups = db.dlq().groups().list(&GroupFilter::new().queue("orders"));
    let group = groups.expect("groups")[0].id;
    let by: SplitBy = "payload.region".parse().expect("a property");
    let split = db.dlq().groups().split(group, &by, operator);
    assert_eq!(split.expect("a rule").rule.get(), 1);
}

#[test]
fn a_reader_can_use_every_command_that_only_reads() {
    let library = Library::new();
    let mut troubles = Vec::new();
    for line in READS.iter().chain(DRY_RUNS) {
        let ran = library.run(Profession::Reader, line);
        if ran.code == ExitCode::from(2) {
            troubles.push(format!("{line}: {}", ran.err));
        }
    }
    assert!(troubles.is_empty(), "\n{}", troubles.join("\n"));
}

#[test]
fn a_command_that_only_reads_asks_for_no_other_role() {
    let library = Library::new();
    let mut troubles = Vec::new();
    for line in READS {
        let ran = library.run(Profession::Nobody, line);
        let needed = "this command needs the role reader, which the owner";
        if ran.code != ExitCode::from(2) || !ran.err.contains(needed) {
            troubles.push(format!("{line}: {:?} {}{}", ran.code, ran.out, ran.err));
        }
    }
    assert!(troubles.is_empty(), "\n{}", troubles.join("\n"));
}

#[test]
fn only_the_owner_changes_protections() {
    let library = Library::new();
    for line in [
        "dlq protection set orders --approve-above 5",
        "dlq protection remove payments",
    ] {
        for profession in [Profession::Reader, Profession::Operator] {
            let refused = library.run(profession, line).exits_with(2);
            let needed = "only the owner of the schema may do this";
            assert!(refused.err.contains(needed), "{line}: {}", refused.err);
        }
    }
}

#[test]
fn a_command_that_writes_is_refused_with_the_role_that_may() {
    let library = Library::new();
    let mut troubles = Vec::new();
    for (line, profession) in WRITES {
        let ran = library.run(Profession::Reader, line);
        let needed = format!("this command needs the role {profession}, which the owner");
        if ran.code != ExitCode::from(2) || !ran.err.contains(&needed) {
            troubles.push(format!("{line}: {:?} {}{}", ran.code, ran.out, ran.err));
        }
    }
    assert!(troubles.is_empty(), "\n{}", troubles.join("\n"));
}
