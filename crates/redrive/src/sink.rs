//! Sinks: letters delivered to somewhere else than a queue.

use std::collections::HashSet;
use std::time::Duration;

use crate::act::Act;
use crate::database::Database;
use crate::error::Result;
use crate::failure::{Failure, Story, clip};
use crate::filter::Letters;
use crate::job::JobId;
use crate::judge::Outcome;
use crate::lane::Lane;
use crate::letter::Letter;
use crate::run::run;
use crate::session::Session;
use crate::sql;

/// How many ids are read at a time.
const PAGE: u64 = 500;
/// The longest message of an error that is kept, in bytes.
const SAID_BYTES: usize = 1000;

/// Where letters can be delivered: a topic, an HTTP service, a file.
///
/// A function of a letter is a sink:
///
/// ```
/// use redrive::{Failure, Letter, Sink};
///
/// fn to_the_log(letter: &Letter) -> Result<(), Failure> {
///     println!("{}", letter.error_message);
///     Ok(())
/// }
/// # fn is_a_sink(_: impl Sink) {}
/// # is_a_sink(to_the_log);
/// ```
pub trait Sink {
    /// Delivers a letter: its payload, or the captured bytes when it has some.
    ///
    /// It may be called again for the same letter, when the program or the database goes away
    /// before the delivery was written down; the letter's id tells that it is the same.
    ///
    /// # Errors
    /// When the letter was not delivered; it stays open and tells why.
    fn send(&self, letter: &Letter) -> Result<(), Failure>;

    /// Its name, in the story of the letter and in the audit. Defaults to the name of the type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }
}

impl<F: Fn(&Letter) -> Result<(), Failure>> Sink for F {
    fn send(&self, letter: &Letter) -> Result<(), Failure> {
        self(letter)
    }
}

/// What a delivery to a sink did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deliveries {
    /// The letters that the sink took: they are recovered.
    pub delivered: Vec<JobId>,
    /// Those that it did not take: they are open as before.
    pub failed: Vec<Undelivered>,
    /// Those that are not open any more, or in the hands of somebody else right now; and of the
    /// ids that were asked for, those that are not open.
    pub skipped: Vec<JobId>,
}

/// A letter that a sink did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undelivered {
    /// The letter.
    pub id: JobId,
    /// The class of the error.
    pub error_class: String,
    /// Its message, cut to 1,000 bytes.
    pub error_message: String,
}

/// What became of one letter.
enum Sent {
    Delivered,
    Failed(Undelivered),
    Skipped,
}

impl Database {
    /// Delivers open letters to a sink, one after the other in the order of their ids.
    ///
    /// Each is locked while the sink has it, so nobody else redrives, edits or discards it. When
    /// the sink took it, it is recovered, and the audit says so in the same transaction; when not,
    /// it stays open and its story tells the error. If the program dies in between, it stays open
    /// and is sent again by the next call: at least once. A sink that panics did not take it.
    ///
    /// The sink runs on the calling thread, and its transaction waits for it: a sink should
    /// answer within seconds.
    ///
    /// # Errors
    /// *Invalid* with [`Letters::after`]; when the database refuses or does not answer: what was
    /// delivered until then is delivered and the rest is not.
    pub fn redrive_to(
        &self,
        which: &Letters,
        sink: &(impl Sink + ?Sized),
        act: &Act,
    ) -> Result<Deliveries> {
        which.refuse_after()?;
        let mut done = Deliveries::default();
        let mut seen: HashSet<JobId> = HashSet::new();
        let mut left = which.limit.unwrap_or(u64::MAX);
        let mut after = JobId::new(i64::MIN);
        let mut hand = Hand {
            lane: self.hold("redrive-deliver"),
            step: self.call_timeout(),
        };
        let open = which.clone().state(crate::letter::LetterState::Open);
        while left > 0 {
            let page = self.page_of_letters(&open, after, PAGE.min(left))?;
            let Some(last) = page.last() else { break };
            after = *last;
            left -= page.len() as u64;
            seen.extend(page.iter().copied());
            for id in page {
                match hand.deliver(&open, id, sink, act)? {
                    Sent::Delivered => done.delivered.push(id),
                    Sent::Failed(undelivered) => done.failed.push(undelivered),
                    Sent::Skipped => done.skipped.push(id),
                }
            }
        }
        let asked = which.asked_ids().iter().copied().map(JobId::new);
        done.skipped.extend(asked.filter(|id| !seen.contains(id)));
        Ok(done)
    }
}

/// The connection that holds the letter in hand.
struct Hand {
    lane: Lane,
    /// How long one of its two steps may take.
    step: Duration,
}

impl Hand {
    /// Delivers one letter, in a transaction.
    fn deliver(
        &mut self,
        which: &Letters,
        id: JobId,
        sink: &(impl Sink + ?Sized),
        act: &Act,
    ) -> Result<Sent> {
        let Some(letter) = self.take(which, id)? else {
            return Ok(Sent::Skipped);
        };
        let name = clip(sink.name().to_owned(), 200);
        let person = act.by().map(str::to_owned);
        let Some(story) = told(run(|| sink.send(&letter))) else {
            let why = act.reason().map(str::to_owned);
            self.end(id, move |doing, session| {
                session
                    .query_one(doing, &sql::DELIVERED, &[&id.get(), &name, &why, &person])
                    .map(drop)
            })?;
            return Ok(Sent::Delivered);
        };
        let undelivered = Undelivered {
            id,
            error_class: story.class,
            error_message: clip(story.message, SAID_BYTES),
        };
        let (class, message) = (
            undelivered.error_class.clone(),
            undelivered.error_message.clone(),
        );
        self.end(id, move |doing, session| {
            let parameters: [crate::session::Parameter<'_>; 5] =
                [&id.get(), &name, &class, &message, &person];
            session
                .query_one(doing, &sql::NOT_DELIVERED, &parameters)
                .map(drop)
        })?;
        Ok(Sent::Failed(undelivered))
    }

    /// Begins a transaction and locks the letter in it, if it is still to be delivered.
    fn take(&mut self, which: &Letters, id: JobId) -> Result<Option<Letter>> {
        let filter = which.these(&[id]).filter()?;
        let doing = format!("take letter {id}");
        self.lane.call(&doing.clone(), self.step, move |session| {
            // The sink may take longer than the worker's connections may be idle.
            session.begin(&doing, "SET LOCAL idle_in_transaction_session_timeout = 0")?;
            let taken = session
                .query(&doing, &sql::TAKE_LETTER, &[&filter])
                .and_then(|rows| match rows.is_empty() {
                    true => Ok(None),
                    false => crate::letter::read(session, &filter),
                });
            match taken {
                Ok(Some(letter)) => Ok(Some(letter)),
                taken => session.end(&doing, taken),
            }
        })
    }

    /// Writes down what became of the letter, and commits.
    fn end(
        &mut self,
        id: JobId,
        write: impl FnOnce(&str, &mut Session) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let doing = format!("write down the delivery of letter {id}");
        self.lane.call(&doing.clone(), self.step, move |session| {
            let written = write(&doing, session);
            session.end(&doing, written)
        })
    }
}

/// Why a sink did not take a letter; `None`: it did.
fn told(outcome: Outcome) -> Option<Story> {
    match outcome {
        Outcome::Done => None,
        Outcome::Failed(failure) => Some(failure.story),
        Outcome::Panicked(story) | Outcome::Undecodable(story) | Outcome::Unhandled(story) => {
            Some(story)
        }
        Outcome::TimedOut(limit) => Some(Story::new(
            "timeout",
            format!("it took over {limit:?}"),
            None,
        )),
    }
}
