//! The orders of the demo, generated or from a file, and their expected results.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Deserializer, Map, Value};

use super::gateway::{name_of, validate};

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
    let mut random = fastrand::Rng::with_seed(number);
    let currency = ["EUR", "EUR", "EUR", "USD", "USD", "GBP", "CHF"][random.usize(..7)];
    let cents = random.u32(490..20_490);
    let customer = random.u32(..5_000);
    let second = random.u32(..3_600);
    // Of a thousand orders, about three have a currency with a trailing space, one is a refund, and one has an amount as
    // text with a decimal comma.
    let (currency, amount) = match random.u64(..1_000) {
        0..3 => ("USD ", cents.to_string()),
        3 => (currency, format!("-{cents}")),
        4 => (currency, format!("\"{},{:02}\"", cents / 100, cents % 100)),
        _ => (currency, cents.to_string()),
    };
    format!(
        r#"{{"order":"F-{number:06}","customer":"C-{customer:04}","amount":{amount},"currency":"{currency}","placed_at":"2025-11-21T17:{:02}:{:02}Z"}}"#,
        second / 60,
        second % 60,
    )
}

/// The expected results, from the file and the gateway's rules alone.
#[derive(Debug, Default)]
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
        let mut forecast = Forecast::default();
        // The reader counts lines, which the error names.
        for order in
            Deserializer::from_reader(BufReader::new(file)).into_iter::<Map<String, Value>>()
        {
            let order = order.with_context(|| {
                format!("{} is not NDJSON, one JSON object a line", path.display())
            })?;
            forecast.count(Value::Object(order));
        }
        ensure!(forecast.events > 0, "{} is empty", path.display());
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
