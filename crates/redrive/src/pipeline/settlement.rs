//! A settlement: the verdict on a leased job, with what is stored and counted about it.

use std::sync::Arc;
use std::time::Duration;

use crate::job::error_report::ErrorReport;
use crate::job::follow_up::FollowUp;
use crate::job::job::JobMeta;
use crate::job::payload::Json;
use crate::pipeline::claim::LeaseId;
use crate::pipeline::judge::{JudgeContext, Verdict, judge};
use crate::pipeline::outcome::{FailureCause, Outcome};
use crate::sync::Instant;

/// A verdict on a leased job.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    pub(crate) lease: LeaseId,
    pub(crate) meta: Arc<JobMeta>,
    pub(crate) run_time: Duration,
    pub(crate) verdict: Verdict,
    /// The error of the attempt. `None`: it has none.
    pub(crate) report: Option<ErrorReport>,
    /// Why the attempt failed. `None`: it did not.
    pub(crate) cause: Option<FailureCause>,
    /// The time since the first enqueue of the job.
    pub(crate) age: Duration,
    /// The jobs to store with the verdict. Only a finished job has any.
    pub(crate) follow_ups: Vec<FollowUp>,
    /// How long to keep it if it is done.
    pub(crate) keep_done: Option<Duration>,
    /// The headers of its last checkpoint, if they are not stored. A finished job has none, unless its follow-ups may be
    /// rejected.
    pub(crate) checkpoint: Option<Json>,
}

impl Settlement {
    /// Returns the settlement of a job that a handler finished at `now`.
    pub(crate) fn done(
        lease: LeaseId,
        meta: &Arc<JobMeta>,
        run_time: Duration,
        keep_done: Option<Duration>,
        now: Instant,
    ) -> Settlement {
        Settlement {
            lease,
            meta: Arc::clone(meta),
            run_time,
            verdict: Verdict::Done,
            report: None,
            cause: None,
            age: meta.age + now.saturating_duration_since(meta.claimed),
            follow_ups: Vec::new(),
            keep_done,
            checkpoint: None,
        }
    }

    /// Returns that of a claimed job that did not run: it returns after this time, without a charge.
    pub(crate) fn unrun(lease: LeaseId, meta: &Arc<JobMeta>, delay: Duration) -> Settlement {
        Settlement {
            verdict: Verdict::Unrun(delay),
            ..Settlement::done(lease, meta, Duration::ZERO, None, meta.claimed)
        }
    }

    /// Replaces the verdict by that on an attempt with this end. One that did not succeed stores its checkpoint, and so
    /// does one whose follow-ups the database rejects.
    pub(crate) fn judged(
        self,
        end: Result<Vec<FollowUp>, Outcome>,
        at: &JudgeContext<'_>,
        checkpoint: impl FnOnce() -> Option<Json>,
    ) -> Settlement {
        let (follow_ups, failed, checkpoint) = match end {
            Ok(follow_ups) if follow_ups.is_empty() => (follow_ups, None, None),
            Ok(follow_ups) => (follow_ups, None, checkpoint()),
            Err(failed) => (Vec::new(), Some(failed), checkpoint()),
        };
        let cause = failed.as_ref().and_then(|failed| failed.causes().0);
        let (verdict, report) = judge(failed, at);
        Settlement {
            verdict,
            report,
            cause,
            follow_ups,
            checkpoint,
            ..self
        }
    }

    /// Whether no handler ran, and the job is to return. It waits on, so nothing of the attempt is counted.
    pub(crate) fn is_unrun(&self) -> bool {
        matches!(self.verdict, Verdict::Unrun(_))
    }

    /// Whether no slot started the job, so that it returns as if it had not been claimed.
    pub(crate) fn is_unstarted(&self) -> bool {
        self.is_unrun() && self.report.is_none()
    }

    /// Whether the settle writes only the verdict.
    pub(crate) fn is_verdict_only(&self) -> bool {
        !self.has_follow_ups() && self.checkpoint.is_none() && self.kept_for().is_none()
    }

    /// How long to keep it. `None`: it is not done, or nothing of it is kept.
    pub(crate) fn kept_for(&self) -> Option<Duration> {
        self.keep_done.filter(|_| self.verdict == Verdict::Done)
    }

    pub(crate) fn has_follow_ups(&self) -> bool {
        !self.follow_ups.is_empty()
    }

    /// Whether the settle takes the unique key of a follow-up, which another transaction may hold.
    pub(crate) fn has_unique_follow_up(&self) -> bool {
        self.follow_ups.iter().any(FollowUp::is_unique)
    }

    /// Whether the settle may wait for what a caller's or an operator's open transaction has locked: the key of a
    /// follow-up, the failure group of a new letter, or the letter of a redriven job. A job that did not start may die,
    /// because an operator cancelled it.
    pub(crate) fn may_wait(&self) -> bool {
        let may_die = matches!(self.verdict, Verdict::Dead(_)) || self.is_unstarted();
        may_die || self.meta.generation > 0 || self.has_unique_follow_up()
    }

    /// Whether the job only has to be deleted, and its turn passed on if it has a group.
    pub(crate) fn is_plain_done(&self) -> bool {
        self.verdict == Verdict::Done
            && self.meta.generation == 0
            && !self.meta.is_unique
            && !self.has_follow_ups()
    }
}
