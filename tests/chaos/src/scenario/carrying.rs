//! A scenario about what jobs carry: histories, headers, priorities and refunds.

use std::time::Duration;

use super::conditions::{have_ended, letters_are};
use super::enqueueing::turn;
use crate::client::Client;
use crate::environment::Environment;
use crate::fault::Fault;
use crate::processes::ProcessSpec;
use crate::role::Plan;

/// The segments of the ring.
const SEGMENTS: usize = 8;
/// Deaths of the same error after a redrive that quarantine a letter.
const ALIKE: usize = 3;

/// The ring moves a job from a segment to another one. A job with a history and a job without one are released and reaped during an attempt, and then
/// fail or succeed. A delayed job is cancelled. A letter dies until it is quarantined; then it is
/// redriven without force.
pub(super) fn carry(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    // No segment is clean at the last turn, so that the ring moves a job.
    let mut turning = env.client();
    for _ in 0..=SEGMENTS {
        client.enqueue(&[Plan::Done]);
        turn(&mut turning, 1);
    }
    env.add(ProcessSpec {
        grace: Duration::ZERO,
        ..ProcessSpec::worker()
    });
    let ids = client.enqueue_with_header(&[Plan::RetryThenHold, Plan::HoldThenRetry]);
    let held = [(ids[0], 2), (ids[1], 1)];
    env.wait_for_held(0, &held);
    env.inject(Fault::Terminate, Duration::ZERO, 0);
    env.wait_for("the worker restarts", |env| env.processes.life(0) == 2);
    env.wait_for_held(0, &held);
    env.inject(Fault::Kill, Duration::ZERO, 0);
    env.wait_for("the worker restarts", |env| env.processes.life(0) == 3);
    env.wait_for_held(0, &held);
    env.open_all_gates();
    env.wait_for_sql("the jobs end", &have_ended(&ids));

    client.enqueue_with_header(&[Plan::RejectAlways]);
    for _ in 0..ALIKE {
        env.wait_for_sql("the letter is open", &letters_are(1, "open"));
        client.redrive(1);
    }
    env.wait_for_sql("the letter is quarantined", &letters_are(1, "quarantined"));
    client.redrive(1);

    let delayed = client.enqueue_delayed();
    client.cancel(delayed);
}
