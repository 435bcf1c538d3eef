//! Inspection: jobs, statistics, views, the audit and the counters.

mod audit;
mod counters;
mod dlq_events;
mod jobs;
mod stats;
mod views;
