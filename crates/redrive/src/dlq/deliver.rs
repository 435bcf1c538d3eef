//! Delivers letters to a sink outside redrive.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::db::session::Session;
use crate::db::sql;
use crate::dlq::captured_bytes::captured_bytes;
use crate::dlq::filter::LetterFilter;
use crate::dlq::handle::Dlq;
use crate::dlq::letter::Letter;
use crate::error::{Error, Result};
use crate::job::error_report::clip;
use crate::job::failure::Failure;
use crate::job::job::JobId;
use crate::job::operator::Operator;
use crate::pipeline::attempt::run_handler;

/// The ids per page.
const PAGE: u64 = 500;
/// The longest error message that is stored, in bytes.
const SAID_BYTES: usize = 1000;

/// A destination for letters, such as a topic, an HTTP service or a file.
///
/// Any function of a letter is a sink:
///
/// ```
/// use redrive::dlq::{Letter, Sink};
/// use redrive::Failure;
///
/// fn to_the_log(letter: &Letter) -> Result<(), Failure> {
///     println!("{}", letter.error_message);
///     Ok(())
/// }
/// # fn is_a_sink(_: impl Sink) {}
/// # is_a_sink(to_the_log);
/// ```
pub trait Sink {
    /// Delivers one letter: its payload, or its captured bytes, of which the letter has all here.
    ///
    /// Delivery is at least once: after a crash the same letter may arrive again, with the
    /// same id.
    ///
    /// # Errors
    /// If the letter was not delivered. It stays open and records the error.
    fn send(&self, letter: &Letter) -> Result<(), Failure>;

    /// Its name, in the report of the letter and in the audit. Defaults to the name of the type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }
}

impl<F: Fn(&Letter) -> Result<(), Failure>> Sink for F {
    fn send(&self, letter: &Letter) -> Result<(), Failure> {
        self(letter)
    }
}

/// The outcome of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deliveries {
    /// Letters the sink accepted. They are recovered.
    pub delivered: Vec<JobId>,
    /// Letters the sink rejected. They stay open.
    pub failed: Vec<Undelivered>,
    /// Letters that are not open, or that another operation has locked.
    pub skipped: Vec<JobId>,
    /// Letters whose payload was redacted. They stay open;
    /// [`deliver_forced`](Dlq::deliver_forced) sends them.
    pub redacted: Vec<JobId>,
}

/// A letter that the sink rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undelivered {
    /// The letter.
    pub id: JobId,
    /// The class of the error.
    pub error_class: String,
    /// The error message, truncated to 1,000 bytes.
    pub error_message: String,
}

/// The outcome for one letter.
enum Sent {
    Delivered,
    Failed(Undelivered),
    Skipped,
    Redacted,
}

/// A letter that was to be locked for a delivery.
enum Taken {
    Locked(Box<Letter>),
    Skipped,
    Redacted,
}

/// The treatment of letters whose payload was redacted.
#[derive(Clone, Copy, Debug)]
enum RedactedLetters {
    Stay,
    Go,
}

impl Dlq<'_> {
    /// Delivers open letters to a sink, one at a time in the order of their ids.
    ///
    ///
    /// The letter is locked while the sink runs, so no other operation can redrive, edit or
    /// discard it. When the sink succeeds, the letter becomes recovered and the audit row
    /// is written in the same transaction. When the sink fails or panics, the letter stays
    /// open and records the error.
    ///
    /// Delivery is at least once: if the program dies before the commit, the next call
    /// sends the letter again.
    ///
    /// The sink runs on the calling thread inside a transaction, so it should answer within
    /// seconds. Letters whose payload was redacted stay open.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database rejects a
    /// statement or does not answer. Letters delivered before the error stay delivered.
    pub fn deliver(
        &self,
        filter: &LetterFilter,
        sink: &(impl Sink + ?Sized),
        operator: &Operator,
    ) -> Result<Deliveries> {
        self.deliver_letters(filter, RedactedLetters::Stay, sink, operator)
    }

    /// Delivers letters as [`deliver`](Dlq::deliver) does, also those whose payload was
    /// redacted. Requires a [reason](Operator::reason).
    ///
    /// # Errors
    /// *Invalid* without a reason; otherwise those of [`deliver`](Dlq::deliver).
    pub fn deliver_forced(
        &self,
        filter: &LetterFilter,
        sink: &(impl Sink + ?Sized),
        operator: &Operator,
    ) -> Result<Deliveries> {
        if operator.given_reason().is_none() {
            return Err(Error::invalid("a forced delivery needs a reason"));
        }
        self.deliver_letters(filter, RedactedLetters::Go, sink, operator)
    }

    fn deliver_letters(
        self,
        filter: &LetterFilter,
        redacted: RedactedLetters,
        sink: &(impl Sink + ?Sized),
        operator: &Operator,
    ) -> Result<Deliveries> {
        let mut seen: HashSet<JobId> = HashSet::new();
        let mut after = JobId::new(i64::MIN);
        let mut hand = Hand {
            db_caller: self.db.caller("redrive-deliver"),
            step: self.db.call_timeout(),
            redacted,
        };
        let open = filter.clone().state(crate::dlq::state::LetterState::Open);
        let mut done = open.in_batches(
            PAGE,
            |done: &mut Deliveries, _, most| -> Result<Option<u64>> {
                let page = self.page_of_ids(&open, after, most)?;
                let Some(last) = page.last() else {
                    return Ok(None);
                };
                after = *last;
                seen.extend(page.iter().copied());
                let letters = page.len() as u64;
                for id in page {
                    match hand.deliver(&open, id, sink, operator)? {
                        Sent::Delivered => done.delivered.push(id),
                        Sent::Failed(undelivered) => done.failed.push(undelivered),
                        Sent::Skipped => done.skipped.push(id),
                        Sent::Redacted => done.redacted.push(id),
                    }
                }
                Ok(Some(letters))
            },
            |_| ControlFlow::Continue(()),
        )?;
        let asked = filter.asked_ids().into_iter().map(JobId::new);
        done.skipped.extend(asked.filter(|id| !seen.contains(id)));
        Ok(done)
    }
}

/// The connection that holds the lock.
struct Hand {
    db_caller: DbCaller,
    /// The timeout of each step.
    step: Duration,
    redacted: RedactedLetters,
}

impl Hand {
    /// Delivers one letter in a transaction.
    fn deliver(
        &mut self,
        filter: &LetterFilter,
        id: JobId,
        sink: &(impl Sink + ?Sized),
        operator: &Operator,
    ) -> Result<Sent> {
        let letter = match self.take(filter, id)? {
            Taken::Locked(letter) => letter,
            Taken::Skipped => return Ok(Sent::Skipped),
            Taken::Redacted => return Ok(Sent::Redacted),
        };
        let name = clip(sink.name().to_owned(), 200);
        let person = operator.by().map(str::to_owned);
        let Err(outcome) = run_handler(|| sink.send(&letter)) else {
            let why = operator.given_reason().map(str::to_owned);
            self.end(id, move |doing, session| {
                session
                    .query_one(doing, &sql::DELIVERED, &[&id.get(), &name, &why, &person])
                    .map(drop)
            })?;
            return Ok(Sent::Delivered);
        };
        let report = outcome.classify().report;
        let undelivered = Undelivered {
            id,
            error_class: report.class.into(),
            error_message: clip(report.message, SAID_BYTES),
        };
        let (class, message) = (
            undelivered.error_class.clone(),
            undelivered.error_message.clone(),
        );
        self.end(id, move |doing, session| {
            let parameters: [crate::db::session::Parameter<'_>; 5] =
                [&id.get(), &name, &class, &message, &person];
            session
                .query_one(doing, &sql::NOT_DELIVERED, &parameters)
                .map(drop)
        })?;
        Ok(Sent::Failed(undelivered))
    }

    /// Begins a transaction and locks the letter, if it still matches.
    fn take(&mut self, filter: &LetterFilter, id: JobId) -> Result<Taken> {
        let redacted = self.redacted;
        let filter = filter.these(&[id]).parameter()?;
        let doing = format!("take letter {id}");
        self.db_caller
            .call(&doing.clone(), self.step, move |session| {
                // The sink may be idle in the transaction for longer than the
                // session allows.
                session.begin(&doing, "SET LOCAL idle_in_transaction_session_timeout = 0")?;
                let taken = session
                    .query(&doing, &sql::TAKE_LETTER, &[&filter])
                    .and_then(|rows| match rows.is_empty() {
                        true => Ok(None),
                        false => crate::dlq::letter::read(session, &filter),
                    });
                match (taken, redacted) {
                    (Ok(Some(letter)), RedactedLetters::Stay) if !letter.redacted.is_empty() => {
                        session.end(&doing, Ok(Taken::Redacted))
                    }
                    (Ok(Some(mut letter)), RedactedLetters::Stay | RedactedLetters::Go) => {
                        if letter.raw_size.take().is_some() {
                            letter.raw = match captured_bytes(session, id) {
                                Ok(raw) => raw,
                                Err(error) => return session.end(&doing, Err(error)),
                            };
                        }
                        Ok(Taken::Locked(Box::new(letter)))
                    }
                    (taken, _) => session.end(&doing, taken.map(|_| Taken::Skipped)),
                }
            })
    }

    /// Records the outcome and commits.
    fn end(
        &mut self,
        id: JobId,
        write: impl FnOnce(&str, &mut Session) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let doing = format!("record the delivery of letter {id}");
        self.db_caller
            .call(&doing.clone(), self.step, move |session| {
                let written = write(&doing, session);
                session.end(&doing, written)
            })
    }
}
