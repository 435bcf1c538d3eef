//! Counters: every door is counted in its own statement, exactly.

mod audit;
mod doors;
mod fold;
mod killed;
mod values;
