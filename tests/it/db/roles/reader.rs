//! The command line of a reader: every command that only reads works, and no other does.

use std::process::ExitCode;

use redrive::dlq::runs::RunOptions;
use redrive::dlq::{LetterFilter, LetterState, Policy, Redaction, RetentionRule};
use redrive::{Operator, Queue};
use redrive_tests::{Order, ran_at};

use super::{Cast, Profession, letter};

/// Commands that read. Every text after `dlq` is an argument as a shell splits it at spaces.
const READS: &[&str] = &[
    "stats",
    "stats orders",
    "job show JOB",
    "migrate --check",
    "breaker list --all",
    "redact list",
    "audit",
    "prune --dry-run",
    "prune --older-than 1d",
    "dlq",
    "dlq ls",
    "dlq ls Broken",
    "dlq list",
    "dlq list orders class=Broken died<1d payload.number=1 audit=1 state=any",
    "dlq show LETTER",
    "dlq groups",
    "dlq groups orders died<1d",
    "dlq groups show 1",
    "dlq groups show 1 --by payload.number",
    "dlq groups ack class=Broken",
    "dlq redrive orders",
    "dlq discard orders --reason x",
    "dlq reopen orders",
    "dlq edit orders --merge {\"a\":1}",
    "dlq edit orders --undo",
    "dlq deliver orders --exec true",
    "dlq validate orders --exec true",
    "dlq export orders",
    "dlq runs list",
    "dlq runs show 1",
    "dlq runs show 1 --letters",
    "dlq policies list",
    "dlq policies set every --all",
    "dlq retention list",
    "dlq archive list",
    "dlq archive export",
];

/// Commands that write, and the role that each needs.
const WRITES: &[(&str, &str)] = &[
    ("enqueue orders order {}", "enqueuer"),
    ("work orders --exec true --drain", "worker"),
    ("job cancel JOB", "operator"),
    ("job set JOB --priority 3", "operator"),
    ("breaker open gateway", "operator"),
    ("breaker close gateway", "operator"),
    ("redact add --path /card", "operator"),
    ("redact remove 1", "operator"),
    ("prune --older-than 1d --yes", "operator"),
    ("audit counters", "operator"),
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
}

impl Library {
    fn new() -> Library {
        let cast = Cast::new();
        let db = cast.test.open();
        let operator = Operator::new("maria").reason("a test");
        let queue = Queue::new(&db, "orders").expect("a valid name");
        let job = queue.enqueue(&Order { number: 1 }).expect("a job");
        let letter = letter(&db);
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
        }
    }

    fn run(&self, profession: Profession, line: &str) -> redrive_tests::Ran {
        let arguments: Vec<&str> = line
            .split(' ')
            .map(|word| match word {
                "JOB" => &*self.job,
                "LETTER" => &*self.letter,
                word => word,
            })
            .collect();
        ran_at(&self.cast.url(profession), &arguments)
    }
}

#[test]
fn a_reader_can_use_every_command_that_only_reads() {
    let library = Library::new();
    let mut troubles = Vec::new();
    for line in READS {
        let ran = library.run(Profession::Reader, line);
        if ran.code == ExitCode::from(2) {
            troubles.push(format!("{line}: {}", ran.err));
        }
    }
    assert!(troubles.is_empty(), "\n{}", troubles.join("\n"));
    // The commands do read: another role is refused.
    let refused = library.run(Profession::Enqueuer, "dlq list").exits_with(2);
    assert!(
        refused.err.contains("this command needs the role reader"),
        "{}",
        refused.err
    );
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
