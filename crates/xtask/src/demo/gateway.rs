//! The payment gateway of the demo: an HTTP server on the loopback interface that charges each
//! order once, rejects malformed ones, and can be taken down.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use tiny_http::{Request, Response, Server};

/// How many requests it answers at once.
const THREADS: usize = 4;
/// The largest order it reads, in bytes.
const MAX_ORDER: u64 = 1 << 20;

/// The running gateway. Its threads end with the process.
#[derive(Clone)]
pub(crate) struct Gateway(Arc<Shared>);

/// What all threads share.
struct Shared {
    server: Server,
    is_down: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The name of the order for each idempotency key.
    ledger: BTreeMap<String, String>,
    answers: BTreeMap<u16, u64>,
}

impl Gateway {
    /// Starts the gateway on a free port.
    pub(crate) fn start() -> Result<Gateway> {
        let server = Server::http("127.0.0.1:0")
            .map_err(|error| anyhow!("cannot start the payment gateway: {error}"))?;
        let gateway = Gateway(Arc::new(Shared {
            server,
            is_down: AtomicBool::new(false),
            state: Mutex::default(),
        }));
        for _ in 0..THREADS {
            let gateway = gateway.clone();
            thread::spawn(move || {
                while let Ok(request) = gateway.0.server.recv() {
                    gateway.answer(request);
                }
            });
        }
        Ok(gateway)
    }

    /// Returns the URL for orders.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.server.server_addr())
    }

    /// Answers every request with 503, or normally again.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.0.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Returns how many orders it has charged.
    pub(crate) fn charged(&self) -> u64 {
        self.state().ledger.len() as u64
    }

    /// Returns how often it gave each answer: 201 for charged, 200 for charged before, 422 for malformed, 503
    /// while down.
    pub(crate) fn answers(&self) -> BTreeMap<u16, u64> {
        self.state().answers.clone()
    }

    /// Returns the names of the charged orders, each with its number of charges.
    pub(crate) fn ledger(&self) -> BTreeMap<String, u64> {
        let mut names = BTreeMap::new();
        for name in self.state().ledger.values() {
            *names.entry(name.clone()).or_default() += 1;
        }
        names
    }

    fn answer(&self, mut request: Request) {
        let mut headers = request.headers().iter();
        let key = headers.find(|header| header.field.equiv("Idempotency-Key"));
        let key = key.map(|header| header.value.to_string());
        let mut body = Vec::new();
        // Read to the end even when down, because the connection is reused.
        let read = request.as_reader().take(MAX_ORDER).read_to_end(&mut body);
        let (status, answer) = match key {
            Some(key) if read.is_ok() => self.charge(key, &body),
            _ => (400, json!({"message": "an order needs an Idempotency-Key"})),
        };
        // A client that is gone sends the order again with the same key.
        _ = request.respond(Response::from_string(answer.to_string()).with_status_code(status));
    }

    fn charge(&self, key: String, body: &[u8]) -> (u16, Value) {
        let mut state = self.state();
        // What is no JSON is no object either.
        let order: Value = serde_json::from_slice(body).unwrap_or_default();
        let (status, answer) = match (validate(&order), state.ledger.entry(key)) {
            _ if self.0.is_down.load(Ordering::SeqCst) => (
                503,
                json!({"error": "Unavailable", "message": "down for maintenance"}),
            ),
            (Err((error, message)), _) => (422, json!({"error": error, "message": message})),
            (Ok(()), Entry::Occupied(_)) => (200, json!({"charged": "before"})),
            (Ok(()), Entry::Vacant(entry)) => {
                entry.insert(name_of(&order));
                (201, json!({"charged": "now"}))
            }
        };
        *state.answers.entry(status).or_default() += 1;
        (status, answer)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is atomic, so the state is valid even after a panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Validates an order. Every field is optional, so any JSON object is accepted. The error is a class and a message.
pub(crate) fn validate(order: &Value) -> Result<(), (&'static str, String)> {
    let is_code = |code: &str| code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase());
    if !order.is_object() {
        return Err(("NotAnObject", "an order is a JSON object".to_owned()));
    }
    if let Some(code) = order
        .get("currency")
        .filter(|code| !code.as_str().is_some_and(is_code))
    {
        let message = format!("currency {code} is not an ISO 4217 code");
        return Err(("InvalidCurrency", message));
    }
    match order.get("amount").map(|amount| (amount, amount.as_f64())) {
        None => Ok(()),
        Some((_, Some(number))) if number > 0.0 => Ok(()),
        Some((amount, Some(_))) => {
            Err(("NegativeAmount", format!("amount {amount} is not positive")))
        }
        Some((amount, None)) => Err(("InvalidAmount", format!("amount {amount} is not a number"))),
    }
}

/// Returns the field `order`. Orders without it share the empty name.
pub(crate) fn name_of(order: &Value) -> String {
    order
        .get("order")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
