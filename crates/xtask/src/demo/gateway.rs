//! The payment gateway of the demo: a real HTTP server on the loopback interface that charges
//! each order once, refuses malformed ones, and is down when the story says so.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tiny_http::{Header, Method, Request, Response, Server};

use crate::error::{Error, Result};

/// How many requests it answers at a time.
const CLERKS: usize = 4;
/// The longest order it reads, in bytes.
const LONGEST: u64 = 1 << 20;

/// The running gateway. It closes when dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    url: String,
    desk: Arc<Desk>,
    clerks: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Opens it on a free port.
    pub(crate) fn open() -> Result<Gateway> {
        let server = Server::http("127.0.0.1:0")
            .map_err(|error| Error::new(format!("cannot open the payment gateway: {error}")))?;
        let url = format!("http://{}", server.server_addr());
        let desk = Arc::new(Desk {
            server,
            is_down: AtomicBool::new(false),
            books: Mutex::default(),
        });
        let clerks = (0..CLERKS).map(|_| {
            let desk = Arc::clone(&desk);
            thread::spawn(move || desk.serve())
        });
        Ok(Gateway {
            url,
            clerks: clerks.collect(),
            desk,
        })
    }

    /// Where orders are posted to.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// From now on every request is answered with 503.
    pub(crate) fn go_down(&self) {
        self.desk.is_down.store(true, Ordering::SeqCst);
    }

    /// Works again.
    pub(crate) fn come_back(&self) {
        self.desk.is_down.store(false, Ordering::SeqCst);
    }

    /// How many orders it has charged.
    pub(crate) fn charged(&self) -> u64 {
        self.desk.with_books(|books| books.ledger.len() as u64)
    }

    /// What it has answered so far.
    pub(crate) fn answers(&self) -> Answers {
        self.desk.with_books(|books| books.answers)
    }

    /// The names of the orders in the ledger, each with the number of its entries.
    pub(crate) fn ledger(&self) -> BTreeMap<String, u64> {
        self.desk.with_books(|books| {
            let mut names = BTreeMap::new();
            for name in books.ledger.values() {
                *names.entry(name.clone()).or_default() += 1;
            }
            names
        })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        for _ in &self.clerks {
            self.desk.server.unblock();
        }
        for clerk in self.clerks.drain(..) {
            // A clerk that panicked has said so on stderr; nobody waits for its answer.
            _ = clerk.join();
        }
    }
}

/// How often the gateway answered what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// 201: charged now.
    pub(crate) charged: u64,
    /// 200: charged before; nothing happens again.
    pub(crate) repeated: u64,
    /// 422: malformed.
    pub(crate) refused: u64,
    /// 503: down.
    pub(crate) unavailable: u64,
}

/// Why an order is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// A stable word for programs.
    pub(crate) error: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
}

/// What the gateway demands of an order. Fields that are not there are not its business: any
/// JSON object will do.
pub(crate) fn examine(order: &Value) -> Result<(), Refusal> {
    let refuse = |error, message| Err(Refusal { error, message });
    if !order.is_object() {
        return refuse("NotAnObject", "an order is a JSON object".to_owned());
    }
    match order.get("currency") {
        None => {}
        Some(Value::String(code))
            if code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase()) => {}
        Some(Value::String(code)) => {
            return refuse(
                "InvalidCurrency",
                format!("currency `{code}` is not an ISO 4217 code"),
            );
        }
        Some(other) => {
            return refuse(
                "InvalidCurrency",
                format!("currency {other} is not a string"),
            );
        }
    }
    match order.get("amount") {
        None => Ok(()),
        Some(Value::Number(amount)) if amount.as_f64().is_some_and(|amount| amount > 0.0) => Ok(()),
        Some(Value::Number(amount)) => {
            refuse("NegativeAmount", format!("amount {amount} is not positive"))
        }
        Some(other) => refuse("InvalidAmount", format!("amount {other} is not a number")),
    }
}

/// What an order is called, by its field `order`; nameless orders share the empty name.
pub(crate) fn name_of(order: &Value) -> String {
    order
        .get("order")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// What the clerks share.
struct Desk {
    server: Server,
    is_down: AtomicBool,
    books: Mutex<Books>,
}

/// What the gateway keeps.
#[derive(Debug, Default)]
struct Books {
    /// The order of each idempotency key: one entry, one charge.
    ledger: BTreeMap<String, String>,
    answers: Answers,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk")
            .field("books", &self.books)
            .finish_non_exhaustive()
    }
}

impl Desk {
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
        // Read to its end even when down: the connection serves further requests.
        let body = request
            .as_reader()
            .take(LONGEST)
            .read_to_end(&mut body)
            .map(|_| body);
        let (status, answer) = match (request.method(), key, body) {
            (Method::Post, Some(key), Ok(body)) => self.charge(key, &body),
            (Method::Post, None, _) => (400, json!({"message": "no Idempotency-Key"})),
            (_, _, Err(error)) => (400, json!({"message": error.to_string()})),
            (_, _, _) => (405, json!({"message": "orders are posted"})),
        };
        let mut response = Response::from_string(answer.to_string()).with_status_code(status);
        if let Ok(json) = Header::from_bytes("Content-Type", "application/json") {
            response = response.with_header(json);
        }
        // The client has gone away: it will ask again, with the same key.
        _ = request.respond(response);
    }

    fn charge(&self, key: String, body: &[u8]) -> (u16, Value) {
        if self.is_down.load(Ordering::SeqCst) {
            self.with_books(|books| books.answers.unavailable += 1);
            return (
                503,
                json!({"error": "Unavailable", "message": "down for maintenance"}),
            );
        }
        let order = match serde_json::from_slice::<Value>(body) {
            Ok(order) => order,
            Err(error) => return (400, json!({"message": format!("not JSON: {error}")})),
        };
        self.with_books(|books| match examine(&order) {
            Err(Refusal { error, message }) => {
                books.answers.refused += 1;
                (422, json!({"error": error, "message": message}))
            }
            Ok(()) => match books.ledger.entry(key) {
                Entry::Occupied(_) => {
                    books.answers.repeated += 1;
                    (200, json!({"charged": "before"}))
                }
                Entry::Vacant(entry) => {
                    entry.insert(name_of(&order));
                    books.answers.charged += 1;
                    (201, json!({"charged": "now"}))
                }
            },
        })
    }

    fn with_books<T>(&self, read: impl FnOnce(&mut Books) -> T) -> T {
        // Every change to the books is one step: they are right after a panic, too.
        read(&mut self.books.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn malformed_orders_are_told_what_is_wrong() {
        let said = |order: Value| examine(&order).map_err(|refusal| refusal.message);
        assert_eq!(said(json!({"currency": "EUR", "amount": 1})), Ok(()));
        assert_eq!(said(json!({"anything": ["else"]})), Ok(()));
        assert_eq!(
            said(json!({"currency": "USD "})),
            Err("currency `USD ` is not an ISO 4217 code".to_owned())
        );
        assert_eq!(
            said(json!({"amount": -5})),
            Err("amount -5 is not positive".to_owned())
        );
        assert_eq!(
            said(json!({"amount": "49,90"})),
            Err("amount \"49,90\" is not a number".to_owned())
        );
        assert_eq!(said(json!([])), Err("an order is a JSON object".to_owned()));
    }

    #[test]
    fn an_order_is_charged_once_and_not_while_down() {
        let gateway = Gateway::open().expect("it opens");
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
            refused: 1,
            unavailable: 1,
        };
        assert_eq!(gateway.answers(), all_once);
    }
}
