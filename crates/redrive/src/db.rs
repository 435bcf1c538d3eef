//! Connections to PostgreSQL: deadlines, TLS, poolers, migrations and the index of statements.

pub(crate) mod sql;
pub(crate) mod column;
pub(crate) mod row;
pub(crate) mod tls;
pub(crate) mod deadline;
pub(crate) mod connection;
pub(crate) mod url;
pub(crate) mod spawn;
pub(crate) mod pooler;
pub(crate) mod session;
pub(crate) mod run;
pub(crate) mod caller;
pub(crate) mod pool;
pub(crate) mod pool_share;
pub(crate) mod database;
pub(crate) mod ask;
pub(crate) mod admin;
pub(crate) mod obstacles;
pub mod migrate;
pub(crate) mod drift;
pub(crate) mod durability;
