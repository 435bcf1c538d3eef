//! Computes how soon a worker recovers from a fault.

use std::time::Duration;

use crate::worker::limits::{MAX_PAUSE, RENEWALS_PER_LEASE};

/// The longest time between checks for lost workers.
pub(crate) const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The longest wait for a notification in one call. The renewer notices anything else this late.
pub(crate) const LISTEN_TIME: Duration = Duration::from_millis(250);

/// The time that the renewer and the fetcher need besides their pauses: half a second after a
/// failed renewal, and one check.
const LOOKS: Duration = Duration::from_secs(1);

/// Upper bounds on the recovery of a worker, and of the jobs of a dead worker.
///
/// They count from the moment the database is reachable and assume a machine that is not
/// overloaded.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// let orders = redrive::Queue::new(&db, "orders")?;
/// let recovery = redrive::Worker::builder(&orders).recovery();
/// assert!(recovery.jobs.as_secs() <= 74 && recovery.worker.as_secs() <= 31);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryBounds {
    /// From the death of a worker until other workers can claim its jobs. 73.85 seconds by default.
    ///
    /// This is a lease, the time between two checks (a third of a lease, at most 10 seconds) and a
    /// poll. From its second crash on, a job waits up to 5 seconds more per crash.
    pub jobs: Duration,
    /// The same after the server restarted or was unavailable for longer than a lease. 133.85
    /// seconds by default.
    ///
    /// This is one lease more, in which live workers renew. It also applies if the only workers left
    /// have just started.
    pub jobs_after_outage: Duration,
    /// From the end of a database fault until a surviving worker claims again. 31 seconds by
    /// default.
    ///
    /// This is the deadlines of a call and a connection, the longest pause of 5 seconds, and a
    /// second. If the answer to a claim was lost in the fault, its jobs wait for the renewal that
    /// follows twice the deadline of a call.
    pub worker: Duration,
}

impl RecoveryBounds {
    /// Computes the bounds.
    pub(crate) fn of(
        lease: Duration,
        poll: Duration,
        call_timeout: Duration,
        connect_timeout: Duration,
    ) -> RecoveryBounds {
        let jobs = lease + check_interval(lease) + LISTEN_TIME + poll.mul_f64(1.2);
        RecoveryBounds {
            jobs,
            jobs_after_outage: jobs + lease,
            worker: call_timeout + connect_timeout + MAX_PAUSE + LOOKS,
        }
    }
}

/// How often a worker looks for chores and reads the breakers and pauses.
pub(crate) fn check_interval(lease: Duration) -> Duration {
    MAX_CHECK_INTERVAL.min(lease / RENEWALS_PER_LEASE)
}

/// Returns the age from which a lease that the worker does not know belongs to a claim whose answer
/// was lost: twice the time that a call may take.
pub(crate) fn orphaned_after(call_timeout: Duration) -> Duration {
    call_timeout * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_the_sums_of_their_parts() {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        for (lease, poll, call, connect, jobs, worker) in [
            (s(60), s(3), s(15), s(10), ms(73_850), s(31)),
            (s(3), ms(5), s(1), ms(500), ms(4_256), ms(7_500)),
            (s(3600), s(60), s(15), s(10), ms(3_682_250), s(31)),
        ] {
            let recovery = RecoveryBounds::of(lease, poll, call, connect);
            let expected = RecoveryBounds {
                jobs,
                jobs_after_outage: jobs + lease,
                worker,
            };
            assert_eq!(recovery, expected, "{lease:?} {poll:?}");
        }
    }
}
