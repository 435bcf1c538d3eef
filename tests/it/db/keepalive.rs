//! Keepalives: the server notices within a minute that the host of a worker has vanished.

use redrive_tests::prelude::*;

/// Records the settings of each session that writes to a table.
const RECORDED: &str = "
    CREATE TABLE public.recorded (origin text, settings text);
    CREATE FUNCTION public.record() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.recorded VALUES (TG_TABLE_NAME || ' ' || TG_OP, public.settings());
        RETURN NULL;
    END $$;
    CREATE FUNCTION public.settings() RETURNS text LANGUAGE sql AS $$
        SELECT string_agg(current_setting(name), ' ' ORDER BY place)
        FROM unnest('{tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,tcp_user_timeout}'::text[])
             WITH ORDINALITY AS s (name, place)
    $$;
    CREATE TRIGGER recorded AFTER INSERT OR DELETE ON redrive.leases
        FOR EACH STATEMENT EXECUTE FUNCTION public.record();
    CREATE TRIGGER recorded AFTER INSERT OR UPDATE ON redrive.workers
        FOR EACH STATEMENT EXECUTE FUNCTION public.record();
    CREATE TRIGGER recorded AFTER DELETE ON redrive.letter_deltas
        FOR EACH STATEMENT EXECUTE FUNCTION public.record();";

const KEPT: &str = "30 10 3 60000";

fn settings(client: &mut Client, origin: &str) -> Vec<String> {
    let asked = "SELECT DISTINCT settings FROM public.recorded WHERE origin = $1";
    client.column(asked, &[&origin])
}

#[test]
fn every_session_of_a_worker_has_server_side_keepalives() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql(RECORDED);
    let queue = test.queue("orders");
    let builder = lively(&queue).handle(|_: &Job<Finish>, tx: &mut Transaction<'_>| {
        tx.batch_execute("INSERT INTO public.recorded VALUES ('handler', public.settings())")?;
        Ok(())
    });
    let worker = builder.runs(|_: &Job<Order>| Err(Failure::reject("no such order")));
    queue.enqueue(&Order { number: 1 }).unwrap();
    put(&queue, NewJob::new(&Finish {}).unwrap());
    drained(&queue);
    wait_until("the chores to fold", SOON, || {
        let folded = "SELECT count(*) FROM public.recorded WHERE origin = 'letter_deltas DELETE'";
        scalar(&mut client, folded) > 0
    });
    stop(worker);
    for origin in [
        "leases INSERT",
        "leases DELETE",
        "workers INSERT",
        "letter_deltas DELETE",
        "handler",
    ] {
        assert_eq!(settings(&mut client, origin), [KEPT], "{origin}");
    }
}
