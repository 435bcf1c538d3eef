//! The second connection of a worker claims jobs of other groups while the first one claims.

use super::*;

/// Records which sessions claim.
fn watch_claims(client: &mut Client) {
    client.sql(
        "CREATE SCHEMA watch;
             CREATE TABLE watch.claims (pid integer);
             CREATE FUNCTION watch.note() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 INSERT INTO watch.claims VALUES (pg_backend_pid());
                 RETURN NULL;
             END $$;
             CREATE TRIGGER watch AFTER INSERT ON redrive.leases
                 FOR EACH STATEMENT EXECUTE FUNCTION watch.note()",
    );
}

#[test]
fn two_connections_claim_many_groups_and_each_group_keeps_its_order() {
    let (test, queue) = with_policy(CONTINUE);
    let mut client = test.client();
    watch_claims(&mut client);
    let finished = Finished::default();
    let worker = worker(&queue).slots(16).runs(finished.noting());
    let names: Vec<String> = (0..1000).map(|group| format!("g{group:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rounds = 0;
    wait_until("a second connection to claim", SOON, || {
        enqueue_rounds(&queue, &names, 10);
        rounds += 1;
        drained(&queue);
        scalar(&mut client, "SELECT count(DISTINCT pid) FROM watch.claims") == 2
    });
    stop(worker);
    let expected: Vec<i64> = (0..rounds).flat_map(|_| 1..=10).collect();
    for name in names {
        assert_eq!(finished.of(name), expected, "{name}");
    }
    no_slot_left(&test);
}
