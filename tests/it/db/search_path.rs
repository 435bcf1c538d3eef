//! The search path: no statement of a worker calls a function that another role created, and a
//! handler's transaction keeps the path of the user.

use redrive_tests::prelude::*;

/// Overloads that fit the calls of the library better than the functions of the server, which take
/// any type.
const HOSTILE: &str = "
    GRANT CREATE ON SCHEMA public TO PUBLIC;
    GRANT USAGE ON SCHEMA redrive TO PUBLIC;
    CREATE SEQUENCE public.calls;
    GRANT ALL ON SEQUENCE public.calls TO PUBLIC;
    DO $$
    DECLARE
        call text;
    BEGIN
        FOREACH call IN ARRAY '{
            pg_column_size(json) RETURNS integer,
            pg_column_size(text) RETURNS integer,
            pg_column_size(json[]) RETURNS integer,
            cardinality(bigint[]) RETURNS integer,
            cardinality(json[]) RETURNS integer,
            unnest(bigint[]) RETURNS SETOF bigint,
            unnest(text[]) RETURNS SETOF text,
            jsonb_build_array(jsonb) RETURNS jsonb,
            to_jsonb(text) RETURNS jsonb,
            num_nulls(text) RETURNS integer}'::text[]
        LOOP
            EXECUTE format('CREATE FUNCTION public.%s LANGUAGE plpgsql VOLATILE '
                'AS ''BEGIN PERFORM nextval(''''public.calls''''); RETURN %s; END''',
                call, CASE WHEN call LIKE '%SETOF%' THEN '' ELSE 'NULL' END);
        END LOOP;
    END
    $$";

fn calls(client: &mut Client) -> i64 {
    let asked = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.calls";
    client.ask(asked, &[])
}

/// A worker that runs jobs to every outcome.
fn busy(queue: &Queue) -> Worker {
    let order = |job: &Job<Order>| match (job.payload().number, job.attempt()) {
        (1, 1) => Err(Failure::retry("again")),
        (2, _) => Err(Failure::reject("no such order").detail("x".repeat(5000))),
        _ => Ok(()),
    };
    let worker = lively(queue).slots(2).handle(order);
    let worker = worker.handle(|_: &Job<Finish>, _: &mut Transaction<'_>| Ok(()));
    worker.started()
}

#[test]
fn a_worker_calls_no_function_of_another_role() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql(HOSTILE);
    client.sql("SELECT pg_column_size('{}'::json)");
    assert_eq!(calls(&mut client), 1, "the overload is the better match");

    let queue = test.queue("orders");
    let worker = busy(&queue);
    let before = calls(&mut client);
    let script = "SET search_path = pg_catalog;
                  SELECT redrive.enqueue('orders', 'order', jsonb_build_object('number', n))
                  FROM generate_series(1, 5) n;
                  SELECT redrive.enqueue('orders', 'order', '{\"number\": 9}', unique_key => 'nine');
                  SELECT redrive.enqueue('orders', 'finish', '{}')";
    client.sql(script);
    client.reaches("live_jobs", 0);
    client.reaches("letter_deltas", 0);
    stop(worker);
    assert_eq!(calls(&mut client), before);
}

#[test]
fn a_handlers_transaction_uses_the_search_path_of_the_user() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql("CREATE SCHEMA shop; CREATE TABLE shop.effects (number bigint, path text)");
    test.sets("search_path = shop");
    let queue = test.queue("orders");
    let handler = |_: &Job<Finish>, tx: &mut Transaction<'_>| -> Result<(), Failure> {
        let effect = "INSERT INTO effects VALUES (1, current_setting('search_path'))";
        tx.execute(effect, &[])?;
        Ok(())
    };
    put(&queue, NewJob::new(&Finish {}).unwrap().unique("one"));
    finish(&queue, worker(&queue).handle(handler).started());
    let effects = "SELECT path FROM shop.effects";
    assert_eq!(client.column::<String>(effects, &[]), ["shop"]);
}
