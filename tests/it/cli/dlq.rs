//! The commands on dead letters.

mod captures;
mod groups;
mod letters;
mod runs;
