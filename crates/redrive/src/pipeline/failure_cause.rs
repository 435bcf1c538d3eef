//! Failure causes: why an attempt failed, as counted in the metrics.

use crate::job::words::words;

words! {
    /// Why an attempt failed. A lost worker is a cause too; the reaper counts it. The words are values of the metric label
    /// `cause`.
    pub(crate) enum FailureCause is "cause" {
        Error = "error",
        Rejected = "rejected",
        Panic = "panic",
        Timeout = "timeout",
        Undecodable = "undecodable",
        Unhandled = "unhandled",
        Outage = "outage",
    }
}
