//! The commands on dead letters.

mod blocked;
mod captures;
mod groups;
mod letters;
mod reopen;
mod runs;
mod selection;
