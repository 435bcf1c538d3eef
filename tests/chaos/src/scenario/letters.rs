//! Scenarios about dead letters: two operators at one letter, a validation, and a prune.

use std::thread;
use std::time::Duration;

use super::add_workers;
use super::conditions::letters_are;
use crate::client::Client;
use crate::environment::Environment;
use crate::mutant::FunctionPatch;
use crate::role::Plan;

/// Makes a redrive wait for an advisory lock after it chose its letters.
pub(super) const BARRIER: FunctionPatch = FunctionPatch {
    function: "redrive.send_back",
    changes: &[(
        "FOR UPDATE SKIP LOCKED",
        "AND (SELECT true FROM pg_catalog.pg_advisory_xact_lock_shared(
                  hashtext(current_setting('application_name'))))
         FOR UPDATE SKIP LOCKED",
    )],
};

/// Two operators redrive the same letter at once. The second one continues after the letter of the
/// first one has recovered.
pub(super) fn operators(env: &mut Environment) {
    let operators = ["first-operator", "second-operator"];
    let mut client = Client::open(env, "client");
    let [first, second] = operators.map(|name| Client::open(env, name));
    add_workers(env, 1);
    client.enqueue(&[Plan::Reject]);
    env.wait_for_sql("a letter is open", &letters_are(1, "open"));
    let mut barrier = env.client();
    for name in operators {
        barrier
            .execute("SELECT pg_advisory_lock(hashtext($1))", &[&name])
            .expect("lock the barrier");
    }
    thread::scope(|scope| {
        let first = scope.spawn(|| first.redrive(1));
        env.wait_for_sql("the first operator waits", &is_waiting(operators[0]));
        let second = scope.spawn(|| second.redrive(1));
        let mut observer = env.client();
        let query = format!("SELECT {}", is_waiting(operators[1]));
        // Correct code skips the locked letter and never gets to the barrier.
        env.wait_for("the second operator waits or has finished", |_| {
            second.is_finished()
                || observer
                    .query_one(&query, &[])
                    .expect("ask the server")
                    .get(0)
        });
        for (name, operator) in [(operators[0], first), (operators[1], second)] {
            barrier
                .execute("SELECT pg_advisory_unlock(hashtext($1))", &[&name])
                .expect("unlock the barrier");
            operator.join().expect("redrive");
            env.wait_for_sql("the letter recovers", &letters_are(1, "recovered"));
        }
    });
}

fn is_waiting(name: &str) -> String {
    format!(
        "EXISTS (SELECT FROM pg_stat_activity
                 WHERE application_name = '{name}' AND wait_event = 'advisory')"
    )
}

/// Three letters are open, of which one fails the validation.
pub(super) fn validated(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 1);
    client.enqueue(&[Plan::Reject; 3]);
    env.wait_for_sql("three letters are open", &letters_are(3, "open"));
    client.redrive_valid();
    env.wait_for_sql("the sent letters recover", &letters_are(0, "redriving"));
}

/// Two open letters and a recovered one are an hour old when letters older than a minute are
/// pruned.
pub(super) fn prune(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 1);
    client.enqueue(&[Plan::Reject; 3]);
    env.wait_for_sql("three letters are open", &letters_are(3, "open"));
    client.redrive(1);
    env.wait_for_sql("one letter recovers", &letters_are(1, "recovered"));
    env.age(
        "UPDATE redrive.dead_letters
         SET died_at = died_at - interval '1 hour', changed_at = changed_at - interval '1 hour'",
    );
    client.prune(Duration::from_mins(1));
}
