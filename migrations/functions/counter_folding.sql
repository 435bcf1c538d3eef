-- Purpose: Folding counters into totals.

-- Turns tallies into rows of `metric_values`. Names get slots first come, first served: the tallies are in the order in which
-- they were first counted. Names without a slot become `__other__`. Whoever may enqueue may leave out a bucket or a count,
-- which must not stop the others.
CREATE OR REPLACE FUNCTION redrive.place_metric_tallies(tallies redrive.metric_values[])
    RETURNS SETOF redrive.metric_values
    LANGUAGE sql STABLE
    -- The planner expects ten tallies, and would look through all slots for each of thousands.
    SET enable_nestloop = off
AS $$
    WITH named AS (
        SELECT x.label, x.queue, x.name, min(c.place) AS place
        FROM unnest(tallies) WITH ORDINALITY AS c (key, queue, label, cause, bucket, value, sum, last_at, place)
        JOIN redrive.counter_keys w ON w.key = c.key
        CROSS JOIN LATERAL (VALUES ('queue', '', c.queue), (w.labels[1], c.queue, c.label)) AS x (label, queue, name)
        WHERE x.label IN ('queue', 'kind', 'error_class', 'source') AND x.name <> '__other__'
        GROUP BY 1, 2, 3
    ),
    new AS (
        SELECT n.label, n.queue, n.name,
               row_number() OVER (PARTITION BY n.label, n.queue ORDER BY n.place)
               + (SELECT count(*) FROM redrive.metric_slots s WHERE s.label = n.label AND s.queue = n.queue) AS place
        FROM named n
        WHERE NOT EXISTS (
            SELECT FROM redrive.metric_slots s WHERE s.label = n.label AND s.queue = n.queue AND s.name = n.name)
    ),
    slots AS MATERIALIZED (
        SELECT s.label, s.queue, s.name FROM redrive.metric_slots s
        UNION ALL
        SELECT n.label, n.queue, n.name FROM new n WHERE n.place <= CASE n.label WHEN 'queue' THEN 100 ELSE 20 END
    ),
    queued AS (
        SELECT c.key, coalesce(s.name, '__other__') AS queue, c.label, c.cause, c.value, c.sum, c.last_at,
               least(greatest(c.bucket, 0), coalesce(cardinality(w.bounds), 0))::smallint AS bucket,
               CASE WHEN w.labels[1] IN ('kind', 'error_class', 'source') THEN w.labels[1] END AS slotted
        FROM unnest(tallies) c
        JOIN redrive.counter_keys w ON w.key = c.key
        LEFT JOIN slots s ON s.label = 'queue' AND s.queue = '' AND s.name = c.queue
    )
    -- A queue without a slot names nothing, and neither does one that is called `__other__`.
    SELECT q.key, q.queue,
           CASE WHEN q.slotted IS NULL THEN coalesce(q.label, '') ELSE coalesce(s.name, '__other__') END,
           coalesce(q.cause, ''), q.bucket, coalesce(sum(q.value), 0)::bigint, coalesce(sum(q.sum), 0), max(q.last_at)
    FROM queued q
    LEFT JOIN slots s ON s.label = q.slotted AND s.queue = nullif(q.queue, '__other__') AND s.name = q.label
    GROUP BY 1, 2, 3, 4, 5
$$;

-- Folds up to `max_rows` delta rows into the totals: the oldest of the first million, so that names get their slots in the
-- order in which they were counted, however many calls it takes. A row lock lets one caller through. It turns the ring when a child has grown
-- to `segment_bytes`, and truncates drained children. Returns the number of folded rows. SECURITY DEFINER, because only
-- the owner may TRUNCATE.
CREATE OR REPLACE FUNCTION redrive.fold_metrics(max_rows integer DEFAULT 50000, segment_bytes bigint DEFAULT 1048576)
    RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET lock_timeout = '50ms'
    SET enable_seqscan = on
AS $$
DECLARE
    here     smallint;
    tallies  redrive.metric_values[];
    folded   bigint;
    heap     regclass;
    is_full  boolean;
    is_clean boolean;
BEGIN
    PERFORM redrive.require_read_committed('fold_metrics');
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'fold_metrics' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    WITH oldest AS MATERIALIZED (
        SELECT n.segment, n.ctid
        -- Without a limit, a fold of a long backlog would end by the timeout of a worker, however few rows it takes.
        FROM (SELECT d.segment, d.ctid, d.at FROM redrive.metric_deltas d LIMIT 1000000) n
        ORDER BY n.at
        LIMIT max_rows
    ),
    gone AS (
        DELETE FROM redrive.metric_deltas d USING oldest o
        WHERE d.segment = o.segment AND d.ctid = o.ctid
        RETURNING d.at, d.queue, d.keys, d.labels, d.causes, d.buckets, d.counts, d.sums
    ),
    counted AS (
        SELECT (u.key, g.queue, u.label, u.cause, u.bucket, sum(u.count), sum(u.sum), max(g.at))::redrive.metric_values AS tally,
               min(g.at) AS first_at
        FROM gone g
        CROSS JOIN LATERAL unnest(g.keys, g.labels, g.causes, g.buckets, g.counts, g.sums)
            AS u (key, label, cause, bucket, count, sum)
        GROUP BY u.key, g.queue, u.label, u.cause, u.bucket
    )
    SELECT (SELECT count(*) FROM gone), array_agg(c.tally ORDER BY c.first_at, c.tally) INTO folded, tallies FROM counted c;
    IF folded > 0 THEN
        WITH placed AS MATERIALIZED (
            SELECT p.* FROM redrive.place_metric_tallies(tallies) p
        ),
        named AS (
            INSERT INTO redrive.metric_slots (label, queue, name)
            SELECT DISTINCT x.* FROM placed p
            JOIN redrive.counter_keys w ON w.key = p.key
            CROSS JOIN LATERAL (VALUES ('queue', '', p.queue), (w.labels[1], p.queue, p.label)) AS x (label, queue, name)
            WHERE x.label IN ('queue', 'kind', 'error_class', 'source') AND x.name <> '__other__'
            ON CONFLICT (label, queue, name) DO NOTHING
        )
        INSERT INTO redrive.metric_values AS v (key, queue, label, cause, bucket, value, sum, last_at)
        SELECT p.* FROM placed p
        ON CONFLICT (key, queue, label, cause, bucket) DO UPDATE
        SET value = v.value + excluded.value, sum = v.sum + excluded.sum,
            last_at = greatest(v.last_at, excluded.last_at);
    END IF;

    -- A session with an uncommitted write holds its child.
    SELECT p.last_value INTO here FROM redrive.metric_ring_position p;
    is_full := pg_relation_size(format('redrive.metric_deltas_%s', here)::regclass) >= segment_bytes;
    FOR step IN 1..2 LOOP
        heap := format('redrive.metric_deltas_%s', (here + step) % 3);
        is_clean := pg_relation_size(heap) = 0 OR redrive.truncate_drained(heap);
        IF is_full AND is_clean THEN
            PERFORM setval('redrive.metric_ring_position', (here + step) % 3);
            is_full := false;
        END IF;
    END LOOP;
    RETURN folded;
END
$$;
