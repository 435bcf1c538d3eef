//! The harness of the integration tests: a database for each test, waiting without sleeping,
//! handlers that stop where the test wants them, and leases that are lost on demand.
//!
//! No timing decides a test. What has to be late is made late by an UPDATE; what has to happen
//! is waited for with a deadline that is only ever met by a bug.

#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a harness reports by panicking: that is how a test fails"
)]

mod account;
mod bouncer;
mod cable;
mod cluster;
mod database;
mod exporter;
mod gate;
mod logged;
mod lose;
mod payload;
mod published;
mod ran;
mod read;
mod statement;
mod tally;
mod wait;
mod work;

pub use bouncer::Bouncer;
pub use cable::Cable;
pub use cluster::Cluster;
pub use database::{TestDatabase, server_url};
pub use exporter::{Asked, Exporter};
pub use gate::Gate;
pub use logged::Logged;
pub use lose::{Lost, lose_leases, reap, reap_after};
pub use payload::{Abort, Finish, Hold, Order};
pub use published::{Published, changed, fold, no_drift, published};
pub use ran::{Ran, ran, ran_by};
pub use read::{number, read, reads};
pub use statement::statement;
pub use tally::Tally;
pub use wait::{SOON, wait_until};
pub use work::{counted, drained, letters, letters_in, stats, stop, worker};
