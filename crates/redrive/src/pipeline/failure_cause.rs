//! Failure causes: why an attempt failed, as counted in the metrics.

/// Why an attempt failed. A lost worker is a cause too; the reaper counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCause {
    Error,
    Rejected,
    Panic,
    Timeout,
    Undecodable,
    Unhandled,
    Outage,
}

impl FailureCause {
    /// Returns the value of the metric label `cause`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FailureCause::Error => "error",
            FailureCause::Rejected => "rejected",
            FailureCause::Panic => "panic",
            FailureCause::Timeout => "timeout",
            FailureCause::Undecodable => "undecodable",
            FailureCause::Unhandled => "unhandled",
            FailureCause::Outage => "outage",
        }
    }
}
