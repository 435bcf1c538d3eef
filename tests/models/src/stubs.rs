//! Stubs for parts of the worker that the models leave out.

/// Chores of the dead letter queue.
pub(crate) mod dlq {
    /// No redrive runs.
    pub(crate) mod runs {
        use std::time::Duration;

        use crate::error::Result;
        use crate::session::Session;

        pub(crate) enum DriveStatus {
            Running(Duration),
            Lost,
        }

        pub(crate) struct Steps;

        impl Steps {
            pub(crate) fn step(&mut self, _: &mut Session) -> Result<DriveStatus> {
                Ok(DriveStatus::Lost)
            }
        }

        pub(crate) fn find_run(_: &mut Session) -> Result<Option<Steps>> {
            Ok(None)
        }
    }

    /// No retention.
    pub(crate) mod retention {
        pub(crate) const RETAIN_BATCH: i32 = 1;
    }
}

/// No schedules.
pub(crate) mod schedule {
    pub(crate) mod tick {
        use std::time::Duration;

        use crate::error::Result;
        use crate::session::Session;

        pub(crate) fn run_schedules(_: &mut Session) -> Result<Option<Duration>> {
            Ok(None)
        }
    }
}
