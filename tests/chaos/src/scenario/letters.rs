//! Scenarios about dead letters: two operators at one letter, and how long they are kept.

use std::thread;
use std::time::Duration;

use redrive::JobId;
use redrive::dlq::LetterFilter;

use super::add_workers;
use super::conditions::{array, have_recovered, letters_are};
use crate::client::Client;
use crate::db_trace::ask;
use crate::environment::Environment;
use crate::mutant::Patch;
use crate::role::operator::letters_of;
use crate::role::{Plan, QUEUE, standing};

/// Makes a redrive wait for an advisory lock after it chose its letters.
pub(super) const BARRIER: Patch = Patch {
    place: "send_back",
    from: "FOR UPDATE SKIP LOCKED",
    to: "AND (SELECT true FROM pg_catalog.pg_advisory_xact_lock_shared(
                  hashtext(current_setting('application_name'))))
         FOR UPDATE SKIP LOCKED",
};

/// Opens letters of rejected jobs. Returns their ids.
fn open_letters(env: &mut Environment, client: &mut Client, count: usize) -> Vec<i64> {
    add_workers(env, 1);
    let ids = client.enqueue(&vec![Plan::Reject; count]);
    env.wait_for_sql("the letters are open", &letters_are(count, "open"));
    ids
}

/// Two operators redrive the same letter at once. The second one continues after the letter of the
/// first one has recovered.
pub(super) fn operators(env: &mut Environment) {
    let is_waiting = |name: &str| {
        format!(
            "EXISTS (SELECT FROM pg_stat_activity
                     WHERE application_name = '{name}' AND wait_event = 'advisory')"
        )
    };
    let operators = ["first-operator", "second-operator"];
    let mut client = Client::open(env, "client");
    let [first, second] = operators.map(|name| Client::open(env, name));
    open_letters(env, &mut client, 1);
    let mut barrier = env.client();
    let mut lock = |call: &str, name: &str| {
        let query = format!("SELECT {call}(hashtext($1))");
        barrier.execute(&query, &[&name]).expect("use the barrier");
    };
    for name in operators {
        lock("pg_advisory_lock", name);
    }
    thread::scope(|scope| {
        let first = scope.spawn(|| first.redrive(1));
        env.wait_for_sql("the first operator waits", &is_waiting(operators[0]));
        let second = scope.spawn(|| second.redrive(1));
        let mut observer = env.client();
        let query = format!("SELECT {}", is_waiting(operators[1]));
        // Correct code skips the locked letter and never gets to the barrier.
        env.wait_for("the second operator waits or has finished", |_| {
            second.is_finished() || ask(&mut observer, &query)
        });
        for (name, operator) in [(operators[0], first), (operators[1], second)] {
            lock("pg_advisory_unlock", name);
            operator.join().expect("redrive");
            env.wait_for_sql("the letter recovers", &letters_are(1, "recovered"));
        }
    });
}

/// Makes letters older by an hour.
fn age(env: &Environment, ids: &[i64]) {
    env.age(&format!(
        "UPDATE redrive.dead_letters
         SET died_at = died_at - interval '1 hour', changed_at = changed_at - interval '1 hour'
         WHERE id = ANY ({})",
        array(ids)
    ));
}

/// Letters are pruned, or archived and restored, and those that are not old enough or open stay. Then a policy redrives
/// them.
pub(super) fn keep(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    let only = |id: i64| LetterFilter::new().ids([JobId::new(id)]);
    let ids = open_letters(env, &mut client, 5);
    client.ops.discard(&only(ids[0]));
    age(env, &ids[..2]);
    client.ops.prune(Duration::from_mins(1));
    client.ops.discard(&only(ids[2]));
    age(env, &ids[1..3]);
    client.ops.apply_retention();
    client.ops.restore(&letters_of(QUEUE));
    standing::set_policy(client.database(), &client.ops.operator).expect("set a policy");
    env.wait_for_sql("the redriven jobs succeed", &have_recovered(&ids[1..]));
}
