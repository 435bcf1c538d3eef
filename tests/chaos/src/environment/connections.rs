//! The fault that uses up the connections of the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, NoTls};

use super::inject::{PROOF, Proof, proven};
use super::{Environment, POLL};

/// How many threads take connections.
const TAKERS: usize = 8;

impl Environment {
    /// Several threads take connections, because the processes take those that become free, too.
    pub(super) fn take_connections(&mut self, duration: Duration) -> Proof {
        let url = self.server.url();
        let (taken, is_refused) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let (until, at_most) = (Instant::now() + duration, Instant::now() + PROOF);
        let goes_on = || {
            let is_proven = is_refused.load(Ordering::Relaxed);
            Instant::now() < until || !is_proven && Instant::now() < at_most
        };
        thread::scope(|scope| {
            for _ in 0..TAKERS {
                scope.spawn(|| {
                    while goes_on() {
                        match Client::connect(&url, NoTls) {
                            Ok(client) => taken
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .push(client),
                            Err(error) => {
                                let code = error.code();
                                if code == Some(&SqlState::TOO_MANY_CONNECTIONS) {
                                    is_refused.store(true, Ordering::Relaxed);
                                }
                                thread::sleep(POLL);
                            }
                        }
                    }
                });
            }
            while goes_on() {
                self.pass(POLL);
            }
        });
        proven(is_refused.into_inner(), "the server had connections left")
    }
}
