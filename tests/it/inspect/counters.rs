//! Counters: every change is counted exactly, in its statement.

mod changes;
mod drift;
mod fold;
mod values;
