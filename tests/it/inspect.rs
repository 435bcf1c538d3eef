//! Inspection: jobs, statistics, the audit and the counters.

mod audit;
mod bulk;
mod counters;
mod dlq_events;
mod jobs;
mod listing;
mod repair;
mod stats;
