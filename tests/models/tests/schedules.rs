//! Every scene under some schedules; `REDRIVE_SCHEDULES` and `REDRIVE_SEED` say how many and which.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "it is a test, and says what it tried"
)]

use redrive_models::scenes::SCENES;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn play(name: &str) {
    let scene = SCENES
        .iter()
        .find(|scene| scene.name == name)
        .expect("a scene");
    let schedules = (number("REDRIVE_SCHEDULES", 500) / scene.weight).max(1);
    let seed = number("REDRIVE_SEED", 1);
    println!("scene `{name}`: {schedules} schedules, seeds from {seed} on");
    scene.play(schedules, seed);
}

macro_rules! scenes {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            play(stringify!($name));
        })*

        #[test]
        fn every_scene_is_a_test() {
            let names = [$(stringify!($name)),*];
            assert!(SCENES.iter().map(|scene| scene.name).eq(names));
        }
    };
}

scenes!(
    busy, stopped, woken, suspects, followed, overrun, dropped, outage, tripped, distrusted, flood
);
