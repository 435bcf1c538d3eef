//! What the worker does for others, which is no part of the models: nothing.

/// No redrive runs.
pub(crate) mod redrive {
    use std::time::Duration;

    use uuid::Uuid;

    use crate::error::Result;
    use crate::session::Session;

    #[derive(PartialEq, Eq)]
    pub(crate) enum Driven {
        Running,
    }

    pub(crate) struct Step {
        pub(crate) driven: Driven,
        pub(crate) wait: Duration,
    }

    pub(crate) enum Found {}

    impl Found {
        pub(crate) fn step(&mut self, _: &mut Session) -> Result<Step> {
            match *self {}
        }
    }

    pub(crate) fn find_run(_: &mut Session, _: Uuid) -> Result<Option<Found>> {
        Ok(None)
    }
}

/// No policies.
pub(crate) mod policy {
    use uuid::Uuid;

    use crate::error::Result;
    use crate::session::Session;

    pub(crate) struct Tick {
        pub(crate) policy: String,
        pub(crate) mode: String,
        pub(crate) letters: i64,
        pub(crate) trouble: Option<String>,
    }

    pub(crate) fn run_policies(_: &mut Session, _: Uuid) -> Result<Vec<Tick>> {
        Ok(Vec::new())
    }
}

/// No retention.
pub(crate) mod retention {
    use crate::error::Result;
    use crate::session::Session;

    pub(crate) fn retain_a_batch(_: &mut Session) -> Result<bool> {
        Ok(false)
    }
}

/// Histograms of one bucket.
pub(crate) mod metrics {
    pub(crate) struct Bounds {
        pub(crate) wait: &'static [f64],
        pub(crate) run: &'static [f64],
        pub(crate) end_to_end: &'static [f64],
        pub(crate) attempts: &'static [f64],
        pub(crate) retry_delay: &'static [f64],
    }

    pub(crate) static BOUNDS: Bounds = Bounds {
        wait: &[],
        run: &[],
        end_to_end: &[],
        attempts: &[],
        retry_delay: &[],
    };

    pub(crate) fn bucket(_: &[f64], _: f64) -> i16 {
        0
    }
}
