//! The commands on dead letters.

mod blocked;
mod captures;
mod groups;
mod letters;
mod reopen;
mod outcomes;
mod runs;
mod selection;
