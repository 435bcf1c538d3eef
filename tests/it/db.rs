//! The database: schema, statements, connections, roles and deadlines of calls.

mod call_timeout;
mod constraints;
mod durability;
mod encodings;
mod foreign_settings;
mod horizon;
mod keepalive;
mod isolation;
mod migrate;
mod plans;
mod pool;
mod pooler;
mod replication;
mod restore;
mod roles;
mod scripts;
mod search_path;
mod silent_server;
mod statements;
mod tls;
