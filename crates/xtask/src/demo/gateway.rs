//! The payment gateway of the demo: an HTTP server on the loopback interface that charges each
//! order once, rejects malformed ones, and can be taken down.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use tiny_http::{Header, Method, Request, Response, Server};

/// How many requests it answers at once.
const THREADS: usize = 4;
/// The largest order it reads, in bytes.
const MAX_ORDER: u64 = 1 << 20;

/// The running gateway. It stops when dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    url: String,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Starts the gateway on a free port.
    pub(crate) fn start() -> Result<Gateway> {
        let server = Server::http("127.0.0.1:0")
            .map_err(|error| anyhow!("cannot start the payment gateway: {error}"))?;
        let url = format!("http://{}", server.server_addr());
        let shared = Arc::new(Shared {
            server,
            is_down: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let threads = (0..THREADS).map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.serve())
        });
        Ok(Gateway {
            url,
            threads: threads.collect(),
            shared,
        })
    }

    /// Returns the URL for orders.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Answers every request with 503 from now on.
    pub(crate) fn go_down(&self) {
        self.shared.is_down.store(true, Ordering::SeqCst);
    }

    /// Answers normally again.
    pub(crate) fn come_back(&self) {
        self.shared.is_down.store(false, Ordering::SeqCst);
    }

    /// Returns how many orders it has charged.
    pub(crate) fn charged(&self) -> u64 {
        self.shared.with_state(|state| state.ledger.len() as u64)
    }

    /// Returns how often it gave each answer.
    pub(crate) fn answers(&self) -> Answers {
        self.shared.with_state(|state| state.answers)
    }

    /// Returns the names of the charged orders, each with its number of charges.
    pub(crate) fn ledger(&self) -> BTreeMap<String, u64> {
        self.shared.with_state(|state| {
            let mut names = BTreeMap::new();
            for name in state.ledger.values() {
                *names.entry(name.clone()).or_default() += 1;
            }
            names
        })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        for _ in &self.threads {
            self.shared.server.unblock();
        }
        for thread in self.threads.drain(..) {
            // A panic has printed its message.
            _ = thread.join();
        }
    }
}

/// How often the gateway gave each answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// 201: charged now.
    pub(crate) charged: u64,
    /// 200: charged before.
    pub(crate) repeated: u64,
    /// 422: malformed.
    pub(crate) rejected: u64,
    /// 503: down.
    pub(crate) unavailable: u64,
}

/// Why an order is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The error class.
    pub(crate) error: &'static str,
    pub(crate) message: String,
}

/// Validates an order. Every field is optional, so any JSON object is accepted.
pub(crate) fn validate(order: &Value) -> Result<(), Rejection> {
    let reject = |error, message| Err(Rejection { error, message });
    if !order.is_object() {
        return reject("NotAnObject", "an order is a JSON object".to_owned());
    }
    match order.get("currency") {
        None => {}
        Some(Value::String(code))
            if code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase()) => {}
        Some(Value::String(code)) => {
            return reject(
                "InvalidCurrency",
                format!("currency `{code}` is not an ISO 4217 code"),
            );
        }
        Some(other) => {
            return reject(
                "InvalidCurrency",
                format!("currency {other} is not a string"),
            );
        }
    }
    match order.get("amount") {
        None => Ok(()),
        Some(Value::Number(amount)) if amount.as_f64().is_some_and(|amount| amount > 0.0) => Ok(()),
        Some(Value::Number(amount)) => {
            reject("NegativeAmount", format!("amount {amount} is not positive"))
        }
        Some(other) => reject("InvalidAmount", format!("amount {other} is not a number")),
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

/// The state that all threads share.
struct Shared {
    server: Server,
    is_down: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The name of the order for each idempotency key.
    ledger: BTreeMap<String, String>,
    answers: Answers,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Answers requests until it is unblocked.
    fn serve(&self) {
        while let Ok(request) = self.server.recv() {
            self.answer(request);
        }
    }

    fn answer(&self, mut request: Request) {
        let key = request
            .headers()
            .iter()
            .find(|header| header.field.equiv("Idempotency-Key"))
            .map(|header| header.value.as_str().to_owned());
        let mut body = Vec::new();
        // Read to the end even when down, because the connection is reused.
        let body = request
            .as_reader()
            .take(MAX_ORDER)
            .read_to_end(&mut body)
            .map(|_| body);
        let (status, answer) = match (request.method(), key, body) {
            (Method::Post, Some(key), Ok(body)) => self.charge(key, &body),
            (Method::Post, None, _) => (400, json!({"message": "no Idempotency-Key"})),
            (_, _, Err(error)) => (400, json!({"message": error.to_string()})),
            (_, _, _) => (405, json!({"message": "use POST"})),
        };
        let mut response = Response::from_string(answer.to_string()).with_status_code(status);
        if let Ok(json) = Header::from_bytes("Content-Type", "application/json") {
            response = response.with_header(json);
        }
        // A client that is gone sends the order again with the same key.
        _ = request.respond(response);
    }

    fn charge(&self, key: String, body: &[u8]) -> (u16, Value) {
        if self.is_down.load(Ordering::SeqCst) {
            self.with_state(|state| state.answers.unavailable += 1);
            return (
                503,
                json!({"error": "Unavailable", "message": "down for maintenance"}),
            );
        }
        let order = match serde_json::from_slice::<Value>(body) {
            Ok(order) => order,
            Err(error) => return (400, json!({"message": format!("not JSON: {error}")})),
        };
        self.with_state(|state| match validate(&order) {
            Err(Rejection { error, message }) => {
                state.answers.rejected += 1;
                (422, json!({"error": error, "message": message}))
            }
            Ok(()) => match state.ledger.entry(key) {
                Entry::Occupied(_) => {
                    state.answers.repeated += 1;
                    (200, json!({"charged": "before"}))
                }
                Entry::Vacant(entry) => {
                    entry.insert(name_of(&order));
                    state.answers.charged += 1;
                    (201, json!({"charged": "now"}))
                }
            },
        })
    }

    fn with_state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        // Each change is atomic, so the state is valid even after a panic.
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_malformed_order_is_rejected_with_its_cause() {
        let check = |order: Value| validate(&order).map_err(|rejection| rejection.message);
        assert_eq!(check(json!({"currency": "EUR", "amount": 1})), Ok(()));
        assert_eq!(check(json!({"anything": ["else"]})), Ok(()));
        assert_eq!(
            check(json!({"currency": "USD "})),
            Err("currency `USD ` is not an ISO 4217 code".to_owned())
        );
        assert_eq!(
            check(json!({"amount": -5})),
            Err("amount -5 is not positive".to_owned())
        );
        assert_eq!(
            check(json!({"amount": "49,90"})),
            Err("amount \"49,90\" is not a number".to_owned())
        );
        assert_eq!(
            check(json!([])),
            Err("an order is a JSON object".to_owned())
        );
    }

    #[test]
    fn an_order_is_charged_once_and_not_while_down() {
        let gateway = Gateway::start().expect("it starts");
        let post = |key: &str, body: &str| {
            let mut stream = TcpStream::connect(gateway.url().trim_start_matches("http://"))
                .expect("it listens");
            write!(
                stream,
                "POST /payments HTTP/1.1\r\nHost: gateway\r\nIdempotency-Key: {key}\r\n\
                 Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .expect("it is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it answers");
            answer
                .split(' ')
                .nth(1)
                .and_then(|status| status.parse().ok())
                .unwrap_or(0_u16)
        };
        gateway.go_down();
        assert_eq!(post("1", r#"{"order":"F-1"}"#), 503);
        gateway.come_back();
        assert_eq!(post("1", r#"{"order":"F-1"}"#), 201);
        assert_eq!(post("1", r#"{"order":"F-1"}"#), 200);
        assert_eq!(post("2", r#"{"order":"F-2","currency":"eur"}"#), 422);
        assert_eq!(gateway.ledger(), BTreeMap::from([("F-1".to_owned(), 1)]));
        let all_once = Answers {
            charged: 1,
            repeated: 1,
            rejected: 1,
            unavailable: 1,
        };
        assert_eq!(gateway.answers(), all_once);
    }
}
