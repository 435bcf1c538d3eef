//! The commands on dead letters.

mod groups;
mod letters;
mod runs;
