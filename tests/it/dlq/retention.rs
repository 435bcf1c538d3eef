//! Retention: which letters are archived or deleted, and when.

mod archive;
mod rules;

use redrive_tests::prelude::*;

/// Makes letters of a queue with this state and age.
fn make(client: &mut Client, queue: &str, state: LetterState, days: i32, count: i32) {
    client.change("INSERT INTO redrive.dead_letters \
             (queue, kind, cause, error_class, error_message, payload, enqueued_at, state, discard_reason, died_at, changed_at) \
             SELECT $1::text, 'k', 'rejected', 'c', 'm', '{}', t.at, $2::text, CASE $2::text WHEN 'discarded' THEN 'why' END, t.at, t.at \
             FROM generate_series(1, $4) n, (SELECT now() - $3::integer * interval '1 day' AS at) t", &[&queue, &state.as_str(), &days, &count]);
}

/// Returns the queues and states of the letters, and how many there are.
fn left(client: &mut Client) -> Vec<String> {
    let asked = "SELECT concat_ws(' ', queue, state, count(*)) FROM redrive.dead_letters
                 GROUP BY queue, state ORDER BY 1";
    client.column(asked, &[])
}
