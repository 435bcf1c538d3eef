//! The playbill: plays, a few at a time, because they wait more than they work.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::interrupt;

/// A play, and what it is called.
pub(crate) struct Play<'a, T> {
    pub(crate) name: String,
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

/// Plays all of them in this order, at most so many at a time. One that breaks off ends no other;
/// an interrupt ends them all.
pub(crate) fn play_all<T: Send>(plays: Vec<Play<'_, T>>, at_once: usize) -> Vec<Played<T>> {
    let waiting: Mutex<VecDeque<Play<'_, T>>> = Mutex::new(plays.into());
    let played = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                while !interrupt::is_asked() {
                    let next = lock(&waiting).pop_front();
                    let Some(Play { name, act }) = next else {
                        return;
                    };
                    let begin = Instant::now();
                    // Nothing of a play outlives it but what it answers.
                    let ended = catch_unwind(AssertUnwindSafe(act)).map_err(|panic| said(&*panic));
                    lock(&played).push(Played {
                        name,
                        took: begin.elapsed(),
                        ended,
                    });
                }
            });
        }
    });
    played.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_play_that_breaks_off_ends_no_other() {
        let plays = (0..7).map(|number| Play {
            name: number.to_string(),
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
}
