//! The commands on dead letters.

mod blocked;
mod captures;
mod groups;
mod letters;
mod runs;
mod selection;
