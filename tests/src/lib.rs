//! The harness of the integration tests: a database for each test, waiting without sleeping,
//! handlers that wait at gates, and leases that expire on demand.
//!
//! No timing decides a test: an UPDATE ages rows, and a test waits for a condition with a deadline
//! that only a bug exceeds.

#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a harness reports by panicking: that is how a test fails"
)]

mod account;
mod bouncer;
mod proxy;
mod cluster;
mod database;
mod exporter;
mod gate;
mod logged;
mod expire;
mod payload;
mod published;
mod ran;
mod read;
mod reading;
mod settle;
mod statement;
mod tally;
mod wait;
mod work;

pub use bouncer::Bouncer;
pub use cluster::Cluster;
pub use database::{TestDatabase, server_url};
pub use expire::{Lost, ReapLimits, expire_leases, reap, reap_after, reap_within};
pub use exporter::{Asked, Exporter};
pub use gate::Gate;
pub use logged::Logged;
pub use payload::{Abort, AbortBatch, Finish, Hold, HoldTransaction, Order};
pub use proxy::Proxy;
pub use published::{Published, changed, fold, no_drift, published};
pub use ran::{Ran, ran, ran_alone, ran_at, ran_by};
pub use read::{number, read, reads, scalar};
pub use reading::{Reading, fewest_pages};
pub use settle::{Count, Settlement};
pub use statement::{Sql, statement};
pub use tally::Tally;
pub use wait::{SOON, eventually, wait_until};
pub use work::{
    Begin, counted, drained, finish, ids, informed, letters, letters_in, live_job, stats, stop,
    told, willing, worker, worker_at,
};
