//! The operations of the library and of SQL, and the roles that may use them.
//!
//! `reader` runs each command in its role, so no operation stands here that only an operator may use, or only whoever
//! reads everything, and that is a command.

use std::error::Error;

use redrive_tests::prelude::*;

use super::Profession::{self, App, Capturer, Enqueuer, Exporter, Reader, Worker};
use super::letter;

/// The role that acts, and its database.
pub(super) struct Stage {
    pub(super) db: Database,
    pub(super) url: String,
    pub(super) client: Client,
    /// The superuser, who prepares rows.
    pub(super) owner: Database,
}

impl Stage {
    fn queue(&self) -> Queue {
        Queue::new(&self.db, "orders").expect("a valid name")
    }

    /// Makes a waiting job.
    fn job(&self) -> JobId {
        let queue = Queue::new(&self.owner, "waiting").expect("a valid name");
        queue.enqueue(&Order { number: 1 }).expect("a job")
    }

    fn sql(&mut self, statement: &str) -> Permitted {
        Ok(self.client.batch_execute(statement)?)
    }
}

type Permitted = Result<(), Box<dyn Error>>;

/// Whether an operation failed because the role lacks a privilege.
pub(super) fn is_denied(error: &(dyn Error + 'static)) -> bool {
    let of_library = error.downcast_ref::<redrive::Error>();
    let of_driver = error.downcast_ref::<postgres::Error>();
    let state = of_library.map(redrive::Error::sql_state);
    match state.or_else(|| of_driver.map(postgres::Error::code)) {
        Some(state) => state == Some(&SqlState::INSUFFICIENT_PRIVILEGE),
        None => error.to_string().contains("permission denied"),
    }
}

/// An operation, and the roles that may use it.
pub(super) struct Verb {
    pub(super) name: &'static str,
    pub(super) may: &'static [Profession],
    pub(super) run: Run,
}

impl Verb {
    /// Whether a role may use it. An app may do what those may whose work it does.
    pub(super) fn allows(&self, profession: Profession) -> bool {
        let of_app = [Enqueuer, Worker, Capturer, Exporter];
        self.may.contains(&profession)
            || profession == App && of_app.iter().any(|one| self.may.contains(one))
    }
}

type Run = fn(&mut Stage) -> Permitted;

const fn verb(name: &'static str, may: &'static [Profession], run: Run) -> Verb {
    Verb { name, may, run }
}

/// Every role.
const ALL: &[Profession] = &[
    Enqueuer,
    Worker,
    Capturer,
    Profession::Operator,
    Reader,
    Exporter,
];
/// The roles that write letters.
const BOTH: &[Profession] = &[Worker, Profession::Operator];
/// The roles that read all letters, runs and policies in the tables.
const READERS: &[Profession] = &[Worker, Profession::Operator, Reader];
/// The roles that read everything in the views.
const VIEWERS: &[Profession] = &[Profession::Operator, Reader];
/// The roles that make jobs: an operator can redrive an edited letter, and so make any job.
const MAKERS: &[Profession] = &[Enqueuer, Profession::Operator];
/// The roles that capture failures.
const CAPTURERS: &[Profession] = &[Capturer, Profession::Operator];
const NOBODY: &[Profession] = &[];

// One entry per operation.
#[rustfmt::skip]
pub(super) const VERBS: &[Verb] = &[
    // Jobs in.
    verb("enqueue a job", MAKERS, |on| { on.queue().enqueue(&Order { number: 1 })?; Ok(()) }),
    verb("enqueue a unique job", MAKERS, |on| { on.queue().enqueue_job(new_order(1).unique("one"))?; Ok(()) }),
    verb("enqueue a job with a window", MAKERS, |on| { on.queue().enqueue_job(new_order(1).unique("w").unique_window(DAY))?; Ok(()) }),
    verb("enqueue a delayed unique job", MAKERS, |on| { on.queue().enqueue_job(new_order(1).delay(DAY).unique("late"))?; Ok(()) }),
    verb("replace a job", MAKERS, |on| { on.queue().enqueue_job(new_order(2).delay(DAY).unique("late").replace(Replace::Both))?; Ok(()) }),
    verb("enqueue jobs by COPY", MAKERS, |on| { on.queue().enqueue_many(&Order::up_to(1001))?; Ok(()) }),
    verb("enqueue from SQL", MAKERS, |on| on.sql("SELECT redrive.enqueue('orders', 'order', '{}')")),
    verb("say how often a job was tried", BOTH, |on| on.sql(
        "INSERT INTO redrive.jobs (segment, id, enqueued_at, queue, kind, payload) VALUES (0, -1, now(), 'orders', 'order', '{}') ON CONFLICT DO NOTHING")),

    // Jobs run.
    verb("work", &[Worker], |on| {
        let working = worker(&on.queue()).handle(|_: &Job<Finish>| Ok(()));
        let working = working.start()?;
        working.stop(SOON)?;
        Ok(())
    }),
    verb("turn the ring", &[Worker], |on| on.sql("SELECT redrive.turn_ring(1000000000, 10)")),
    verb("bury unhandled jobs", BOTH, |on| on.sql("SELECT redrive.bury_unhandled('orders', 'retired', 'a test', 1)")),
    verb("fold the counters", &[Worker, Profession::Operator, Exporter], |on| on.sql("SELECT redrive.fold_metrics()")),
    verb("run a tick", &[Worker], |on| on.sql(
        "SELECT redrive.tick_schedule('none', 1, now(), '{}', 0, NULL, now())")),
    verb("look for due schedules", &[Worker, Profession::Operator, Reader], |on| on.sql("SELECT payload FROM redrive.schedules")),
    verb("set a schedule", &[App, Profession::Operator], |on| on.sql(
        "SELECT redrive.schedule('hourly', 'orders', 'order', '{}', every => '1 hour')")),
    verb("take a lease away", &[Worker], |on| on.sql("DELETE FROM redrive.leases WHERE lease_id = gen_random_uuid()")),
    verb("renew a worker", &[Worker], |on| on.sql("UPDATE redrive.workers SET expires_at = now() WHERE false")),
    verb("ask whether a queue is drained", BOTH, |on| { on.queue().is_drained()?; Ok(()) }),

    // Waiting and running jobs.
    verb("cancel a job", BOTH, |on| { on.db.admin().jobs().cancel(on.job(), &maria())?; Ok(()) }),
    verb("list the names of queues", READERS, |on| { on.db.admin().queue_names("orders", 5)?; Ok(()) }),
    verb("count jobs and letters", READERS, |on| { on.db.admin().stats(None)?; Ok(()) }),

    // Letters.
    verb("redrive from SQL", &[Profession::Operator], |on| on.sql(r#"SELECT redrive.redrive('{"ids": [1]}', reason => 'a test')"#)),
    verb("discard from SQL", &[Profession::Operator], |on| on.sql(r#"SELECT redrive.discard('{"ids": [1]}', reason => 'a test')"#)),
    verb("capture a failure", CAPTURERS, |on| { letter_by(on)?; Ok(()) }),
    verb("capture many failures", CAPTURERS, |on| {
        let all = [ForeignFailure::new("a", "1", "orders", "order", "{"), ForeignFailure::new("a", "2", "orders", "order", "{}")];
        on.db.dlq().capture_many(&all)?;
        Ok(())
    }),
    verb("capture from SQL", CAPTURERS, |on| on.sql("SELECT redrive.capture('s', '1', 'orders', 'order', '\\x7b')")),
    verb("capture an exported letter", &[Profession::Operator], |on| {
        let past = LetterPast::of(&on.owner.dlq().get(letter(&on.owner))?.expect("the letter"));
        on.db.dlq().capture(&ForeignFailure::new("a", "exported", "orders", "order", "{}").past(past))?;
        Ok(())
    }),
    verb("read archived bytes", VIEWERS, |on| { on.db.dlq().archived_bytes(JobId::new(1))?; Ok(()) }),
    verb("read captured bytes", READERS, |on| { on.db.dlq().captured_bytes(JobId::new(1))?; Ok(()) }),

    // Settings.
    verb("set the policy of job groups", &[App, Profession::Operator], |on| {
        let queue = Queue::new(&on.db, "grouped")?;
        queue.set_group_policy(GroupPolicy::Ordered(GroupDeath::Hold), &maria())?;
        queue.set_group_policy(GroupPolicy::None, &maria())?;
        Ok(())
    }),
    verb("sync schedules", &[App, Profession::Operator], |on| {
        let nightly = Schedule::every("nightly", DAY)?.job("orders", new_order(1));
        on.db.schedules().sync(&[nightly], &maria())?;
        Ok(())
    }),
    verb("set a policy by hand", &[Profession::Operator], |on| on.sql("UPDATE redrive.schedules SET policy = policy")),
    verb("apply retention", BOTH, |on| { on.db.dlq().retention().apply(&maria())?; Ok(()) }),
    verb("erase from SQL", &[Profession::Operator], |on| on.sql(r#"SELECT * FROM redrive.erase_batch('{"payload": "$.tenant == -1"}', 1, NULL, 'x')"#)),
    verb("erase from the audit by hand", NOBODY, |on| on.sql("UPDATE redrive.audit SET filter = NULL")),
    verb("protect a queue", NOBODY, |on| on.sql("SELECT redrive.set_protection('others', 1)")),
    verb("read why a queue is paused", READERS, |on| on.sql("SELECT reason FROM redrive.paused_queues")),
    verb("pause a queue by hand", &[Profession::Operator], |on| on.sql("UPDATE redrive.queue_pauses SET ends_at = ends_at")),

    // The command line.
    verb("type `redrive dlq`", READERS, |on| typed(on, &["dlq"])),
    verb("type `redrive stats`", READERS, |on| typed(on, &["stats"])),

    // Reading.
    verb("check the schema", ALL, |on| { on.db.check_schema()?; Ok(()) }),
    verb("read the payload of a waiting job", READERS, |on| on.sql("SELECT payload FROM redrive.jobs LIMIT 1")),
    verb("read a payload of the view", VIEWERS, |on| on.sql("SELECT payload FROM redrive.live_jobs LIMIT 1")),
    verb("read the message of a letter", READERS, |on| on.sql("SELECT error_message FROM redrive.letters LIMIT 1")),
    verb("read the title of a group", READERS, |on| on.sql("SELECT title FROM redrive.failure_groups LIMIT 1")),
    verb("read the audit", VIEWERS, |on| on.sql("SELECT reason FROM redrive.audit LIMIT 1")),
    verb("read the archive", VIEWERS, |on| on.sql("SELECT * FROM redrive.archived_letters LIMIT 1")),
    verb("read what failed", READERS, |on| on.sql("SELECT error_reason FROM redrive.dlq_events LIMIT 1")),
    verb("insert a failed event", &[Capturer, Profession::Operator], |on| on.sql(
        "INSERT INTO redrive.dlq_events (event_type, payload, error_reason) VALUES ('a', '{}', 'b')")),
    verb("claim failed events", BOTH, |on| on.sql(
        "UPDATE redrive.dlq_events SET status = 'PROCESSING' WHERE id IN (
            SELECT id FROM redrive.dlq_events WHERE status = 'PENDING' AND event_type = 'a' FOR UPDATE SKIP LOCKED)")),
    verb("edit a failed event", &[Profession::Operator], |on| on.sql(
        "UPDATE redrive.dlq_events SET payload = '{}' WHERE event_type = 'a'")),
    verb("archive succeeded events", &[Profession::Operator], |on| on.sql(
        "INSERT INTO redrive.dlq_events_archive SELECT * FROM redrive.dlq_events WHERE status = 'SUCCEEDED'")),
    verb("delete succeeded events", &[Profession::Operator], |on| on.sql(
        "DELETE FROM redrive.dlq_events WHERE status = 'SUCCEEDED'")),
    verb("look at queues", READERS, |on| on.sql("SELECT * FROM redrive.queues")),
    verb("read why there was a run", READERS, |on| on.sql("SELECT reason FROM redrive.runs")),
    verb("look at workers", &[Worker, Profession::Operator, Reader], |on| on.sql("SELECT host, slots FROM redrive.workers")),
    verb("read the keys of jobs", READERS, |on| on.sql("SELECT key FROM redrive.unique_keys LIMIT 1")),
    verb("read totals", &[Reader, Exporter], |on| on.sql("SELECT * FROM redrive.metric_totals()")),
    verb("read the numbers of queues", &[Reader, Exporter], |on| on.sql("SELECT * FROM redrive.metrics_queues()")),
    verb("read the numbers of the server", &[Exporter], |on| on.sql("SELECT * FROM redrive.metrics_server()")),

    // Operations that only some may use or none; the rights on tables and sequences are tested apart.
    verb("give a key away", NOBODY, |on| on.sql("UPDATE redrive.unique_keys SET key = key || 'x'")),
    verb("give a key to another job", NOBODY, |on| on.sql("UPDATE redrive.unique_keys SET job_id = -job_id")),
    verb("write the audit", BOTH, |on| on.sql("INSERT INTO redrive.audit (verb, person) VALUES ('test', 'me')")),
    verb("hold up the ring", NOBODY, |on| on.sql("SELECT FROM redrive.ring_segments FOR UPDATE")),
    verb("hold up a task", BOTH, |on| on.sql("SELECT FROM redrive.exclusive_tasks FOR UPDATE")),
    verb("drop a table", NOBODY, |on| on.sql("DROP TABLE redrive.leases")),
    verb("take the guard of the audit away", NOBODY, |on| on.sql("ALTER TABLE redrive.audit DISABLE TRIGGER append_only")),
    verb("grant a profession", NOBODY, |on| on.sql("SELECT redrive.grant_role(current_user::text, 'operator')")),
];

fn letter_by(on: &Stage) -> Permitted {
    let position = Uuid::new_v4().to_string();
    let broken = ForeignFailure::new("test", position, "orders", "order", "{");
    on.db.dlq().capture(&broken)?;
    Ok(())
}

/// Runs a command. Its error is what it reports.
fn typed(on: &Stage, arguments: &[&str]) -> Permitted {
    let ran = ran_at(&on.url, arguments);
    match ran.code == ExitCode::SUCCESS {
        true => Ok(()),
        false => Err(ran.err.into()),
    }
}
