//! The door: accepts connections, whatever happens, until it is told to close.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::head::Head;
use super::visit::{Answer, visit};
use super::visitors::{Pass, Visitors};

/// How long it waits after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it says so.
const SAY_EVERY: Duration = Duration::from_mins(1);
/// How long nobody is shown out for dawdling.
const PATIENCE: Duration = Duration::from_millis(200);
/// Enough for what runs on the thread of a visit, and little enough for many of them.
const STACK: usize = 256 << 10;

/// Finds the answer to a question.
type Clerk = Arc<dyn Fn(&Head) -> Answer + Send + Sync>;

/// Where visitors come in.
pub(crate) struct Door {
    listener: TcpListener,
    visitors: Arc<Visitors>,
    clerk: Clerk,
    /// When it last said that it cannot accept.
    said: Option<Instant>,
}

impl Door {
    /// A door for so many visitors at once.
    pub(crate) fn new(
        listener: TcpListener,
        most: usize,
        clerk: impl Fn(&Head) -> Answer + Send + Sync + 'static,
    ) -> io::Result<Door> {
        // A connection may be gone between the news of it and its acceptance.
        listener.set_nonblocking(true)?;
        Ok(Door {
            listener,
            visitors: Visitors::new(most, PATIENCE),
            clerk: Arc::new(clerk),
            said: None,
        })
    }

    /// Lets visitors in until there is something to read from `stop`; then nobody comes in any
    /// more, and whoever is being served is, within `grace`. Whether all were.
    pub(crate) fn serve(mut self, stop: &UnixStream, grace: Duration) -> bool {
        while !stops(stop, Some(&self.listener), None) {
            match self.listener.accept() {
                Ok((stream, _)) => self.let_in(stream),
                // Nothing is wrong with us: the visitor is gone again, or a signal came.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::ConnectionAborted
                            | ErrorKind::ConnectionReset
                            | ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    self.say(&error);
                    self.visitors.make_room();
                    if stops(stop, None, Some(PAUSE)) {
                        break;
                    }
                }
            }
        }
        let Door {
            listener, visitors, ..
        } = self;
        drop(listener);
        visitors.close(grace)
    }

    fn let_in(&mut self, stream: TcpStream) {
        if stream.set_nonblocking(false).is_err() {
            return;
        }
        self.visitors.wait_for_room(PAUSE);
        let pass = self.visitors.enter(stream);
        let clerk = Arc::clone(&self.clerk);
        let started = thread::Builder::new()
            .name("visit".to_owned())
            .stack_size(STACK)
            .spawn(move || receive(&pass, &clerk));
        // Without a thread the visitor, dropped with it, has to come again.
        if let Err(error) = started {
            self.say(&error);
        }
    }

    fn say(&mut self, error: &io::Error) {
        if self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said = Some(Instant::now());
            log::warn!("could not take a connection, and goes on: {error}");
        }
    }
}

fn receive(pass: &Pass, clerk: &Clerk) {
    if let Err(error) = visit(pass, |head| clerk(head)) {
        log::debug!("a visitor left early: {error}");
    }
}

/// Waits for a visitor, or until the time is over; whether it was told to stop.
fn stops(stop: &UnixStream, visitor: Option<&TcpListener>, limit: Option<Duration>) -> bool {
    let mut news = vec![PollFd::new(stop, PollFlags::IN)];
    news.extend(visitor.map(|listener| PollFd::new(listener, PollFlags::IN)));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(&mut news, limit.as_ref()) {
        Ok(_) => !news[0].revents().is_empty(),
        Err(rustix::io::Errno::INTR) => false,
        // No memory for a moment: look again, but not at once.
        Err(_) => {
            thread::sleep(PAUSE);
            false
        }
    }
}
