//! The evening's orders: generated, or from a file; and what is to become of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use super::gateway::{examine, name_of};
use crate::error::{During, Error, Result};

/// Of a thousand generated orders, on average: a currency with a trailing space.
const SPACED_CURRENCY: u64 = 3;
/// Of a thousand: a refund that came as a negative amount.
const NEGATIVE_AMOUNT: u64 = 1;
/// Of a thousand: an amount as text, with a decimal comma.
const AMOUNT_AS_TEXT: u64 = 1;

/// Writes generated orders to a file, one JSON object a line. The same number gives the same
/// orders, always.
pub(crate) fn write(path: &Path, events: u64) -> Result<()> {
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        (1..=events).try_for_each(|number| writeln!(file, "{}", order(number)))?;
        file.flush()
    };
    write().during(|| format!("cannot write the orders to {}", path.display()))
}

/// The n-th order of the evening.
fn order(number: u64) -> String {
    let mut dice = Dice(number);
    let currency = ["EUR", "EUR", "EUR", "USD", "USD", "GBP", "CHF"][dice.below(7)];
    let cents = 490 + dice.below(20_000);
    let customer = dice.below(5_000);
    let second = dice.below(3_600);
    let fate = dice.below(1_000) as u64;

    let currency = if fate < SPACED_CURRENCY {
        "USD "
    } else {
        currency
    };
    let amount = match fate.checked_sub(SPACED_CURRENCY) {
        Some(fate) if fate < NEGATIVE_AMOUNT => format!("-{cents}"),
        Some(fate) if fate < NEGATIVE_AMOUNT + AMOUNT_AS_TEXT => {
            format!("\"{},{:02}\"", cents / 100, cents % 100)
        }
        Some(_) | None => cents.to_string(),
    };
    format!(
        r#"{{"order":"F-{number:06}","customer":"C-{customer:04}","amount":{amount},"currency":"{currency}","placed_at":"2025-11-21T17:{:02}:{:02}Z"}}"#,
        second / 60,
        second % 60,
    )
}

/// A small generator of numbers that look random and are the same each time (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The upper half is the better one; it always fits.
        usize::try_from((z ^ (z >> 31)) >> 32).unwrap_or_default() % sides
    }
}

/// What must have become of the orders when the evening is over, worked out from the file and
/// the gateway's demands alone, without any queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// How many there are.
    pub(crate) events: u64,
    /// How many the first release delivers, given time.
    pub(crate) well_formed: u64,
    /// How many more the second release delivers.
    pub(crate) fixable: u64,
    /// How many no release delivers.
    pub(crate) hopeless: u64,
    /// The names of all that are delivered in the end, each with its number of orders.
    pub(crate) delivered: BTreeMap<String, u64>,
}

impl Forecast {
    /// Reads a file of orders.
    pub(crate) fn of(path: &Path) -> Result<Forecast> {
        let file = File::open(path).during(|| format!("cannot read {}", path.display()))?;
        Forecast::read(BufReader::new(file)).map_err(|(line, error)| {
            Error::new(format!(
                "line {line} of {} is no JSON object: {error}\nThe demo takes NDJSON: one JSON \
                 object a line.",
                path.display()
            ))
        })
    }

    fn read(lines: impl io::BufRead) -> Result<Forecast, (usize, String)> {
        let mut forecast = Forecast::default();
        for (number, line) in (1..).zip(lines.lines()) {
            let line = line.map_err(|error| (number, error.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            let order: Value =
                serde_json::from_str(&line).map_err(|error| (number, in_line(&error)))?;
            if !order.is_object() {
                return Err((number, "it is another JSON value".to_owned()));
            }
            forecast.count(order);
        }
        if forecast.events == 0 {
            return Err((1, "the file is empty".to_owned()));
        }
        Ok(forecast)
    }

    fn count(&mut self, mut order: Value) {
        self.events += 1;
        if examine(&order).is_ok() {
            self.well_formed += 1;
        } else {
            // What the second release does.
            if let Some(Value::String(currency)) = order.get_mut("currency") {
                *currency = currency.trim().to_owned();
            }
            if examine(&order).is_err() {
                self.hopeless += 1;
                return;
            }
            self.fixable += 1;
        }
        *self.delivered.entry(name_of(&order)).or_default() += 1;
    }
}

/// What is wrong in a line: the error counts lines from that one, which would only confuse.
fn in_line(error: &serde_json::Error) -> String {
    error
        .to_string()
        .replace(" at line 1 column ", " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evening_is_the_same_every_time() {
        assert_eq!(order(1), order(1));
        let evening: Vec<String> = (1..=20_000).map(order).collect();
        let forecast = Forecast::read(evening.join("\n").as_bytes()).expect("orders");
        assert_eq!(
            (forecast.events, forecast.delivered.len() as u64),
            (20_000, 20_000 - forecast.hopeless)
        );
        assert_eq!(
            forecast.well_formed + forecast.fixable + forecast.hopeless,
            20_000
        );
        assert!(
            (40..=80).contains(&forecast.fixable),
            "{}",
            forecast.fixable
        );
        assert!(
            (25..=60).contains(&forecast.hopeless),
            "{}",
            forecast.hopeless
        );
        let sort = |needle: &str| {
            evening
                .iter()
                .filter(|order| order.contains(needle))
                .count()
        };
        assert!(sort(r#""USD ""#) > 0 && sort(r#""amount":-"#) > 0 && sort(r#""amount":""#) > 0);
    }

    #[test]
    fn any_object_is_an_order_and_a_bad_line_is_named() {
        let forecast = Forecast::read(
            "{\"a\": 1}\n\n{\"currency\": \"usd \"}\n{\"order\": \"x\", \"currency\": \" CHF\"}\n"
                .as_bytes(),
        )
        .expect("objects");
        let delivered = BTreeMap::from([(String::new(), 1), ("x".to_owned(), 1)]);
        assert_eq!(
            forecast,
            Forecast {
                events: 3,
                well_formed: 1,
                fixable: 1,
                hopeless: 1,
                delivered
            }
        );
        assert_eq!(
            Forecast::read("{}\n[]\n".as_bytes())
                .expect_err("no object")
                .0,
            2
        );
        assert_eq!(
            Forecast::read("{}\n{\n".as_bytes()).expect_err("no JSON").0,
            2
        );
        Forecast::read("\n".as_bytes()).expect_err("nothing");
    }
}
