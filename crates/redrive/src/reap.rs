//! Reap: the jobs of workers that are gone come back.
//!
//! A worker is gone when it has not renewed for a lease time. Its jobs come back as *suspects*,
//! with their attempt refunded, because nine times in ten the process was killed for reasons of
//! its own. A suspect is claimed alone; one that loses its worker [`MAX_CRASHES`] times is the
//! killer, and becomes a letter with the reason `worker_lost`. Any worker reaps; there is no
//! leader to lose.

use std::time::Duration;

use crate::error::Result;
use crate::job::milliseconds;
use crate::reason::Reason;
use crate::session::Session;
use crate::sql;

/// How often a job may lose its worker before it becomes a letter.
pub const MAX_CRASHES: u32 = 3;

/// How many leases one call takes back.
const REAP_LIMIT: i64 = 100;
/// The delay per crash, from the second one on, chosen at random up to it.
const CRASH_DELAY: Duration = Duration::from_secs(5);

/// What a call took back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaped {
    pub(crate) back: usize,
    pub(crate) dead: usize,
}

pub(crate) fn reap(session: &mut Session, lease: Duration) -> Result<Reaped> {
    let lease_ms = i32::try_from(milliseconds(lease)).unwrap_or(i32::MAX);
    let delay_ms = i32::try_from(milliseconds(CRASH_DELAY)).unwrap_or(i32::MAX);
    let rows = session.query(
        "take back jobs of lost workers",
        &sql::REAP,
        &[
            &lease_ms,
            &REAP_LIMIT,
            &MAX_CRASHES.cast_signed(),
            &delay_ms,
            &Reason::Manual.as_str(),
        ],
    )?;
    let dead = rows.iter().filter(|row| row.get("is_dead")).count();
    Ok(Reaped {
        back: rows.len() - dead,
        dead,
    })
}
