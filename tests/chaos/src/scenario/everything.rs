//! Scenarios in which every part is at work.

use std::time::Duration;

use super::conditions::{have_ended, is_any_claimed_times};
use super::{add_workers, enqueuer};
use crate::client::Client;
use crate::environment::Environment;
use crate::fault::Fault;
use crate::processes::ProcessSpec;
use crate::role::{ClientFlaw, JobMix, MAX_ATTEMPTS, Plan};

/// Jobs of each plan end, rejected ones are redriven, and a delayed one is cancelled. Afterwards
/// an enqueuer and an operator work at random.
pub(super) fn work(env: &mut Environment) {
    let plans = [
        Plan::Done,
        Plan::Retry,
        Plan::Panic,
        Plan::Reject,
        Plan::Reject,
        Plan::Snooze,
        Plan::Outage,
    ];
    let mut client = Client::open(env, "client");
    add_workers(env, 2);
    let delayed = client.enqueue_delayed();
    let mut ids = client.enqueue(&plans);
    ids.extend(client.enqueue_transactional(&plans));
    // Retries without a limit are a violation already.
    let condition = format!(
        "{} OR {}",
        have_ended(&ids),
        is_any_claimed_times(&ids, 2 * MAX_ATTEMPTS)
    );
    env.wait_for_sql("the jobs end", &condition);
    client.redrive(4);
    env.wait_for_sql("the redriven jobs end", &condition);
    client.cancel(delayed);
    env.add(enqueuer(120, JobMix::Tame, ClientFlaw::None));
    env.add(ProcessSpec::operator());
    env.pass(Duration::from_secs(3));
}

/// One fault of most kinds, behind a pooler.
pub(super) fn pooler(env: &mut Environment) {
    add_workers(env, 3);
    env.add(enqueuer(80, JobMix::Mixed, ClientFlaw::None));
    env.add(ProcessSpec::operator());
    let (ms, at_once) = (Duration::from_millis, Duration::ZERO);
    for (target, fault, duration) in [
        (0, Fault::Kill, at_once),
        (1, Fault::LoseAnswers, at_once),
        (2, Fault::Cut, at_once),
        (3, Fault::LoseAnswers, at_once),
        (1, Fault::Terminate, at_once),
        (0, Fault::KillBackend, at_once),
        (0, Fault::Silence, ms(1500)),
        (0, Fault::KillClient, at_once),
        (0, Fault::Crash, ms(150)),
    ] {
        env.pass(ms(900));
        env.inject(fault, duration, target);
    }
    env.pass(Duration::from_secs(1));
}
