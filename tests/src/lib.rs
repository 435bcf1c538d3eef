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

mod at_once;
mod cluster;
mod database;
mod dead;
mod exporter;
mod file;
mod gate;
mod hand;
mod kept;
mod logged;
mod expire;
mod payload;
mod process;
mod published;
mod ran;
mod read;
mod reading;
mod role;
mod rows;
mod settle;
mod snapshot;
mod statement;
mod tally;
mod texts;
mod wait;
mod work;
pub mod prelude;

pub use at_once::{at_once, held_up};
pub use cluster::Cluster;
pub use database::{TestDatabase, server_url};
pub use dead::{Dead, content, maria, of_orders, only, outcomes};
pub use expire::{Lost, ReapLimits, expire_leases, reap, reap_within};
pub use exporter::{Asked, Exporter};
pub use file::{TempFile, committed};
pub use gate::Gate;
pub use hand::Hand;
pub use kept::kept;
pub use logged::Logged;
pub use payload::{Abort, AbortBatch, Finish, Hold, HoldTransaction, Order};
pub use process::Process;
pub use published::{Published, changed, fold, groups_add_up, no_drift, published};
pub use ran::{Ran, ran, ran_alone, ran_at, ran_by, shown_raw, words};
pub use read::{number, read, reads, says, scalar, series};
pub use reading::{Reading, fewest_pages};
pub use redrive_servers::{Frozen, Mode, Proxy};
pub use role::Role;
pub use rows::Columns;
pub use settle::{Count, Settlement};
pub use snapshot::snapshot;
pub use statement::{Sql, statement};
pub use tally::Tally;
pub use texts::{has, holds, lacks, refusal};
pub use wait::{DAY, HOUR, SOON, blocked, eventually, wait_until};
pub use work::{
    Begin, counted, died, done, drained, finish, ids, in_state, informed, letters, letters_in,
    lively, lost, new_order, put, retried, running, stats, stop, stop_all, told, willing, work_off,
    worker,
};
