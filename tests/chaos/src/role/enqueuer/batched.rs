//! Jobs of batches: more of them fail, so that a batch rarely ends without a failure.

use super::Enqueuer;
use crate::role::{JobMix, Plan};

impl Enqueuer<'_> {
    /// Returns how a job of a batch ends.
    pub(super) fn batch_plan(&mut self) -> Plan {
        match self.random.u32(0..300) {
            0..=199 => Plan::Done,
            200..=244 => Plan::Retry,
            245..=259 => Plan::Panic,
            260..=280 => Plan::Reject,
            281..=290 => Plan::Snooze,
            291..=298 => Plan::Outage,
            _ if self.options.mix == JobMix::Tame => Plan::Done,
            _ => Plan::Abort,
        }
    }
}
