//! The metrics of the database: sources, reader, role and plans.

mod reader;
mod role;
mod sources;
