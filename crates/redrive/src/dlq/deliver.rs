//! Delivers letters to a sink outside redrive.

use std::time::SystemTime;

use crate::db::ask::{Call, all, rows};
use crate::db::column::Given;
use crate::db::database::BatchProgress;
use crate::db::session::AWAITS_CALLER;
use crate::dlq::letter::Letter;
use crate::dlq::prelude::*;
use crate::job::failure::Failure;
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
    /// Letters that are not open, that another operation has locked, or whose payload was redacted.
    pub skipped: Vec<JobId>,
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

impl Dlq<'_> {
    /// Delivers open letters to a sink, one at a time in the order of their ids.
    ///
    /// The letter is locked while the sink runs, so no other operation can redrive, edit or
    /// discard it. When the sink succeeds, the letter becomes recovered and the audit row
    /// is written in the same transaction. When the sink fails or panics, the letter stays
    /// open and records the error.
    ///
    /// The sink runs on the calling thread inside a transaction, so it should answer within
    /// seconds. Letters whose payload was redacted stay open until an edit replaces the values.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn deliver(
        &self,
        filter: &LetterFilter,
        sink: &(impl Sink + ?Sized),
        operator: &Operator,
    ) -> Result<Deliveries> {
        let open = filter.within(&[LetterState::Open]);
        let mut caller = self.db.caller("redrive-deliver");
        let step = self.db.call_timeout();
        let name = clip(sink.name().to_owned(), 200);
        let deliver = |done: &mut Deliveries, _: &Json, page: &[JobId]| -> Taken {
            for id in page {
                let filter = open.these(&[*id]).parameter()?;
                match caller.call(&format!("take letter {id}"), step, take(*id, &filter))? {
                    None => done.skipped.push(*id),
                    Some(letter) => {
                        let failed = sent(sink, &letter);
                        let doing = format!("record the delivery of letter {id}");
                        let error = failed.as_ref();
                        let error = error.map(|of| (&*of.error_class, &*of.error_message));
                        let (class, message) = error.unzip();
                        let told: [&dyn Given; 5] = [id, &name, operator, &class, &message];
                        let record = rows(&doing, &sql::DELIVERED, &told);
                        caller.call(&doing.clone(), step, move |session| {
                            let recorded = record(session);
                            session.end(&doing, recorded.map(drop))
                        })?;
                        match failed {
                            None => done.delivered.push(*id),
                            Some(failed) => done.failed.push(failed),
                        }
                    }
                }
                let others = (done.failed.len() + done.skipped.len()) as u64;
                let so_far = BatchProgress::of(done.delivered.len(), None).and_unchanged(others);
                if self.db.go_on(so_far).is_break() {
                    return Ok(None);
                }
            }
            Ok(Some(page.len() as u64))
        };
        let (mut done, missed) = self.in_pages(&open, PAGE, deliver)?;
        done.skipped.extend(missed);
        Ok(done)
    }
}

/// Returns the call that begins a transaction, locks the letter and reads it with all of its captured bytes, if it still
/// matches and was not redacted.
fn take(id: JobId, filter: &Json) -> Call<Option<Letter>> {
    let doing = format!("take letter {id}");
    let (now, open) = (None::<SystemTime>, vec![LetterState::Open]);
    let lock: Call<Vec<JobId>> = all(&doing, &sql::LOCK_LETTERS, &[filter, &open, &now, &1_i64]);
    let after: Option<JobId> = None;
    let read: Call<Vec<Letter>> = all(
        &doing,
        &sql::LETTERS,
        &[filter, &after, &1_i64, &false, &false],
    );
    let bytes: Call<Vec<Option<Vec<u8>>>> = all(&doing, &sql::CAPTURED_BYTES, &[&id]);
    let locked = move |session: &mut Session| -> Result<Option<Letter>> {
        if lock(session)?.is_empty() {
            return Ok(None);
        }
        let letter = read(session)?.pop();
        let mut letter = letter.filter(|letter| letter.redacted.is_empty());
        if let Some(letter) = &mut letter
            && letter.raw_size.take().is_some()
        {
            letter.raw = bytes(session)?.pop().flatten();
        }
        Ok(letter)
    };
    Box::new(move |session| {
        session.begin(&doing, AWAITS_CALLER)?;
        match locked(session) {
            Ok(Some(letter)) => Ok(Some(letter)),
            none => session.end(&doing, none),
        }
    })
}

/// Sends a letter, and returns why the sink rejected it.
fn sent(sink: &(impl Sink + ?Sized), letter: &Letter) -> Option<Undelivered> {
    let sent = run_handler(|| sink.send(letter));
    let report = sent.err()?.failure.report;
    Some(Undelivered {
        id: letter.id,
        error_class: report.class.into(),
        error_message: clip(report.message, SAID_BYTES),
    })
}
