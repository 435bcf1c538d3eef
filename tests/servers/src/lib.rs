//! What tests break: a PostgreSQL server, its disk, a PgBouncer in front of one, and the connections to either.
//!
//! The integration tests, chaos and the SQL mutants use it. It knows nothing of redrive.

#![expect(
    clippy::expect_used,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "a harness reports by panicking, and its errors are what a program says"
)]

mod account;
mod address;
mod frozen;
mod wire;
mod proxy;
mod server;
mod disk;
mod pooler;

pub use account::Account;
pub use disk::SmallDisk;
pub use frozen::Frozen;
pub use pooler::PgBouncer;
pub use proxy::{Edit, Mode, Proxy};
pub use server::Server;
pub use wire::patched;
