//! The playbill: plays, a few at a time, because they wait more than they work.
//!
//! Each has a weight, and what plays at a time weighs no more than the stage bears: on a machine that
//! is overloaded everything is late, and a checker of what is left behind finds what is only late.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::interrupt;

/// A play, and what it is called.
pub(crate) struct Play<'a, T> {
    pub(crate) name: String,
    /// What it costs, beside a scene, which costs 1.
    pub(crate) weight: usize,
    pub(crate) act: Box<dyn Fn() -> T + Send + 'a>,
}

/// What came of a play.
#[derive(Debug)]
pub(crate) struct Played<T> {
    pub(crate) name: String,
    pub(crate) took: Duration,
    /// What it answered, or why it broke off.
    pub(crate) ended: Result<T, String>,
}

/// Plays all of them in this order, as many at a time as weigh no more than `bears`, or one. One that
/// breaks off ends no other; an interrupt ends them all.
pub(crate) fn play_all<T: Send>(plays: Vec<Play<'_, T>>, bears: usize) -> Vec<Played<T>> {
    let (ended, endings) = mpsc::channel();
    let mut waiting: VecDeque<Play<'_, T>> = plays.into();
    let (mut weighs, mut playing) = (0, 0);
    let mut all = Vec::new();
    thread::scope(|scope| {
        loop {
            while let Some(next) = waiting.pop_front() {
                let has_room = playing == 0 || weighs + next.weight <= bears;
                if !has_room || interrupt::is_asked() {
                    waiting.push_front(next);
                    break;
                }
                (weighs, playing) = (weighs + next.weight, playing + 1);
                let ended = ended.clone();
                scope.spawn(move || {
                    let weight = next.weight;
                    // Nobody listens when this thread is the last one there is.
                    _ = ended.send((weight, play(next)));
                });
            }
            if playing == 0 {
                return;
            }
            let Ok((weight, played)) = endings.recv() else {
                return;
            };
            (weighs, playing) = (weighs - weight, playing - 1);
            all.push(played);
        }
    });
    all
}

fn play<T>(Play { name, act, .. }: Play<'_, T>) -> Played<T> {
    let begin = Instant::now();
    // Nothing of a play outlives it but what it answers.
    let ended = catch_unwind(AssertUnwindSafe(act)).map_err(|panic| said(&*panic));
    Played {
        name,
        took: begin.elapsed(),
        ended,
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_play_that_breaks_off_ends_no_other() {
        let plays = (0..7).map(|number| Play {
            name: number.to_string(),
            weight: 1,
            act: Box::new(move || {
                assert!(number != 3, "three is broken");
                number
            }),
        });
        let played = play_all(plays.collect(), 2);
        assert_eq!(played.len(), 7);
        for play in played {
            let expected = match &*play.name {
                "3" => Err("three is broken".to_owned()),
                name => Ok(name.parse::<i32>().expect("a number")),
            };
            assert_eq!(play.ended, expected);
        }
    }

    #[test]
    fn what_plays_at_a_time_is_not_too_heavy() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (now, most) = (&now, &most);
        let plays = [1, 3, 1, 9, 2, 2, 1].map(|weight| Play {
            name: weight.to_string(),
            weight,
            act: Box::new(move || {
                let heavy = now.fetch_add(weight, Ordering::SeqCst) + weight;
                most.fetch_max(heavy, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(5));
                now.fetch_sub(weight, Ordering::SeqCst);
            }) as Box<dyn Fn() + Send>,
        });
        assert_eq!(play_all(plays.into(), 4).len(), 7);
        // The one of nine played alone.
        assert_eq!(most.load(Ordering::SeqCst), 9);
    }
}
