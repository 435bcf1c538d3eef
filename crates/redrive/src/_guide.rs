//! Guides: one task each, short, with an example that runs as a test.
//!
//! 1. [Quickstart](quickstart): define a payload, enqueue it, run it.
//! 2. [Transactions](transactions): enqueue with your own writes, and end a job with them.
//! 3. [Failures and retries](failures): choose between retry, rejection, snooze and outage.
//! 4. [Outages](outages): wait for a dependency without losing attempts.
//! 5. [Versions of payloads](payloads): change a type while old jobs and letters exist.
//! 6. [Groups and limits](groups): order, concurrency, turns, rates, unique keys, batches.
//! 7. [Schedules](schedules): enqueue by a cron line or at an interval.
//! 8. [Testing](testing): test handlers without a server, and services with one.
//! 9. [Monitoring](monitoring): metrics, dashboards and alerts.
//! 10. [Tracing](tracing): follow a request through its jobs.
//! 11. [Sizing](sizing): connections, threads and idle queries.
//! 12. [Deploying](deploying): migrations, roles, signals and restores.
//! 13. [Poolers](poolers): PgBouncer and others.
//! 14. [The dead letter queue](dead_letters): the operator's commands.
//! 15. [Other languages](sql): enqueue, capture and redrive by SQL.
//!
//! `GUARANTEES.md` in the repository states what each of these promises.

#[doc = include_str!("guide/quickstart.md")]
pub mod quickstart {}
#[doc = include_str!("guide/transactions.md")]
pub mod transactions {}
#[doc = include_str!("guide/failures.md")]
pub mod failures {}
#[doc = include_str!("guide/outages.md")]
pub mod outages {}
#[doc = include_str!("guide/payloads.md")]
pub mod payloads {}
#[doc = include_str!("guide/groups.md")]
pub mod groups {}
#[doc = include_str!("guide/schedules.md")]
pub mod schedules {}
#[doc = include_str!("guide/testing.md")]
pub mod testing {}
#[doc = include_str!("guide/monitoring.md")]
pub mod monitoring {}
#[doc = include_str!("guide/tracing.md")]
pub mod tracing {}
#[doc = include_str!("guide/sizing.md")]
pub mod sizing {}
#[doc = include_str!("guide/deploying.md")]
pub mod deploying {}
#[doc = include_str!("guide/poolers.md")]
pub mod poolers {}
#[doc = include_str!("guide/dead_letters.md")]
pub mod dead_letters {}
#[doc = include_str!("guide/sql.md")]
pub mod sql {}

/// The examples of the README run as tests, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
