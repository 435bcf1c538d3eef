//! Handlers that settle their jobs in their own transactions.
//!
//! The job is settled last, right before the commit. Until then the transaction locks nothing that a worker or an
//! operator needs, and a handler whose lease ended meanwhile rolls back. A transaction that is aborted, read-only or no
//! longer the one that began cannot settle its job, so no COMMIT passes for a success without being one.
//!
//! An error from a session that lives shows that the database is up, so the attempt failed. If the session ended, another
//! session asks for the reason: the attempt also failed if the same server still runs, however the session ended.

use std::slice;
use std::sync::Arc;
use std::time::SystemTime;

use postgres::error::SqlState;

use crate::db::database::Database;
use crate::db::run::Run as _;
use crate::db::session::{Parameter, Session};
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::disposition::Disposition;
use crate::job::error_report::ErrorReport;
use crate::job::failure::Failure;
use crate::job::job::{JobId, OpenTransaction};
use crate::pipeline::attempt::run_handler;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::outcome::{FailedBy, Outcome};
use crate::pipeline::settlement::Settlement;
use crate::pipeline::tallies::Tallies;
use crate::pipeline::{done_jobs, follow_up};
use crate::sync::{Instant, Transaction};
use crate::worker::handlers::{JobEnd, RunInTransaction};
use crate::worker::slot_state::Run;

/// How a handler ended its job.
#[derive(Debug)]
pub(crate) enum AttemptResult {
    /// The ends of the jobs must be judged and settled.
    Judge(Vec<JobEnd>),
    /// The job may no longer start, so its handler did not run.
    Unstarted,
    /// The handler's transaction settled the job.
    Settled,
    /// The handler's transaction found the lease lost and did nothing.
    Lost,
}

/// Runs the handler of a job in a transaction, and settles the job there, if the job `may_start` once that has begun.
pub(crate) fn attempt(
    handler: &RunInTransaction,
    claimed: ClaimedJob,
    run: &Run,
    db: &Database,
    may_start: impl Fn(&ClaimedJob) -> bool,
) -> AttemptResult {
    let signal = Arc::clone(&run.first.signal);
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
        Ok(attempt.run(session, |transaction| {
            let may_start = may_start(&claimed);
            may_start.then(|| handler(claimed, signal, transaction))
        }))
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
        handler: impl FnOnce(&mut Transaction<'_>) -> Option<JobEnd>,
    ) -> Result<AttemptResult, Outcome> {
        let (started, running) = (Instant::now(), &self.run.first);
        let id = running.meta.id;
        let could_not_begin = |why: &str| {
            let message = format!("could not begin job {id} in its transaction: {why}");
            Outcome::from(not_begun(&Error::unavailable(message)))
        };
        let client = session.client();
        let begun = client.transaction().and_then(|mut transaction| {
            let rows = transaction.query_typed(sql::BEGIN_OWN.text, &[])?;
            Ok((transaction, rows))
        });
        let (mut transaction, rows) = begun.map_err(|refused| {
            let doing = format!("begin job {id} in its transaction");
            not_begun(&Error::from_postgres(doing, refused))
        })?;
        let row = rows
            .first()
            .filter(|row| !row.get::<_, bool>("is_read_only"));
        let Some(row) = row else {
            return Err(could_not_begin("the database is read-only"));
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
            return Err(could_not_begin("it came too late"));
        }

        let Some(end) = handler(&mut transaction) else {
            return Ok(AttemptResult::Unstarted);
        };
        let follow_ups = end?;

        let now = Instant::now();
        let ran = now.saturating_duration_since(started);
        let (lease, keep) = (running.lease, self.run.keep_done);
        let mut done = Settlement::done(lease, &running.meta, ran, keep, now);
        done.follow_ups = follow_ups;
        let Some(xid) = settle_in_own(&mut transaction, &done, began)? else {
            return Ok(AttemptResult::Lost);
        };
        self.xid = Some(xid);
        let committed = transaction.commit();
        committed.map_err(|refused| not_committed(id, refused))?;
        Ok(AttemptResult::Settled)
    }

    /// Ends an attempt. If its session has ended, only an outage of the database is not charged.
    fn end(
        self,
        db: &Database,
        lives: bool,
        ended: Result<AttemptResult, Outcome>,
    ) -> AttemptResult {
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
            Ok(result) => result,
            Err(mut outcome) => {
                if self.server_started.is_none() && outcome.is_interrupted() {
                    outcome.by = FailedBy::NotBegun;
                }
                AttemptResult::Judge(vec![Err(outcome)])
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
    let doing = format!("settle job {} in its transaction", done.meta.id);
    settle(transaction, done, began, &doing).map_err(|error| {
        // If another session, such as an operator's, changed or locked the rows meanwhile, the handler is not to blame.
        let is_hindered = error.is_victim() || error.is_locked();
        failure(&error, is_hindered || is_short(&error))
    })
}

fn settle(
    transaction: &mut Transaction<'_>,
    done: &Settlement,
    began: SystemTime,
    doing: &str,
) -> Result<Option<String>> {
    if done.may_wait() {
        // Another transaction may hold the key or the letter for longer than the deadline of the attempt.
        let set = transaction.batch_execute("SET LOCAL lock_timeout = '2s'");
        set.map_err(|error| Error::from_postgres(doing, error))?;
    }
    let (meta, counts) = (&done.meta, Tallies::of(slice::from_ref(done)));
    let parameters: [Parameter<'_>; 11] = [
        &done.lease.0,
        &meta.id.get(),
        &meta.generation.cast_signed(),
        &meta.is_unique,
        &meta.group.is_some(),
        &began,
        &counts.keys,
        &counts.labels,
        &counts.buckets,
        &counts.counts,
        &counts.sums,
    ];
    let rows = transaction.run(doing, &sql::SETTLE_OWN, &parameters)?;
    let xid: Option<String> = rows.first().and_then(|row| row.get(0));
    if xid.is_some() {
        done_jobs::store(transaction, doing, [done])?;
        follow_up::store(transaction, doing, &done.follow_ups)?;
    }
    Ok(xid)
}

/// The failure of an attempt whose transaction could not commit.
pub(crate) fn not_committed(id: JobId, error: postgres::Error) -> Failure {
    let doing = format!("commit job {id} in its transaction");
    not_accepted(&Error::from_postgres(doing, error))
}

/// The failure of an attempt whose handler did not run.
fn not_begun(error: &Error) -> Failure {
    failure(error, error.is_unavailable())
}

/// The failure of an attempt that the database did not accept.
pub(crate) fn not_accepted(error: &Error) -> Failure {
    failure(error, is_short(error))
}

/// Whether the server lacks something: the disk is full, for example.
fn is_short(error: &Error) -> bool {
    let state = error.sql_state().map(SqlState::code);
    matches!(state.and_then(|code| code.get(..2)), Some("53" | "58"))
}

/// Describes an error by its SQLSTATE and its cause, so that different failures have different groups.
fn failure(error: &Error, is_interrupted: bool) -> Failure {
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
    let disposition = match is_interrupted {
        true => Disposition::Interrupted,
        false => Disposition::Retry,
    };
    Failure::new(disposition, report)
}
