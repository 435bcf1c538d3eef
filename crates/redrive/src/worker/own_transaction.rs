//! Handlers that settle their jobs in their own transactions.
//!
//! The job is settled last, right before the commit. Until then the transaction locks nothing that a worker or an
//! operator needs, and a handler whose lease ended meanwhile rolls back. A transaction that is aborted, read-only or no
//! longer the one that began cannot settle its job, so no COMMIT passes for a success without being one.
//!
//! An error from a session that lives shows that the database is up, so the attempt failed. If the session ended, another
//! session asks for the reason: the attempt also failed if the same server still runs, however the session ended.

use std::sync::Arc;
use std::time::SystemTime;

use postgres::error::SqlState;

use crate::db::database::Database;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::disposition::Disposition;
use crate::job::error_report::ErrorReport;
use crate::job::failure::Failure;
use crate::job::job::{JobId, OpenTransaction};
use crate::pipeline::attempt::run_handler;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::outcome::{FailedBy, Outcome};
use crate::pipeline::settle::settle_own;
use crate::pipeline::settlement::Settlement;
use crate::pipeline::{done_jobs, follow_up};
use crate::sync::{Instant, Transaction};
use crate::worker::handlers::{Call, Handler, JobEnd};
use crate::worker::slot_state::Run;

/// How a handler ended its job.
#[derive(Debug)]
pub(crate) enum AttemptResult {
    /// The end must be judged and settled.
    Judge(JobEnd),
    /// The handler's transaction settled the job.
    Settled,
    /// The handler's transaction found the lease lost and did nothing.
    Lost,
}

/// Runs the handler of a job. If it has its own transaction, settles the job in that.
pub(crate) fn attempt(
    handler: &Handler,
    claimed: ClaimedJob,
    run: &Run,
    db: &Database,
) -> AttemptResult {
    let signal = Arc::clone(&run.first.signal);
    let call = match &handler.call {
        Call::Plain(call) => return AttemptResult::Judge(call(claimed, signal)),
        Call::Batch(batch) => return AttemptResult::Judge(batch.run_one(claimed, signal)),
        Call::InTransaction(call) => call,
    };
    let mut attempt = OwnAttempt {
        run,
        server_started: None,
        xid: None,
    };
    let mut session = None;
    let ended = run_handler(|| {
        let session = session.insert(db.session().map_err(|error| not_begun(&error))?);
        // The server ends the transaction at the deadline of the job. If the server is silent, the connection does.
        let until = run.started + run.deadline + db.call_timeout();
        session.set_deadline(Some(until));
        Ok(attempt.run(session, |transaction| call(claimed, signal, transaction)))
    });
    let ended = ended.flatten();
    // It returns to the pool before another one is asked for.
    let lives = match (session.take(), &ended) {
        (Some(mut session), Err(_)) => session.answers(db.call_timeout()),
        (_, _) => true,
    };
    attempt.end(db, lives, ended)
}

/// An attempt and what is known of its transaction.
struct OwnAttempt<'a> {
    run: &'a Run,
    /// When the server of the transaction started. `None`: it has not begun.
    server_started: Option<SystemTime>,
    /// The id of the transaction that settled the job and commits. `None`: it settled none.
    xid: Option<String>,
}

impl OwnAttempt<'_> {
    /// Runs the handler, settles the job, stores its follow-ups and commits. Commits nothing if the lease is lost.
    fn run(
        &mut self,
        session: &mut Session,
        handler: impl FnOnce(&mut Transaction<'_>) -> JobEnd,
    ) -> Result<(), Outcome> {
        let (started, running) = (Instant::now(), &self.run.first);
        let id = running.meta.id;
        let error = |error| refusal("begin", id, error);
        let client = session.client();
        let begun = client.transaction().and_then(|mut transaction| {
            let rows = transaction.query_typed(sql::BEGIN_OWN.text, &[])?;
            Ok((transaction, rows))
        });
        let (mut transaction, rows) = begun.map_err(|refused| not_begun(&error(refused)))?;
        let row = rows
            .first()
            .filter(|row| !row.get::<_, bool>("is_read_only"));
        let Some(row) = row else {
            return Err(could_not_begin(id, "the database is read-only"));
        };
        let began: SystemTime = row.get("began");
        self.server_started = Some(row.get("server_started"));
        let own = OpenTransaction {
            pid: row.get("pid"),
            began,
            keeps_snapshot: row.get("keeps_snapshot"),
        };
        _ = running.signal.transaction.set(own);
        // The stop or the watchdog took the job while this thread waited for its session. After this, they end the
        // transaction.
        if self.run.is_taken() {
            return Err(could_not_begin(id, "it came too late"));
        }

        let follow_ups = handler(&mut transaction)?;

        let now = Instant::now();
        let ran = now.saturating_duration_since(started);
        let (lease, keep) = (running.lease, self.run.keep_done);
        let mut done = Settlement::done(lease, &running.meta, ran, keep, now);
        done.follow_ups = follow_ups;
        let Some(xid) = settle_in_own(&mut transaction, &done, began)? else {
            return Ok(());
        };
        self.xid = Some(xid);
        let committed = transaction.commit();
        committed.map_err(|refused| not_committed(id, refused).into())
    }

    /// Ends an attempt. If its session has ended, only an outage of the database is not charged.
    fn end(self, db: &Database, lives: bool, ended: Result<(), Outcome>) -> AttemptResult {
        let mut ended = ended;
        if let Some(server_started) = self.server_started.filter(|_| !lives) {
            let doing = "ask for the transaction of a handler";
            let asked = db
                .ask()
                .one(doing, &sql::ASK_OWN, &[&server_started, &self.xid]);
            match asked {
                Ok((_, true)) => return AttemptResult::Settled,
                Ok((true, false)) => {}
                // The database went away, so a panic is no fault of the handler either.
                Ok((false, false)) | Err(_) => {
                    ended = ended.map_err(|outcome| outcome.failure.interrupted().into());
                }
            }
        }
        match ended {
            Ok(()) if self.xid.is_some() => AttemptResult::Settled,
            Ok(()) => AttemptResult::Lost,
            Err(mut outcome) => {
                if self.server_started.is_none() && outcome.is_interrupted() {
                    outcome.by = FailedBy::NotBegun;
                }
                AttemptResult::Judge(Err(outcome))
            }
        }
    }
}

/// Settles a job as done in its handler's transaction, which began at `began`, and stores its follow-ups. Returns the id
/// of the transaction; `None`: the lease is lost.
pub(crate) fn settle_in_own(
    transaction: &mut Transaction<'_>,
    done: &Settlement,
    began: SystemTime,
) -> Result<Option<String>, Failure> {
    let id = done.meta.id;
    let refused = |error| not_settled(&refusal("settle", id, error));
    if done.may_wait() {
        // Another transaction may hold the key or the letter for longer than the deadline of the attempt.
        let set = transaction.batch_execute("SET LOCAL lock_timeout = '2s'");
        set.map_err(refused)?;
    }
    let Some(xid) = settle_own(transaction, done, began).map_err(refused)? else {
        return Ok(None);
    };
    let doing = format!("record the end of job {id} in its transaction");
    done_jobs::store(transaction, &doing, [done])
        .and_then(|()| follow_up::store(transaction, &doing, &done.follow_ups))
        .map_err(|error| not_settled(&error))?;
    Ok(Some(xid))
}

fn refusal(what: &str, id: JobId, error: postgres::Error) -> Error {
    Error::from_postgres(format!("{what} job {id} in its transaction"), error)
}

/// The failure of an attempt whose transaction could not commit.
pub(crate) fn not_committed(id: JobId, error: postgres::Error) -> Failure {
    not_accepted(&refusal("commit", id, error))
}

fn could_not_begin(id: JobId, why: &str) -> Outcome {
    let message = format!("could not begin job {id} in its transaction: {why}");
    not_begun(&Error::unavailable(message)).into()
}

/// The failure of an attempt whose handler did not run.
fn not_begun(error: &Error) -> Failure {
    let disposition = match error.is_unavailable() {
        true => Disposition::Interrupted,
        false => Disposition::Retry,
    };
    failure(error, disposition)
}

/// The failure of an attempt whose end could not be written. If another session, such as an operator's, changed or
/// locked the rows of redrive meanwhile, the handler is not to blame.
fn not_settled(error: &Error) -> Failure {
    match error.is_victim() || error.is_locked() {
        true => failure(error, Disposition::Interrupted),
        false => not_accepted(error),
    }
}

/// The failure of an attempt that the database did not accept.
pub(crate) fn not_accepted(error: &Error) -> Failure {
    let is_short = |state: &SqlState| matches!(state.code().get(..2), Some("53" | "58"));
    let disposition = match error.sql_state().is_some_and(is_short) {
        // The disk is full, for example.
        true => Disposition::Interrupted,
        false => Disposition::Retry,
    };
    failure(error, disposition)
}

/// Describes an error by its SQLSTATE and its cause, so that different failures have different groups.
fn failure(error: &Error, disposition: Disposition) -> Failure {
    let state = error.sql_state().map(SqlState::code);
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let described = Failure::from(error.clone()).report;
    let class = match state {
        Some(state) => format!("SQLSTATE {state}"),
        None if error.is_unavailable() => "SessionLost".to_owned(),
        None => described.class.into(),
    };
    let message = format!("{error}{}", cause.unwrap_or_default());
    let report = ErrorReport::new(&class, message, described.detail.map(String::from));
    Failure::new(disposition, report)
}
