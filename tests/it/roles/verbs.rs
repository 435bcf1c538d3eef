//! The verbs: everything that the library and SQL can do, and which professions may.

use std::time::Duration;

use postgres::Client;
use postgres::error::SqlState;
use redrive::{
    Act, Captured, Database, Edit, GroupId, GroupState, Groups, Job, JobId, Letter, LetterState,
    Letters, NewJob, Policy, PolicyMode, Queue, Redaction, RedriveOptions, Retention, RunOptions,
    Validators,
};
use redrive_tests::{Finish, Order, SOON, worker};

use super::Profession::{self, Enqueuer, Exporter, Operator, Reader, Worker};
use super::letter;

/// Who acts, and where.
pub(super) struct Stage {
    pub(super) db: Database,
    pub(super) url: String,
    pub(super) client: Client,
    /// For what has to be there before.
    pub(super) owner: Database,
}

impl Stage {
    fn queue(&self) -> Queue {
        Queue::new(&self.db, "orders").expect("a good name")
    }

    /// A job that waits.
    fn job(&self) -> JobId {
        let queue = Queue::new(&self.owner, "waiting").expect("a good name");
        queue.enqueue(&Order { number: 1 }).expect("a job")
    }

    /// A letter that waits, alone in the filter.
    fn letter(&self) -> Letters {
        Letters::ids([letter(&self.owner)])
    }

    fn group(&self) -> GroupId {
        letter(&self.owner);
        let groups = self.owner.groups(&Groups::all()).expect("groups");
        groups.first().expect("a group").id
    }

    fn sql(&mut self, statement: &str) -> Answer {
        Ok(self.client.batch_execute(statement)?)
    }
}

/// Why something could not be done.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) state: Option<SqlState>,
    #[expect(dead_code, reason = "it is told when a test fails")]
    told: String,
}

type Answer = Result<(), Refused>;

impl From<redrive::Error> for Refused {
    fn from(error: redrive::Error) -> Refused {
        Refused {
            state: error.sql_state().cloned(),
            told: format!("{error:?}"),
        }
    }
}

impl From<postgres::Error> for Refused {
    fn from(error: postgres::Error) -> Refused {
        Refused {
            state: error.code().cloned(),
            told: format!("{error:?}"),
        }
    }
}

/// Something to do, and who may.
pub(super) struct Verb {
    pub(super) name: &'static str,
    pub(super) may: &'static [Profession],
    pub(super) act: fn(&mut Stage) -> Answer,
}

const fn verb(
    name: &'static str,
    may: &'static [Profession],
    act: fn(&mut Stage) -> Answer,
) -> Verb {
    Verb { name, may, act }
}

/// Everybody who has any profession.
const ALL: &[Profession] = &[Enqueuer, Worker, Operator, Reader, Exporter];
/// Those who write letters.
const BOTH: &[Profession] = &[Worker, Operator];
/// Those who make jobs: who may send a letter back, edited, may make any.
const MAKERS: &[Profession] = &[Enqueuer, Operator];
const NOBODY: &[Profession] = &[];

fn job(number: i64) -> NewJob {
    NewJob::new(&Order { number }).expect("a job")
}

fn act() -> Act {
    Act::new().person("maria@ops-1").why("a test")
}

fn day() -> Duration {
    Duration::from_hours(24)
}

// A table: a verb an entry.
#[rustfmt::skip]
pub(super) const VERBS: &[Verb] = &[
    // Jobs in.
    verb("enqueue a job", MAKERS, |on| { on.queue().enqueue(&Order { number: 1 })?; Ok(()) }),
    verb("enqueue a delayed job", MAKERS, |on| { on.queue().add(job(1).delay(day()))?; Ok(()) }),
    verb("enqueue a job with options", MAKERS, |on| { on.queue().add(job(1).priority(3).max_attempts(2))?; Ok(()) }),
    verb("enqueue a unique job", MAKERS, |on| { on.queue().add_unique(job(1).unique("one"))?; Ok(()) }),
    verb("enqueue it again", MAKERS, |on| { on.queue().add_unique(job(1).unique("one"))?; Ok(()) }),
    verb("enqueue a delayed unique job", MAKERS, |on| { on.queue().add_unique(job(1).delay(day()).unique("late"))?; Ok(()) }),
    verb("enqueue ten jobs", MAKERS, |on| { on.queue().enqueue_many(&Order::up_to(10))?; Ok(()) }),
    verb("enqueue jobs by COPY", MAKERS, |on| { on.queue().enqueue_many(&Order::up_to(1001))?; Ok(()) }),
    verb("enqueue delayed jobs by COPY", MAKERS, |on| {
        on.queue().add_many((0..1001).map(|n| job(n).delay(day())).collect())?;
        Ok(())
    }),
    verb("enqueue in a transaction", MAKERS, |on| {
        let queue = on.queue();
        let mut transaction = on.client.transaction()?;
        queue.enqueue_in(&mut transaction, &Order { number: 1 })?;
        transaction.commit()?;
        Ok(())
    }),
    verb("enqueue from SQL", &[Enqueuer], |on| on.sql("SELECT redrive.enqueue('orders', 'order', '{}')")),
    verb("enqueue later from SQL", &[Enqueuer], |on| on.sql("SELECT redrive.enqueue('orders', 'order', '{}', delay => '1 h')")),
    verb("enqueue a key from SQL", &[Enqueuer], |on| on.sql("SELECT redrive.enqueue('orders', 'order', '{}', unique_key => 'sql')")),
    verb("say how often a job was tried", BOTH, |on| on.sql(
        "INSERT INTO redrive.jobs (segment, id, queue, kind, payload, attempt) VALUES (0, -1, 'orders', 'order', '{}', 3) ON CONFLICT DO NOTHING")),

    // Jobs run.
    verb("work", &[Worker], |on| {
        let working = worker(&on.queue())
            .handle(|_: &Job<Finish>| Ok(()))
            .start()?;
        working.stop(SOON)?;
        Ok(())
    }),
    verb("turn the ring", &[Worker], |on| on.sql("SELECT redrive.turn_ring(1000000000, 10)")),
    verb("fold the counters", BOTH, |on| on.sql("SELECT redrive.fold_metrics()")),
    verb("run the policies", &[Worker], |on| on.sql(
        "SELECT * FROM redrive.run_policies(gen_random_uuid(), interval '1 s')")),
    verb("take a lease away", &[Worker], |on| on.sql("DELETE FROM redrive.leases WHERE lease_id = gen_random_uuid()")),
    verb("renew a worker", &[Worker], |on| on.sql("UPDATE redrive.workers SET expires_at = now() WHERE false")),
    verb("ask whether a queue is drained", BOTH, |on| { on.queue().is_drained()?; Ok(()) }),

    // Waiting and running jobs.
    verb("show a job", &[Operator], |on| { on.db.job(on.job())?; Ok(()) }),
    verb("cancel a job", BOTH, |on| { on.db.cancel(on.job())?; Ok(()) }),
    verb("set a priority", BOTH, |on| { on.db.set_priority(on.job(), 7)?; Ok(()) }),
    verb("count jobs and letters", BOTH, |on| { on.db.stats(None)?; Ok(()) }),

    // Letters.
    verb("list letters", &[Operator], |on| { on.db.letters(&Letters::queue("orders"))?; Ok(()) }),
    verb("count letters", &[Operator], |on| { on.db.count_letters(&Letters::queue("orders"))?; Ok(()) }),
    verb("show a letter", &[Operator], |on| { on.db.letter(letter(&on.owner))?; Ok(()) }),
    verb("validate letters", &[Operator], |on| { on.db.validate(&on.letter(), &Validators::new())?; Ok(()) }),
    verb("preview a redrive", &[Operator], |on| { on.db.preview_redrive(&on.letter(), &RedriveOptions::new())?; Ok(()) }),
    verb("redrive letters", &[Operator], |on| { on.db.redrive(&on.letter(), &act())?; Ok(()) }),
    verb("redrive from SQL", &[Operator], |on| on.sql(r#"SELECT redrive.redrive('{"ids": [1]}', why => 'a test')"#)),
    verb("discard letters", &[Operator], |on| { on.db.discard(&on.letter(), &act())?; Ok(()) }),
    verb("discard from SQL", &[Operator], |on| on.sql(r#"SELECT redrive.discard('{"ids": [1]}', why => 'a test')"#)),
    verb("prune letters", &[Operator], |on| { on.db.prune(day())?; Ok(()) }),
    verb("capture a failure", &[Operator], |on| { letter_by(on)?; Ok(()) }),
    verb("capture many failures", &[Operator], |on| {
        let all = [Captured::new("a", "1", "orders", "order", "{"), Captured::new("a", "2", "orders", "order", "{}")];
        on.db.capture_many(&all)?;
        Ok(())
    }),
    verb("capture from SQL", &[Operator], |on| on.sql("SELECT redrive.capture('s', '1', 'orders', 'order', '\\x7b')")),
    verb("edit letters", &[Operator], |on| { on.db.edit(&on.letter(), &merge(), &act())?; Ok(()) }),
    verb("preview an edit", &[Operator], |on| { on.db.preview_edit::<redrive::Error>(&on.letter(), &merge(), |_| Ok(()))?; Ok(()) }),
    verb("restore a version", &[Operator], |on| {
        let id = letter(&on.owner);
        on.owner.edit(&Letters::ids([id]), &merge(), &act())?;
        on.db.restore_version(id, None, &act())?;
        Ok(())
    }),
    verb("read the versions of a letter", BOTH, |on| { on.db.versions(letter(&on.owner))?; Ok(()) }),
    verb("deliver letters", &[Operator], |on| {
        let sink = |_: &Letter| Ok(());
        on.db.redrive_to(&on.letter(), &sink, &act())?;
        Ok(())
    }),

    // Redrive runs.
    verb("start and drive a run", &[Operator], |on| {
        let (_, mut driver) = on.db.start_run(&on.letter(), &RunOptions::new(), &act())?.expect("a letter");
        driver.step()?;
        Ok(())
    }),
    verb("pause, resume and cancel a run", &[Operator], |on| {
        let run = on.owner.create_run(&on.letter(), &RunOptions::new(), &act())?.expect("a letter").id;
        on.db.pause_run(run, &act())?;
        on.db.resume_run(run, &act())?;
        on.db.cancel_run(run, &act())?;
        Ok(())
    }),
    verb("list runs", BOTH, |on| { on.db.runs(10)?; Ok(()) }),
    verb("count what a run skipped", BOTH, |on| {
        let run = on.owner.create_run(&on.letter(), &RunOptions::new(), &act())?.expect("a letter").id;
        on.db.run_skips(run)?;
        Ok(())
    }),

    // Groups, policies, retention, redactions, breakers, audit.
    verb("list groups", BOTH, |on| { on.db.groups(&Groups::all())?; Ok(()) }),
    verb("acknowledge a group", &[Operator], |on| { on.db.mark_group(on.group(), GroupState::Acknowledged, &act())?; Ok(()) }),
    verb("note a group", &[Operator], |on| { on.db.note_group(on.group(), Some("known"), &act())?; Ok(()) }),
    verb("own a group", &[Operator], |on| { on.db.own_group(on.group(), Some("payments"), &act())?; Ok(()) }),
    verb("list policies", BOTH, |on| { on.db.policies()?; Ok(()) }),
    verb("set a policy", &[Operator], |on| { on.db.set_policy(&policy(), &act())?; Ok(()) }),
    verb("pause a policy", &[Operator], |on| {
        on.owner.set_policy(&policy(), &act())?;
        on.db.set_policy_mode("never", PolicyMode::Paused, &act())?;
        Ok(())
    }),
    verb("remove a policy", &[Operator], |on| { on.db.remove_policy("never", &act())?; Ok(()) }),
    verb("list rules of retention", BOTH, |on| { on.db.retention()?; Ok(()) }),
    verb("set a rule of retention", &[Operator], |on| {
        on.db.set_retention(&Retention::archive(LetterState::Recovered, day()), &act())?;
        Ok(())
    }),
    verb("count what is due", &[Operator], |on| { on.db.retention_due()?; Ok(()) }),
    verb("apply retention", BOTH, |on| { on.db.retain(&act())?; Ok(()) }),
    verb("remove a rule of retention", &[Operator], |on| { on.db.remove_retention(None, LetterState::Recovered, &act())?; Ok(()) }),
    verb("read the archive", &[Operator], |on| { on.db.archived_letters(None, None, 10)?; Ok(()) }),
    verb("list redactions", BOTH, |on| { on.db.redactions()?; Ok(()) }),
    verb("add a redaction", &[Operator], |on| { on.db.add_redaction(&Redaction::new().path("/card"), &act())?; Ok(()) }),
    verb("remove a redaction", &[Operator], |on| {
        let id = on.owner.add_redaction(&Redaction::new().path("/card"), &act())?;
        on.db.remove_redaction(id, &act())?;
        Ok(())
    }),
    verb("list breakers", BOTH, |on| { on.db.breakers()?; Ok(()) }),
    verb("open a breaker", &[Operator], |on| { on.db.open_breaker("gateway", None, &act())?; Ok(()) }),
    verb("close a breaker", &[Operator], |on| { on.db.close_breaker("gateway", &act())?; Ok(()) }),
    verb("read the audit", &[Operator], |on| { on.db.audit(&redrive::Audit::all())?; Ok(()) }),
    verb("compare the counters", &[Operator], |on| { on.db.audit_counters()?; Ok(()) }),

    // The command line.
    verb("type `redrive dlq`", BOTH, |on| typed(on, &["dlq"])),
    verb("type `redrive stats`", BOTH, |on| typed(on, &["stats"])),

    // Looking.
    verb("check the schema", ALL, |on| { on.db.check_schema()?; Ok(()) }),
    verb("read the payload of a waiting job", BOTH, |on| on.sql("SELECT payload FROM redrive.jobs LIMIT 1")),
    verb("read a payload of the view", &[Operator], |on| on.sql("SELECT payload FROM redrive.live_jobs LIMIT 1")),
    verb("read a history of the view", &[Operator], |on| on.sql("SELECT history FROM redrive.live_jobs LIMIT 1")),
    verb("look at live jobs", &[Operator, Reader], |on| on.sql("SELECT id, queue, state, attempt FROM redrive.live_jobs LIMIT 1")),
    verb("read the message of a letter", &[Operator], |on| on.sql("SELECT error_message FROM redrive.letters LIMIT 1")),
    verb("read the bytes of a letter", &[Operator], |on| on.sql("SELECT raw FROM redrive.letters LIMIT 1")),
    verb("look at letters", &[Operator, Reader], |on| on.sql("SELECT id, state, reason, error_class FROM redrive.letters LIMIT 1")),
    verb("read the title of a group", BOTH, |on| on.sql("SELECT title FROM redrive.failure_groups LIMIT 1")),
    verb("look at groups", &[Worker, Operator, Reader], |on| on.sql("SELECT id, open, deaths FROM redrive.failure_groups LIMIT 1")),
    verb("read what failed", &[Operator], |on| on.sql("SELECT error_reason FROM redrive.dlq_events LIMIT 1")),
    verb("look at what failed", &[Operator, Reader], |on| on.sql("SELECT status, retry_count FROM redrive.dlq_events LIMIT 1")),
    verb("look at queues", &[Operator, Reader], |on| on.sql("SELECT * FROM redrive.queues")),
    verb("look at runs", &[Worker, Operator, Reader], |on| on.sql("SELECT id, state, sent FROM redrive.runs")),
    verb("read why there was a run", BOTH, |on| on.sql("SELECT why FROM redrive.runs")),
    verb("look at workers", &[Worker, Operator, Reader], |on| on.sql("SELECT host, slots FROM redrive.workers")),
    verb("read the keys of jobs", &[Enqueuer, Worker, Operator], |on| on.sql("SELECT key FROM redrive.unique_keys LIMIT 1")),
    verb("read totals", &[Reader, Exporter], |on| on.sql("SELECT * FROM redrive.metric_totals()")),
    verb("read the numbers of queues", &[Reader, Exporter], |on| on.sql("SELECT * FROM redrive.metrics_queues()")),
    verb("read the numbers of the server", &[Exporter], |on| on.sql("SELECT * FROM redrive.metrics_server()")),

    // What nobody may.
    verb("give a key away", NOBODY, |on| on.sql("UPDATE redrive.unique_keys SET key = key || 'x'")),
    verb("give a key to another job", NOBODY, |on| on.sql("UPDATE redrive.unique_keys SET job_id = -job_id")),
    verb("write the audit", BOTH, |on| on.sql("INSERT INTO redrive.audit (verb, person) VALUES ('test', 'me')")),
    verb("change the audit", NOBODY, |on| on.sql("UPDATE redrive.audit SET person = 'somebody else'")),
    verb("delete from the audit", NOBODY, |on| on.sql("DELETE FROM redrive.audit")),
    verb("empty the audit", NOBODY, |on| on.sql("TRUNCATE redrive.audit")),
    verb("empty the jobs", NOBODY, |on| on.sql("TRUNCATE redrive.jobs")),
    verb("empty the letters", NOBODY, |on| on.sql("TRUNCATE redrive.dead_letters CASCADE")),
    verb("empty the archive", NOBODY, |on| on.sql("DELETE FROM redrive.archived_letters")),
    verb("set the ids back", NOBODY, |on| on.sql("SELECT setval('redrive.job_id', 1)")),
    verb("turn the ring by hand", NOBODY, |on| on.sql("UPDATE redrive.ring SET segment = 1")),
    verb("pretend a migration", NOBODY, |on| on.sql(
        "INSERT INTO redrive.migrations (version, name, checksum, breaking) VALUES (99, 'a', 'b', false)")),
    verb("make a table", NOBODY, |on| on.sql("CREATE TABLE redrive.mine ()")),
    verb("make a function", NOBODY, |on| on.sql("CREATE FUNCTION redrive.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'")),
    verb("drop a table", NOBODY, |on| on.sql("DROP TABLE redrive.leases")),
    verb("take the guard of the audit away", NOBODY, |on| on.sql("ALTER TABLE redrive.audit DISABLE TRIGGER append_only")),
    verb("grant a profession", NOBODY, |on| on.sql("SELECT redrive.grant_role(current_user::text, 'operator')")),
    verb("grant the metrics", NOBODY, |on| on.sql("SELECT redrive.grant_metrics(current_user::text)")),
];

fn merge() -> Edit {
    Edit::merge(r#"{"currency": "EUR"}"#).expect("a merge patch")
}

/// A policy that does nothing while the test runs.
fn policy() -> Policy {
    Policy::new("never", Letters::queue("nobody")).every(365 * day())
}

fn letter_by(on: &Stage) -> Answer {
    let position = uuid::Uuid::new_v4().to_string();
    on.db
        .capture(&Captured::new("test", position, "orders", "order", "{"))?;
    Ok(())
}

/// Whether a command says that it may not.
fn typed(on: &Stage, arguments: &[&str]) -> Answer {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let program = ["redrive", "--database-url", &on.url, "--no-wait"];
    let arguments = program
        .iter()
        .chain(arguments)
        .map(std::ffi::OsString::from);
    let code = redrive_cli::run(arguments, &mut out, &mut err);
    let told = String::from_utf8(err).expect("UTF-8");
    match code {
        _ if told.contains("permission denied") => Err(Refused {
            state: Some(SqlState::INSUFFICIENT_PRIVILEGE),
            told,
        }),
        code if code == std::process::ExitCode::SUCCESS => Ok(()),
        _ => Err(Refused { state: None, told }),
    }
}
