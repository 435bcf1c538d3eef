//! Each scenario in many schedules. `REDRIVE_SCHEDULES` sets their number and `REDRIVE_SEED` the
//! first seed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that prints its parameters"
)]

use redrive_models::scenarios;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn run(scenario: fn(), weight: u64) {
    let schedules = (number("REDRIVE_SCHEDULES", 500) / weight).max(1);
    let seed = number("REDRIVE_SEED", 1);
    println!("{schedules} schedules, seeds from {seed} on");
    redrive_models::run(scenario, schedules, seed);
}

/// Each scenario with the cost of one of its schedules, relative to the cheapest scenario.
macro_rules! scenarios {
    ($($name:ident $weight:literal)+) => {
        $(#[test]
        fn $name() {
            run(scenarios::$name, $weight);
        })+
    };
}

scenarios! {
    busy 1
    stopped 1
    woken 1
    suspects 1
    consecutive_suspects 1
    overrun 1
    end_at_deadline 1
    blocked_slot 1
    dropped 1
    outage 4
    lost_trust 10
    flood 20
}
