//! Each scenario in many schedules. `REDRIVE_SCHEDULES` sets their number and `REDRIVE_SEED` the
//! first seed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that prints its parameters"
)]

use redrive_models::scenarios::SCENARIOS;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn run(name: &str) {
    let scenario = SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .expect("a scenario");
    let schedules = (number("REDRIVE_SCHEDULES", 500) / scenario.weight).max(1);
    let seed = number("REDRIVE_SEED", 1);
    println!("scenario `{name}`: {schedules} schedules, seeds from {seed} on");
    scenario.run(schedules, seed);
}

macro_rules! scenarios {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn every_scenario_is_a_test() {
            let names = [$(stringify!($name)),*];
            assert!(SCENARIOS.iter().map(|scenario| scenario.name).eq(names));
        }
    };
}

scenarios!(
    busy,
    stopped,
    woken,
    suspects,
    consecutive_suspects,
    overrun,
    overrun_after_rest,
    end_at_deadline,
    blocked_slot,
    dropped,
    outage,
    breaker,
    lost_trust,
    flood
);
