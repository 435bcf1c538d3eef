//! The commands on dead letters.

mod blocked;
mod captures;
mod group_rules;
mod groups;
mod letter_outcomes;
mod letters;
mod protection;
mod reopen;
mod on_call;
mod outcomes;
mod runs;
mod selection;
mod validated;
