//! Gives every database call a deadline.
//!
//! The `postgres` driver blocks for as long as the server keeps the TCP connection open. Where the
//! [connection](crate::db::deadline) ends its calls at the deadline, a call runs on the thread that
//! makes it. Otherwise (a pool of the user, a Unix socket, or a caller inside an async runtime, where
//! the driver panics) it runs on a dedicated thread: the caller waits with the deadline and abandons
//! the thread, with its connection, when it expires. The thread ends when the server answers, the
//! connection breaks or its own deadline passes.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::db::session::Session;
use crate::db::spawn::spawn;
use crate::error::{Error, Result};
use crate::job::wait::from_now;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::channel::{RecvTimeoutError, Sender, bounded};
use crate::sync::{Instant, in_async_runtime};

/// What ends a call at its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadlines {
    /// The connection itself.
    ByConnection,
    /// Nothing. The call needs a thread that can be abandoned.
    ByThread,
}

/// Opens a session, waiting at most this long for a connection.
type OpenSession = dyn Fn(Duration) -> Result<Session> + Send + Sync;

/// Opens sessions, usually from a pool.
#[derive(Clone)]
pub(crate) struct SessionSource {
    open: Arc<OpenSession>,
    deadlines: Deadlines,
}

impl SessionSource {
    pub(crate) fn new(
        deadlines: Deadlines,
        open: impl Fn(Duration) -> Result<Session> + Send + Sync + 'static,
    ) -> SessionSource {
        SessionSource {
            open: Arc::new(open),
            deadlines,
        }
    }

    /// Opens a session without a deadline.
    pub(crate) fn session(&self, wait: Duration) -> Result<Session> {
        let session = (self.open)(wait)?;
        // The last call on this connection may have had one.
        session.set_deadline(None);
        Ok(session)
    }
}

/// When a call returns its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionUse {
    /// Returns it to the pool.
    PerCall,
    /// Keeps it, with the settings of a worker's connections, and closes it in the end.
    Held,
    /// Keeps it as it is, for a transaction of several calls.
    Kept,
}

type Call = Box<dyn FnOnce(&mut CallSession) + Send>;

/// What a call does, and its result, without their types: a hundred kinds of calls would otherwise compile a channel, a
/// thread and their ends a hundred times.
type Work = Box<dyn FnOnce(&mut Session) -> Result<Answer> + Send>;
type Answer = Box<dyn Any + Send>;

fn work_of<T: Send + 'static>(
    work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
) -> Work {
    Box::new(move |session| Ok(Box::new(work(session)?)))
}

/// Returns the answer of a call of `work_of` with this type, which cannot have another one.
fn answer_of<T: 'static>(doing: &str, answer: Result<Answer>) -> Result<T> {
    match answer?.downcast() {
        Ok(answer) => Ok(*answer),
        Err(_) => Err(Error::lost(format!(
            "could not {doing}: the answer has another type"
        ))),
    }
}

/// Makes database calls, one at a time, each with a deadline.
pub(crate) struct DbCaller {
    name: String,
    /// The session of calls on the calling thread.
    here: CallSession,
    /// The thread of all other calls, replaced when it does not answer.
    calls: Option<Sender<Call>>,
}

impl DbCaller {
    pub(crate) fn new(name: &str, source: SessionSource, between: SessionUse) -> DbCaller {
        DbCaller {
            name: name.to_owned(),
            here: CallSession::new(source, between),
            calls: None,
        }
    }

    /// Gives the connection up. The next call takes another one.
    pub(crate) fn rest(&mut self) {
        self.here.session = None;
        self.calls = None;
    }

    /// Runs `work` and waits up to `deadline` for the result.
    ///
    /// # Errors
    /// Those of `work`. *Unavailable* if there is no connection or no answer in time; a call that
    /// had a connection may still take effect.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        doing: &str,
        deadline: Duration,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (work, until) = (work_of(work), from_now(deadline));
        let answer = match self.runs_here() {
            true => self.call_here(doing, deadline, until, work),
            false => self.call_there(doing, deadline, Some(until), &mut || false, work),
        };
        answer_of(doing, answer)
    }

    fn runs_here(&self) -> bool {
        self.here.source.deadlines == Deadlines::ByConnection && !in_async_runtime()
    }

    /// Runs `work` on this thread.
    fn call_here(
        &mut self,
        doing: &str,
        deadline: Duration,
        until: Instant,
        work: Work,
    ) -> Result<Answer> {
        let wait = until.saturating_duration_since(Instant::now());
        let begins = AtomicBool::new(false);
        let call = || self.here.run(wait, Some(until), &begins, work);
        match panic::catch_unwind(AssertUnwindSafe(call)) {
            Ok(result) => unless_late(doing, deadline, until, result),
            Err(_) => Err(driver_panicked(doing)),
        }
    }

    /// Like [`call`](DbCaller::call), but waits for another `deadline` while `goes_on` returns
    /// true. Always runs on the dedicated thread.
    pub(crate) fn call_while<T: Send + 'static>(
        &mut self,
        doing: &str,
        deadline: Duration,
        mut goes_on: impl FnMut() -> bool,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let answer = self.call_there(doing, deadline, None, &mut goes_on, work_of(work));
        answer_of(doing, answer)
    }

    /// Runs `work` on the dedicated thread, and ends it at `until` if the connection can.
    fn call_there(
        &mut self,
        doing: &str,
        deadline: Duration,
        until: Option<Instant>,
        goes_on: &mut dyn FnMut() -> bool,
        work: Work,
    ) -> Result<Answer> {
        let (reply, answer) = bounded(1);
        let begins = Arc::new(AtomicBool::new(false));
        let has_begun = Arc::clone(&begins);
        let call: Call = Box::new(move |session| {
            // The caller may have given up.
            _ = reply.send(session.run(Duration::MAX, until, &begins, work));
        });
        let calls = match self.calls.take() {
            Some(calls) => calls,
            None => self.start()?,
        };
        if calls.send(call).is_err() {
            return Err(Error::unavailable(format!(
                "could not {doing}: its thread ended"
            )));
        }
        let answered = loop {
            match answer.recv_timeout(deadline) {
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                answered => break answered,
            }
        };
        // Without an answer, dropping the sender abandons the thread.
        match answered {
            Ok(result) => {
                self.calls = Some(calls);
                match until {
                    Some(until) => unless_late(doing, deadline, until, result),
                    None => result,
                }
            }
            Err(RecvTimeoutError::Timeout) => Err(match has_begun.swap(true, Ordering::SeqCst) {
                true => no_answer(doing, deadline),
                false => Error::unavailable(format!(
                    "could not {doing}: no connection to the database within {deadline:?}"
                )),
            }),
            Err(RecvTimeoutError::Disconnected) => Err(driver_panicked(doing)),
        }
    }

    fn start(&self) -> Result<Sender<Call>> {
        let (calls, inbox) = bounded::<Call>(1);
        let mut session = CallSession::new(self.here.source.clone(), self.here.between);
        spawn(&self.name, move || {
            for call in &inbox {
                call(&mut session);
            }
        })?;
        Ok(calls)
    }
}

/// Says that the deadline ended a call. What the server said is definite, however late.
fn unless_late(
    doing: &str,
    deadline: Duration,
    until: Instant,
    result: Result<Answer>,
) -> Result<Answer> {
    match result {
        Err(error) if Instant::now() >= until && error.is_lost() => {
            Err(no_answer(doing, deadline).caused_by(error))
        }
        result => result,
    }
}

fn no_answer(doing: &str, deadline: Duration) -> Error {
    Error::lost(format!(
        "could not {doing}: the database did not answer within {deadline:?}"
    ))
}

fn driver_panicked(doing: &str) -> Error {
    Error::lost(format!("could not {doing}: the database driver panicked"))
}

/// The session of the calls on one thread.
struct CallSession {
    source: SessionSource,
    between: SessionUse,
    session: Option<Session>,
}

impl CallSession {
    fn new(source: SessionSource, between: SessionUse) -> CallSession {
        CallSession {
            source,
            between,
            session: None,
        }
    }

    /// Makes a call, unless its caller gave up before there was a connection, which ends it at `until` if it can.
    fn run(
        &mut self,
        wait: Duration,
        until: Option<Instant>,
        begins: &AtomicBool,
        work: Work,
    ) -> Result<Answer> {
        let (mut session, is_new) = match self.session.take() {
            Some(session) => (session, false),
            None => (self.source.session(wait)?, true),
        };
        if begins.swap(true, Ordering::SeqCst) {
            // The session goes back to the pool.
            return Err(Error::unavailable(
                "the call was abandoned before it got a connection",
            ));
        }
        session.set_deadline(until);
        if is_new && self.between == SessionUse::Held {
            session.pin()?;
        }
        let result = work(&mut session);
        // A broken connection goes back too, so that the pool replaces it.
        if self.between != SessionUse::PerCall && !session.is_closed() {
            self.session = Some(session);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use postgres::Client;

    use super::*;
    use crate::db::connection::{Connection, Statements};
    use crate::db::deadline::CallDeadline;
    use crate::db::pooler::Pooler;

    /// A connection that only notes its deadline, and that it must not be used again.
    struct Unused(Sender<()>, CallDeadline);

    impl Connection for Unused {
        fn client(&mut self) -> &mut Client {
            unreachable!("no statement is sent")
        }

        fn statements(&mut self) -> &mut Statements {
            unreachable!("nothing is prepared")
        }

        fn deadline(&self) -> Option<&CallDeadline> {
            Some(&self.1)
        }

        fn discard(&mut self) {
            self.0.send(()).expect("the test listens");
        }
    }

    /// A caller with such connections.
    fn caller(deadlines: Deadlines, deadline: &CallDeadline, discarded: &Sender<()>) -> DbCaller {
        let (deadline, discarded) = (deadline.clone(), discarded.clone());
        let source = SessionSource::new(deadlines, move |_| {
            let connection = Unused(discarded.clone(), deadline.clone());
            Ok(Session::new(Box::new(connection), Pooler::Transaction))
        });
        DbCaller::new("test", source, SessionUse::PerCall)
    }

    #[test]
    fn a_call_runs_here_if_its_connection_has_deadlines_outside_of_an_async_runtime() {
        for (deadlines, in_runtime, expected) in [
            (Deadlines::ByConnection, false, true),
            (Deadlines::ByThread, false, false),
            // The driver panics there.
            (Deadlines::ByConnection, true, false),
        ] {
            let deadline = CallDeadline::default();
            let mut db = caller(deadlines, &deadline, &bounded(1).0);
            let (here, begun) = (std::thread::current().id(), Instant::now());
            let ask = move || {
                db.call("ask", Duration::from_mins(1), move |_| {
                    Ok((std::thread::current().id() == here, deadline.get()))
                })
            };
            let asked = match in_runtime {
                true => {
                    let runtime = tokio::runtime::Builder::new_current_thread().build();
                    runtime.expect("a runtime").block_on(async { ask() })
                }
                false => ask(),
            };
            let (is_here, until) = asked.expect("an answer");
            assert_eq!(is_here, expected, "{deadlines:?} {in_runtime}");
            assert!(until.is_some_and(|until| until > begun), "{until:?}");
        }
    }

    #[test]
    fn a_connection_is_used_again_unless_its_call_panicked() {
        for deadlines in [Deadlines::ByConnection, Deadlines::ByThread] {
            let (discarded, seen) = bounded(1);
            let mut db = caller(deadlines, &CallDeadline::default(), &discarded);
            let wait = Duration::from_mins(1);
            db.call("work", wait, |_| Ok(())).expect("done");
            assert!(seen.is_empty(), "{deadlines:?}");
            let ended = db.call("work", wait, |_| -> Result<()> { panic!("in the driver") });
            let error = ended.expect_err("a panic");
            assert!(error.is_lost(), "{error:?}");
            seen.recv_timeout(wait).expect("discarded");
        }
    }

    #[test]
    fn what_the_server_says_is_reported_however_late() {
        let late = "could not ask: the database did not answer within 0ns";
        for (said, expected) in [
            (Error::invalid("a refusal"), "a refusal"),
            (Error::unavailable("many connections"), "many connections"),
            (Error::lost("closed"), late),
        ] {
            let deadline = CallDeadline::default();
            let mut db = caller(Deadlines::ByConnection, &deadline, &bounded(1).0);
            let asked = db.call("ask", Duration::ZERO, move |_| -> Result<()> { Err(said) });
            assert_eq!(asked.expect_err("an error").to_string(), expected);
        }
    }
}
