//! The options of `redrive work` that set up its worker: backoff and flood guard.

use std::str::FromStr;
use std::time::Duration;

use redrive::Backoff;

use crate::time;

/// A backoff as `SHAPE:TIME` or `SHAPE:TIME..MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackoffArg {
    shape: BackoffShape,
    time: Duration,
    max: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackoffShape {
    Exponential,
    Linear,
    Fixed,
}

impl BackoffArg {
    pub(super) fn backoff(self) -> Backoff {
        let backoff = match self.shape {
            BackoffShape::Exponential => Backoff::exponential(self.time),
            BackoffShape::Linear => Backoff::linear(self.time),
            BackoffShape::Fixed => Backoff::fixed(self.time),
        };
        match self.max {
            Some(max) => backoff.max(max),
            None => backoff,
        }
    }
}

impl FromStr for BackoffArg {
    type Err = String;

    fn from_str(text: &str) -> Result<BackoffArg, String> {
        let unknown = || {
            "expected SHAPE:TIME or SHAPE:TIME..MAX, with the shape exponential, linear or fixed, \
             such as exponential:5s..1h"
                .to_owned()
        };
        let (shape, times) = text.split_once(':').ok_or_else(unknown)?;
        let shape = match shape {
            "exponential" => BackoffShape::Exponential,
            "linear" => BackoffShape::Linear,
            "fixed" => BackoffShape::Fixed,
            _ => return Err(unknown()),
        };
        let (time, max) = match times.split_once("..") {
            Some((time, max)) => (time, Some(duration(max)?)),
            None => (times, None),
        };
        let time = duration(time)?;
        Ok(BackoffArg { shape, time, max })
    }
}

/// A flood guard as `LETTERS/TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FloodGuardArg {
    pub(super) letters: usize,
    pub(super) per: Duration,
}

impl FromStr for FloodGuardArg {
    type Err = String;

    fn from_str(text: &str) -> Result<FloodGuardArg, String> {
        let parts = text
            .split_once('/')
            .and_then(|(letters, per)| Some((letters.parse().ok()?, per)));
        let (letters, per) =
            parts.ok_or_else(|| "expected LETTERS/TIME, such as 100/1m".to_owned())?;
        let per = duration(per)?;
        Ok(FloodGuardArg { letters, per })
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    time::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_has_a_shape_a_time_and_perhaps_a_maximum() {
        let delay = |text: &str, attempt| {
            let backoff: BackoffArg = text.parse().expect(text);
            backoff.backoff().delay(attempt, 1.0).as_secs()
        };
        assert_eq!(delay("exponential:5s", 3), 20);
        assert_eq!(delay("exponential:5s..12s", 3), 12);
        assert_eq!(delay("linear:10s", 3), 30);
        assert_eq!(delay("fixed:1m", 3), 60);
        for text in [
            "",
            "5s",
            "quadratic:5s",
            "fixed:",
            "fixed:soon",
            "linear:1s..",
            "fixed:1s..x",
        ] {
            assert!(text.parse::<BackoffArg>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_flood_guard_is_a_number_of_letters_per_time() {
        let guard: FloodGuardArg = "100/1m".parse().expect("a guard");
        assert_eq!((guard.letters, guard.per.as_secs()), (100, 60));
        for text in ["", "100", "x/1m", "-1/1m", "100/", "100/x"] {
            assert!(text.parse::<FloodGuardArg>().is_err(), "{text}");
        }
    }
}
