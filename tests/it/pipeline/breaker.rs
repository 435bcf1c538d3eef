//! Breakers: while a dependency is down its jobs are not claimed, and the breaker closes after a
//! successful probe.

mod outage;
mod queue;

use redrive_tests::prelude::*;

/// A dependency that can be down.
#[derive(Default)]
struct Gateway {
    is_down: AtomicBool,
    in_vain: AtomicU64,
    highest_attempt: AtomicU32,
}

impl Gateway {
    fn down() -> &'static Gateway {
        let gateway = kept::<Gateway>();
        gateway.is_down.store(true, Ordering::SeqCst);
        gateway
    }

    fn comes_back(&self) {
        self.is_down.store(false, Ordering::SeqCst);
    }

    fn calls_in_vain(&self) -> u64 {
        self.in_vain.load(Ordering::SeqCst)
    }

    fn call<P>(&self, job: &Job<P>) -> Result<(), Failure> {
        let highest = &self.highest_attempt;
        highest.fetch_max(job.attempt(), Ordering::SeqCst);
        if self.is_down.load(Ordering::SeqCst) {
            self.in_vain.fetch_add(1, Ordering::SeqCst);
            return Err(Failure::outage("the gateway is down"));
        }
        Ok(())
    }

    fn handler(&'static self) -> impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync {
        move |job: &Job<Order>| self.call(job)
    }
}

fn breaker(db: &Database, name: &str) -> Option<Breaker> {
    let all = db.admin().breakers().unwrap();
    all.into_iter().find(|breaker| breaker.name == name)
}

/// Returns the state of the breaker of the queue `orders`.
fn state(db: &Database) -> BreakerState {
    breaker(db, "queue:orders").expect("the breaker").state
}

/// Waits until a breaker is in this state.
#[track_caller]
fn is(db: &Database, name: &str, state: BreakerState) -> Breaker {
    reaches(db, name, state.as_str(), |breaker| breaker.state == state)
}

#[track_caller]
fn reaches(db: &Database, name: &str, what: &str, enough: impl Fn(&Breaker) -> bool) -> Breaker {
    wait_until(what, SOON, || {
        breaker(db, name).is_some_and(|breaker| enough(&breaker))
    });
    breaker(db, name).expect("it was there")
}

/// Makes the next probe due.
fn waited(client: &mut Client) {
    client
        .sql("UPDATE redrive.breakers SET probe_at = clock_timestamp() - interval '1 second' WHERE state <> 'closed'; \
             NOTIFY redrive_breaker");
}
