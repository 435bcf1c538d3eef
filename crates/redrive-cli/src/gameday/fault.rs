//! The faults of a rehearsal: payloads, the handler that fails, and the handler that works.

use std::panic::resume_unwind;

use clap::ValueEnum;
use redrive::Failure;
use serde::{Deserialize, Serialize};

/// The kind of the jobs.
pub(super) const KIND: &str = "gameday";

/// The currency that an edit adds to the payloads without one.
pub(super) const MISSING: &str = r#"{"currency":"EUR"}"#;

/// How the jobs fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FailureMode {
    /// A dependency does not answer: error class Timeout.
    Timeout,
    /// A field of the payload is missing, and the handler rejects the job.
    Schema,
    /// The handler panics.
    Crash,
    /// A mix of the three.
    Random,
}

impl FailureMode {
    /// The words after "jobs that".
    pub(super) fn verb(self) -> &'static str {
        match self {
            FailureMode::Timeout => "time out",
            FailureMode::Schema => "are rejected for a missing field",
            FailureMode::Crash => "panic",
            FailureMode::Random => "time out, are rejected or panic",
        }
    }

    /// The fault of a job. `random` decides in a mix.
    fn fault(self, random: u64) -> Fault {
        match (self, random % 3) {
            (FailureMode::Timeout, _) | (FailureMode::Random, 0) => Fault::Timeout,
            (FailureMode::Schema, _) | (FailureMode::Random, 1) => Fault::Schema,
            (FailureMode::Crash | FailureMode::Random, _) => Fault::Crash,
        }
    }
}

/// How one job fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fault {
    Timeout,
    Schema,
    Crash,
}

/// The payload of a job.
#[derive(Debug, Serialize, Deserialize)]
struct Purchase {
    order: u32,
    fault: Fault,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
}

/// The payload of a job as JSON. `random` decides its fault in a mix.
pub(super) fn payload(mode: FailureMode, order: u32, random: u64) -> serde_json::Result<String> {
    let fault = mode.fault(random);
    let currency = (fault != Fault::Schema).then(|| "EUR".to_owned());
    serde_json::to_string(&Purchase {
        order,
        fault,
        currency,
    })
}

/// Checks a payload, as a validator does.
pub(super) fn check(payload: &str) -> Result<(), String> {
    let purchase: Purchase = serde_json::from_str(payload).map_err(|error| error.to_string())?;
    match purchase.currency {
        Some(_) => Ok(()),
        None => Err("missing field `currency`".to_owned()),
    }
}

/// The handler that works: it rejects only an invalid payload.
pub(super) fn work(payload: &str) -> Result<(), Failure> {
    check(payload).map_err(|error| Failure::reject(error).class("SchemaError"))
}

/// The handler that fails.
pub(super) fn fail(payload: &str) -> Result<(), Failure> {
    work(payload)?;
    let purchase: Purchase =
        serde_json::from_str(payload).map_err(|error| Failure::reject(error.to_string()))?;
    match purchase.fault {
        Fault::Timeout => {
            Err(Failure::retry("the gateway did not answer within 30 s").class("Timeout"))
        }
        // Does not pass the panic hook, which would print to the terminal.
        Fault::Crash => resume_unwind(Box::new("index out of bounds: the cart is empty")),
        // Only an edited payload comes here.
        Fault::Schema => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn each_mode_fails_in_its_way_and_recovers() {
        for (mode, random, error) in [
            (
                FailureMode::Timeout,
                1,
                Some("the gateway did not answer within 30 s"),
            ),
            (FailureMode::Schema, 0, Some("missing field `currency`")),
            (FailureMode::Crash, 0, None),
            (
                FailureMode::Random,
                0,
                Some("the gateway did not answer within 30 s"),
            ),
            (FailureMode::Random, 1, Some("missing field `currency`")),
            (FailureMode::Random, 2, None),
        ] {
            let payload = payload(mode, 7, random).expect("JSON");
            let failed = catch_unwind(|| fail(&payload).expect_err("a failure"));
            let message = failed.as_ref().ok().map(Failure::message);
            assert_eq!(message, error, "{mode:?}");
            let is_valid = error != Some("missing field `currency`");
            assert_eq!(work(&payload).is_ok(), is_valid, "{payload}");
        }
    }
}
