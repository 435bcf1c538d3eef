//! A held xmin horizon: no statement slows down with the dead rows that vacuum cannot remove.

use redrive_tests::prelude::*;

/// Transactions that leave dead rows behind.
const LETTER_DELTAS: [&str; 2] = [
    "INSERT INTO redrive.letter_deltas (group_id) SELECT n FROM generate_series(1, 100000) n",
    "DELETE FROM redrive.letter_deltas",
];
const LEASES: [&str; 2] = [
    "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at)
     SELECT gen_random_uuid(), '00000000-0000-0000-0000-000000000001', 'orders',
            ARRAY[n], '{order}', ARRAY['{}'::json], ARRAY[now()]
     FROM generate_series(1, 30000::bigint) n",
    "DELETE FROM redrive.leases WHERE worker_id::text LIKE '00000000%'",
];

fn churn(client: &mut Client, transactions: [&str; 2]) {
    for transaction in transactions {
        client.sql(transaction);
    }
}

/// Makes the snapshot that is held now the one of the last turn.
const HELD_BEFORE: &str = "UPDATE redrive.compactions SET kept_xid = (
    SELECT h.xid FROM redrive.horizon_holders() h ORDER BY age(h.xid) DESC LIMIT 1)";

/// Compacts tables until none is due. Returns their names.
fn compact(client: &mut Client) -> Vec<String> {
    let mut compacted = Vec::new();
    loop {
        match client.ask(statement("compact"), &[]) {
            Some(table) => compacted.push(table),
            None => return compacted,
        }
    }
}

#[test]
fn a_worker_compacts_what_is_full_of_dead_rows() {
    let test = TestDatabase::migrated();
    let (mut client, mut holder) = (test.client(), test.client());
    let horizon = snapshot(&mut holder);
    client.sql(
        "UPDATE redrive.compactions SET min_bytes = 8192 WHERE relation = 'redrive.letter_deltas'",
    );
    churn(&mut client, LETTER_DELTAS);
    let worker = lively(&test.queue("orders")).runs(|_: &Job<Order>| Ok(()));
    wait_until("the worker to compact", SOON, || {
        let size = "SELECT redrive.table_bytes('redrive.letter_deltas') = 0";
        client.ask(size, &[])
    });
    stop(worker);
    horizon.commit().unwrap();
}

#[test]
fn leased_jobs_survive_the_compaction_of_their_leases() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut holder) = (test.client(), test.client());
    let horizon = snapshot(&mut holder);
    let (gate, worker, _) = running(&queue);
    churn(&mut client, LEASES);
    let rows = "SELECT array_agg(l::text) FROM redrive.leases l";
    let before: Vec<String> = client.ask(rows, &[]);
    client.sql(HELD_BEFORE);
    let is_rewritten = "SELECT redrive.table_bytes('redrive.leases') < 100000";
    wait_until("leases to be compacted", SOON, || {
        compact(&mut client);
        client.ask(is_rewritten, &[])
    });
    assert_eq!(client.ask::<Vec<String>>(rows, &[]), before);
    assert!(!queue.is_drained().unwrap());
    gate.open();
    done(&worker, 1);
    assert_eq!(stop(worker).stats.lost, 0);
    assert!(queue.is_drained().unwrap());
    horizon.commit().unwrap();
}

#[test]
fn small_leases_are_left_to_vacuum_unless_a_snapshot_is_held() {
    let test = TestDatabase::migrated();
    let (mut client, mut holder) = (test.client(), test.client());
    client.sql("ALTER TABLE redrive.leases SET (autovacuum_enabled = off)");
    churn(&mut client, LEASES);
    let mut next_turn = |set: &str| {
        let due = format!("UPDATE redrive.compactions SET retry_at = '-infinity'{set}");
        client.sql(&due);
        compact(&mut client)
    };
    assert_eq!(next_turn(""), [""; 0]);
    assert_eq!(next_turn(""), [""; 0]);
    let horizon = snapshot(&mut holder);
    // Another transaction was the oldest at the last turn.
    assert_eq!(next_turn(", kept_xid = '3'"), [""; 0]);
    assert_eq!(next_turn(""), ["redrive.leases"]);
    horizon.commit().unwrap();
}

#[test]
fn a_compaction_gives_up_while_a_transaction_keeps_the_table() {
    let test = TestDatabase::migrated();
    let (mut client, mut reader) = (test.client(), test.client());
    churn(&mut client, LETTER_DELTAS);
    let mut reading = reader.transaction().unwrap();
    reading.sql("SELECT FROM redrive.letter_deltas");
    assert_eq!(compact(&mut client), [""; 0]);
    let waits = "SELECT retry_at > clock_timestamp() FROM redrive.compactions WHERE relation = 'redrive.letter_deltas'";
    assert!(client.ask::<bool>(waits, &[]));
    reading.commit().unwrap();
    client.sql("UPDATE redrive.compactions SET retry_at = '-infinity'");
    assert_eq!(compact(&mut client), ["redrive.letter_deltas"]);
}

#[test]
fn a_table_with_many_live_rows_is_left_to_vacuum() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql(
        "INSERT INTO redrive.letter_deltas (group_id) SELECT n FROM generate_series(1, 20000) n; \
             UPDATE redrive.compactions SET max_rows = 19999",
    );
    assert_eq!(compact(&mut client), [""; 0]);
    assert_eq!(client.count("letter_deltas"), 20_000);
}
