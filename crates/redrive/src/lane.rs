//! A lane: a thread of the library's own that makes database calls, so that every call has a
//! deadline.
//!
//! The driver blocks for as long as the server is silent with its TCP connection open, and so
//! does dropping a client; and it panics on a thread that drives an async runtime. So no caller
//! of ours touches it: calls run on a lane, the caller waits for the answer with a deadline,
//! and a lane that does not answer is abandoned, thread, connection and all. It ends by itself
//! when the server answers or the connection breaks.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::floor::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crate::floor::thread;
use crate::session::Session;
use crate::stuck::{Stuck, Ticket};

/// Gives sessions to lanes: the pool.
#[derive(Clone)]
pub(crate) struct Source {
    give: Arc<dyn Fn() -> Result<Session> + Send + Sync>,
    /// The calls that were given up and still hold a session of it.
    stuck: Stuck,
}

impl Source {
    pub(crate) fn new(
        stuck: Stuck,
        give: impl Fn() -> Result<Session> + Send + Sync + 'static,
    ) -> Source {
        Source {
            give: Arc::new(give),
            stuck,
        }
    }

    pub(crate) fn session(&self) -> Result<Session> {
        (self.give)()
    }

    /// The same pool, each of whose sessions is made into another before it is given.
    pub(crate) fn giving(
        &self,
        made: impl Fn(Session) -> Session + Send + Sync + 'static,
    ) -> Source {
        let give = Arc::clone(&self.give);
        Source {
            give: Arc::new(move || give().map(&made)),
            stuck: self.stuck.clone(),
        }
    }
}

/// What a lane does with its session between calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Between {
    /// Gives it back to the pool.
    GiveBack,
    /// Holds it, with the settings of a worker's connections.
    Hold,
}

type Call = Box<dyn FnOnce(&mut Seat) + Send>;

/// One thread for database calls, replaced when it does not answer.
pub(crate) struct Lane {
    name: String,
    source: Source,
    between: Between,
    calls: Option<Sender<Call>>,
}

impl Lane {
    pub(crate) fn new(name: &str, source: Source, between: Between) -> Lane {
        Lane {
            name: name.to_owned(),
            source,
            between,
            calls: None,
        }
    }

    /// Has the lane take its session now, and waits for nothing: its first call finds it ready, or
    /// tries again and tells why not.
    ///
    /// # Errors
    /// When its thread cannot be started.
    pub(crate) fn warm(&mut self) -> Result<()> {
        let calls = start(&self.name, self.source.clone(), self.between)?;
        let ticket = self.source.stuck.ticket();
        // What comes of it shows in the first call.
        _ = calls.send(Box::new(move |seat| _ = seat.run(&ticket, |_| Ok(()))));
        self.calls = Some(calls);
        Ok(())
    }

    /// Runs `work` on the lane's thread and waits for its answer until `deadline` has passed.
    ///
    /// # Errors
    /// What `work` answers; *unavailable* when no connection is to be had or no answer came in
    /// time. In the latter case the call may still take effect, if it had a connection.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        doing: &str,
        deadline: Duration,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.call_while(doing, deadline, || false, work)
    }

    /// The same, with another wait as long as `deadline` for as long as `goes_on` says so.
    pub(crate) fn call_while<T: Send + 'static>(
        &mut self,
        doing: &str,
        deadline: Duration,
        mut goes_on: impl FnMut() -> bool,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = bounded(1);
        let ticket = self.source.stuck.ticket();
        let mine = ticket.clone();
        let call: Call = Box::new(move |seat| {
            let result = seat.run(&mine, work);
            mine.end();
            // Nobody listens any more when the caller's deadline has passed.
            _ = reply.send(result);
        });
        let calls = match &self.calls {
            Some(calls) => calls,
            None => self
                .calls
                .insert(start(&self.name, self.source.clone(), self.between)?),
        };
        if calls.send(call).is_err() {
            self.calls = None;
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
        match answered {
            Ok(result) => result,
            Err(trouble) => {
                // Dropping the sender is all it takes to abandon the lane.
                self.calls = None;
                Err(Error::unavailable(match trouble {
                    RecvTimeoutError::Timeout => {
                        ticket.give_up();
                        format!(
                            "could not {doing}: the database did not answer within {deadline:?}"
                        )
                    }
                    RecvTimeoutError::Disconnected => {
                        format!("could not {doing}: the database driver panicked")
                    }
                }))
            }
        }
    }
}

fn start(name: &str, source: Source, between: Between) -> Result<Sender<Call>> {
    let (calls, inbox) = bounded::<Call>(1);
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || serve(&inbox, source, between))
        .map_err(|error| {
            Error::unavailable(format!("could not start the thread `{name}`")).caused_by(error)
        })?;
    Ok(calls)
}

fn serve(inbox: &Receiver<Call>, source: Source, between: Between) {
    let mut seat = Seat {
        source,
        between,
        session: None,
    };
    for call in inbox {
        call(&mut seat);
    }
    seat.leave();
}

/// The lane's side of a call: where its session sits.
struct Seat {
    source: Source,
    between: Between,
    session: Option<Session>,
}

impl Seat {
    fn run<T>(
        &mut self,
        ticket: &Ticket,
        work: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<T> {
        let (mut session, is_new) = match self.session.take() {
            Some(session) => (session, false),
            None => (self.source.session()?, true),
        };
        if !ticket.begin() {
            // Nobody waits for it any more: what has not begun does not begin. It goes back.
            return Err(Error::unavailable("nobody waited for a connection"));
        }
        match self.between {
            Between::Hold if is_new => session.pin()?,
            Between::Hold | Between::GiveBack => {}
        }
        let result = work(&mut session);
        match self.between {
            // A broken connection goes back as well: the pool is what replaces it.
            Between::Hold if !session.is_closed() => self.session = Some(session),
            Between::Hold | Between::GiveBack => {}
        }
        result
    }

    fn leave(&mut self) {
        let Some(mut session) = self.session.take() else {
            return;
        };
        // Nobody waits for this any more.
        let ticket = self.source.stuck.ticket();
        ticket.begin();
        ticket.give_up();
        if let Err(error) = session.unpin() {
            log::debug!("a connection goes back to the pool as it is: {error}");
        }
        drop(session);
        ticket.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_database() -> Source {
        Source::new(Stuck::default(), || {
            Err(Error::unavailable("no database here"))
        })
    }

    #[test]
    fn a_lane_without_a_connection_says_so() {
        let mut lane = Lane::new("test", no_database(), Between::GiveBack);
        let error = lane
            .call("ask", Duration::from_mins(1), |_| Ok(()))
            .expect_err("no connection");
        assert!(error.is_unavailable());
        assert_eq!(error.to_string(), "no database here");
    }

    #[test]
    fn a_silent_call_is_abandoned_and_the_next_one_gets_a_new_thread() {
        let (release, blocked) = bounded::<()>(0);
        let silent = Source::new(Stuck::default(), move || {
            // Ends when the test drops its side.
            _ = blocked.recv();
            Err(Error::unavailable("late"))
        });
        let mut lane = Lane::new("test", silent, Between::GiveBack);
        let error = lane
            .call("ask", Duration::from_millis(1), |_| Ok(()))
            .expect_err("no answer");
        assert!(error.to_string().contains("did not answer"), "{error}");
        drop(release);
        let error = lane
            .call("ask", Duration::from_mins(1), |_| Ok(()))
            .expect_err("no connection");
        assert_eq!(error.to_string(), "late");
    }
}
