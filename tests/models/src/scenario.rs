//! Runs a scenario in many schedules.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

use crate::server::Server;
use crate::sync::clock;

/// A schedule with more steps never ends.
const MAX_STEPS: usize = 500_000;

thread_local! {
    static LAST: Mutex<Option<Arc<Server>>> = const { Mutex::new(None) };
}

/// Returns a number below `below`, from the seed of the schedule.
pub(crate) fn random(below: usize) -> usize {
    shuttle::rand::thread_rng().gen_range(0..below)
}

/// Returns a time of at most `max`, in whole milliseconds.
pub(crate) fn random_time(max: Duration) -> Duration {
    let max = usize::try_from(max.as_millis()).unwrap_or(usize::MAX - 1);
    Duration::from_millis(random(max + 1) as u64)
}

/// Runs a scenario in this many schedules, with seeds from `seed` on.
///
/// # Panics
/// At the first schedule that breaks a rule, deadlocks or never ends. The message has its seed and
/// what the server did.
pub fn run(scenario: fn(), schedules: u64, seed: u64) {
    for seed in seed..seed + schedules {
        let failed = catch_unwind(AssertUnwindSafe(|| run_schedule(scenario, seed))).err();
        let Some(failed) = failed else { continue };
        let text = failed.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| failed.downcast_ref::<&str>().copied());
        let message = text.unwrap_or("a panic without a message");
        let log = LAST.with(|last| {
            let last = last.lock().unwrap_or_else(PoisonError::into_inner);
            last.as_ref()
                .map_or_else(String::new, |server| server.tables().log.join("\n"))
        });
        panic!("seed {seed}: {message}\n\nWhat the server did:\n{log}");
    }
}

fn run_schedule(scenario: fn(), seed: u64) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 19;
    config.max_steps = shuttle::MaxSteps::FailAfter(MAX_STEPS);
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.silence_warnings = true;
    // Every other schedule prefers some threads for a long time.
    let scheduler: Box<dyn Scheduler + Send> = match seed % 2 {
        0 => Box::new(RandomScheduler::new_from_seed(seed, 1)),
        _ => Box::new(PctScheduler::new_from_seed(seed, 3, 1)),
    };
    shuttle::Runner::new(scheduler, config).run(move || {
        fastrand::seed(seed);
        clock::with_clock(scenario);
    });
}

/// Sets the server whose log a failure prints.
pub(crate) fn record(server: &Arc<Server>) {
    LAST.with(|last| {
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(server));
    });
}
