//! The dead letter queue: letters, groups, and the operations on them.

mod filter;
mod group;
mod history;

mod redrive;
mod runs;

mod archive;
mod as_it_came;
mod capture;
mod deliver;
mod discard;
mod edit;
mod erase;
mod export;
mod exported_past;
mod interrupted;
mod reopen;
mod validate;

mod redaction;
mod retention;
