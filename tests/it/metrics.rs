//! The metrics of the database: sources, reader, role, plans and their table in the documentation.

mod plans;
mod reader;
mod role;
mod sources;
mod table;
