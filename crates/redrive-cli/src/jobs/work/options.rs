//! The options of `redrive work` that set up its worker: backoff and flood guard.

use std::time::Duration;

use redrive::Backoff;

use crate::time;

/// Parses a backoff: `SHAPE:TIME` or `SHAPE:TIME..MAX`.
pub(super) fn backoff(text: &str) -> Result<Backoff, String> {
    let unknown = || {
        "expected SHAPE:TIME or SHAPE:TIME..MAX, with the shape exponential, linear or fixed, \
         such as exponential:5s..1h"
            .to_owned()
    };
    let (shape, times) = text.split_once(':').ok_or_else(unknown)?;
    let shape: fn(Duration) -> Backoff = match shape {
        "exponential" => Backoff::exponential,
        "linear" => Backoff::linear,
        "fixed" => Backoff::fixed,
        _ => return Err(unknown()),
    };
    Ok(match times.split_once("..") {
        Some((time, max)) => shape(duration(time)?).max(duration(max)?),
        None => shape(duration(times)?),
    })
}

/// Parses a flood guard: `LETTERS/TIME`.
pub(super) fn flood_guard(text: &str) -> Result<(usize, Duration), &'static str> {
    time::per(text).ok_or("expected LETTERS/TIME, such as 100/1m")
}

fn duration(text: &str) -> Result<Duration, String> {
    time::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_has_a_shape_a_time_and_perhaps_a_maximum() {
        for (text, seconds) in [
            ("exponential:5s", 20),
            ("exponential:5s..12s", 12),
            ("linear:10s", 30),
            ("fixed:1m", 60),
        ] {
            let delay = backoff(text).expect(text).delay(3, 1.0);
            assert_eq!(delay.as_secs(), seconds, "{text}");
        }
    }
}
