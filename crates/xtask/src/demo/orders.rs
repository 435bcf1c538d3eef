//! The orders of the demo, generated or from a file, and their expected results.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Deserializer, Map, Value};

use super::gateway::{name_of, validate};

/// How many of a thousand generated orders have a currency with a trailing space, on average.
const SPACED_CURRENCY: u64 = 3;
/// How many of a thousand are refunds, with a negative amount.
const NEGATIVE_AMOUNT: u64 = 1;
/// How many of a thousand have an amount as text, with a decimal comma.
const AMOUNT_AS_TEXT: u64 = 1;

/// Writes generated orders to a file, one JSON object a line. The same number always generates the
/// same orders.
pub(crate) fn write(path: &Path, events: u64) -> Result<()> {
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        (1..=events).try_for_each(|number| writeln!(file, "{}", order(number)))?;
        file.flush()
    };
    write().with_context(|| format!("cannot write the orders to {}", path.display()))
}

/// Generates the n-th order.
fn order(number: u64) -> String {
    let mut random = Random(number);
    let currency = ["EUR", "EUR", "EUR", "USD", "USD", "GBP", "CHF"][random.below(7)];
    let cents = 490 + random.below(20_000);
    let customer = random.below(5_000);
    let second = random.below(3_600);
    let permille = random.below(1_000) as u64;

    let currency = if permille < SPACED_CURRENCY {
        "USD "
    } else {
        currency
    };
    let amount = match permille.checked_sub(SPACED_CURRENCY) {
        Some(permille) if permille < NEGATIVE_AMOUNT => format!("-{cents}"),
        Some(permille) if permille < NEGATIVE_AMOUNT + AMOUNT_AS_TEXT => {
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

/// `SplitMix64`: pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The upper half has the better distribution, and fits.
        usize::try_from((z ^ (z >> 31)) >> 32).unwrap_or_default() % limit
    }
}

/// The expected results, from the file and the gateway's rules alone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// How many orders the file has.
    pub(crate) events: u64,
    /// How many the first release can deliver.
    pub(crate) well_formed: u64,
    /// How many more the second release can deliver.
    pub(crate) fixable: u64,
    /// How many no release can deliver.
    pub(crate) undeliverable: u64,
    /// The names of the orders that are delivered in the end, with their counts.
    pub(crate) delivered: BTreeMap<String, u64>,
}

impl Forecast {
    /// Reads a file of orders.
    pub(crate) fn of(path: &Path) -> Result<Forecast> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Forecast::read(BufReader::new(file))
            .with_context(|| format!("{} is not NDJSON, one JSON object a line", path.display()))
    }

    fn read(orders: impl Read) -> Result<Forecast> {
        let mut forecast = Forecast::default();
        // The reader counts lines, which the error names.
        for order in Deserializer::from_reader(orders).into_iter::<Map<String, Value>>() {
            forecast.count(Value::Object(order?));
        }
        ensure!(forecast.events > 0, "the file is empty");
        Ok(forecast)
    }

    fn count(&mut self, mut order: Value) {
        self.events += 1;
        if validate(&order).is_ok() {
            self.well_formed += 1;
        } else {
            // The fix in the second release.
            if let Some(Value::String(currency)) = order.get_mut("currency") {
                *currency = currency.trim().to_owned();
            }
            if validate(&order).is_err() {
                self.undeliverable += 1;
                return;
            }
            self.fixable += 1;
        }
        *self.delivered.entry(name_of(&order)).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_orders_are_always_the_same() {
        assert_eq!(order(1), order(1));
        let orders: Vec<String> = (1..=20_000).map(order).collect();
        let forecast = Forecast::read(orders.join("\n").as_bytes()).expect("orders");
        assert_eq!(
            (forecast.events, forecast.delivered.len() as u64),
            (20_000, 20_000 - forecast.undeliverable)
        );
        assert_eq!(
            forecast.well_formed + forecast.fixable + forecast.undeliverable,
            20_000
        );
        assert!(
            (40..=80).contains(&forecast.fixable),
            "{}",
            forecast.fixable
        );
        assert!(
            (25..=60).contains(&forecast.undeliverable),
            "{}",
            forecast.undeliverable
        );
        let sort = |needle: &str| orders.iter().filter(|order| order.contains(needle)).count();
        assert!(sort(r#""USD ""#) > 0 && sort(r#""amount":-"#) > 0 && sort(r#""amount":""#) > 0);
    }

    #[test]
    fn any_object_is_an_order_and_an_error_names_the_line() {
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
                undeliverable: 1,
                delivered
            }
        );
        for wrong in ["{}\n[]\n", "{}\n{,\n"] {
            let error = Forecast::read(wrong.as_bytes()).expect_err("no object");
            assert!(error.to_string().contains("line 2"), "{error}");
        }
        Forecast::read("\n".as_bytes()).expect_err("nothing");
    }
}
