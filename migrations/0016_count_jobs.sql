-- Purpose: counters and histograms of everything that happens to jobs and letters: written in the
--          statement that does it, folded into small totals, and audited against the rows.
-- Locks: jobs, jobs_delayed, leases and dead_letters against writers, while what is there is counted.
-- Safe under running workers of the previous version: no, they move jobs uncounted.
-- breaking: yes

-- What is counted, by a short word: what it is called when it is published, the labels after the
-- queue, and the bounds of a histogram (inclusive upper ones, without the last, infinite one).
-- The catalogue in the library is the truth; a test compares the two.
CREATE TABLE redrive.metric_words (
    word   text             COLLATE "C" NOT NULL PRIMARY KEY,
    metric text             COLLATE "C",
    labels text[]           COLLATE "C" NOT NULL DEFAULT '{}',
    bounds double precision[]
);

COMMENT ON COLUMN redrive.metric_words.metric IS 'NULL: it is only a part of redrive_queue_live_jobs.';

INSERT INTO redrive.metric_words (word, metric, labels) VALUES
    ('enqueued', 'redrive_jobs_enqueued_total', '{}'),
    ('claimed', 'redrive_jobs_claimed_total', '{}'),
    ('succeeded', 'redrive_jobs_succeeded_total', '{kind}'),
    ('failed', 'redrive_job_attempts_failed_total', '{kind,cause}'),
    ('retried', 'redrive_jobs_retried_total', '{}'),
    ('snoozed', 'redrive_jobs_snoozed_total', '{}'),
    ('released', 'redrive_jobs_released_total', '{}'),
    ('dead', 'redrive_jobs_dead_lettered_total', '{reason}'),
    ('dead_kind', 'redrive_jobs_dead_lettered_by_kind_total', '{kind}'),
    ('dead_class', 'redrive_dlq_errors_total', '{error_class}'),
    ('dead_again', 'redrive_jobs_dead_lettered_again_total', '{}'),
    ('redriven', 'redrive_dlq_redriven_total', '{}'),
    ('recovered', 'redrive_dlq_recovered_total', '{}'),
    ('discarded', 'redrive_dlq_discarded_total', '{}'),
    ('pruned', 'redrive_dlq_pruned_total', '{}'),
    ('leases_lost', 'redrive_leases_lost_total', '{}'),
    ('refused', 'redrive_results_refused_total', '{}'),
    ('duplicates', 'redrive_enqueue_duplicates_total', '{}'),
    ('letters', 'redrive_dlq_letters', '{state}'),
    -- Live jobs are enqueued + found + returned - succeeded - ended.
    ('found', NULL, '{}'),
    ('returned', NULL, '{}'),
    ('ended', NULL, '{}');
INSERT INTO redrive.metric_words (word, metric, labels, bounds) VALUES
    ('wait', 'redrive_job_queue_wait_seconds', '{}',
     '{0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10,30,60,300,900,3600}'),
    ('run', 'redrive_job_run_seconds', '{outcome}',
     '{0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10,30,60,300,900,3600}'),
    ('end_to_end', 'redrive_job_end_to_end_seconds', '{}',
     '{0.1,0.25,0.5,1,2.5,5,10,30,60,300,900,3600,21600,86400}'),
    ('attempts_done', 'redrive_job_attempts_to_success', '{}', '{1,2,3,4,5,7,10,15,20,25}'),
    ('attempts_dead', 'redrive_job_attempts_at_dead_letter', '{}', '{1,2,3,4,5,7,10,15,20,25}'),
    ('retry_delay', 'redrive_job_retry_delay_seconds', '{}',
     '{1,2,5,10,30,60,300,900,3600,21600,86400}'),
    ('residence', 'redrive_dlq_residence_seconds', '{exit}',
     '{60,600,3600,21600,86400,259200,604800,1209600,2592000}');

-- Which child of `metric_deltas` new rows go to. One row, updated only when the ring turns.
CREATE TABLE redrive.metric_ring (
    only_row  boolean     NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
    segment   smallint    NOT NULL CHECK (segment BETWEEN 0 AND 2),
    turned_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO redrive.metric_ring (segment) VALUES (0);

-- What was counted and is not folded yet: a row for each statement and queue, inserted by that
-- statement, so that no crash can part them and a rollback takes both. Inserts never wait for one
-- another. The places of the arrays belong together; an array that has nothing to say is NULL.
-- Three children take turns, as those of `jobs` do: folded rows are deleted, and TRUNCATE gives
-- their space back, also while somebody holds the xmin horizon.
CREATE TABLE redrive.metric_deltas (
    segment  smallint    NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    began_at timestamptz,
    born_at  timestamptz,
    queue    text        COLLATE "C" NOT NULL,
    words    text[]      COLLATE "C" NOT NULL,
    labels   text[]      COLLATE "C",
    causes   text[]      COLLATE "C",
    buckets  smallint[],
    counts   bigint[]    NOT NULL,
    sums     double precision[]
) PARTITION BY LIST (segment);

COMMENT ON COLUMN redrive.metric_deltas.began_at IS 'When a handler began that settles its job itself: its run time is counted at the commit.';
COMMENT ON COLUMN redrive.metric_deltas.born_at IS 'When that job was enqueued first.';
COMMENT ON COLUMN redrive.metric_deltas.labels IS 'The label after the queue.';
COMMENT ON COLUMN redrive.metric_deltas.causes IS 'The label after that one.';
COMMENT ON COLUMN redrive.metric_deltas.buckets IS 'Of histograms: how many bounds are below what was observed.';

CREATE TABLE redrive.metric_deltas_0 PARTITION OF redrive.metric_deltas FOR VALUES IN (0);
CREATE TABLE redrive.metric_deltas_1 PARTITION OF redrive.metric_deltas FOR VALUES IN (1);
CREATE TABLE redrive.metric_deltas_2 PARTITION OF redrive.metric_deltas FOR VALUES IN (2);
DO $$
DECLARE
    each_segment smallint;
BEGIN
    FOR each_segment IN 0..2 LOOP
        EXECUTE format(
            'ALTER TABLE redrive.metric_deltas_%s SET (autovacuum_vacuum_scale_factor = 0,'
            ' autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,'
            ' autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000)',
            each_segment);
        EXECUTE format('ALTER TABLE redrive.metric_deltas_%s REPLICA IDENTITY FULL', each_segment);
    END LOOP;
END
$$;

-- The totals: a row a series.
CREATE TABLE redrive.metric_values (
    word    text             COLLATE "C" NOT NULL,
    queue   text             COLLATE "C" NOT NULL,
    label   text             COLLATE "C" NOT NULL DEFAULT '',
    cause   text             COLLATE "C" NOT NULL DEFAULT '',
    value   bigint           NOT NULL,
    counts  bigint[],
    sum     double precision NOT NULL DEFAULT 0,
    last_at timestamptz      NOT NULL,
    PRIMARY KEY (word, queue, label, cause)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

COMMENT ON COLUMN redrive.metric_values.counts IS 'Of a histogram, by bucket, not cumulative; value is their sum.';
COMMENT ON COLUMN redrive.metric_values.last_at IS 'When it was counted last.';

-- The names that are published: the first hundred queues, and of each the first twenty kinds and
-- error classes. For ever, because a counter whose name goes away has fallen.
CREATE TABLE redrive.metric_slots (
    label text COLLATE "C" NOT NULL CHECK (label IN ('queue', 'kind', 'error_class')),
    queue text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    PRIMARY KEY (label, queue, name)
);

COMMENT ON COLUMN redrive.metric_slots.queue IS 'Of a kind or an error class; empty for a queue.';

-- Names beyond the slots, which are summed under `__other__`: a bit each, so that it cannot grow.
CREATE TABLE redrive.metric_folded (
    label text        COLLATE "C" NOT NULL PRIMARY KEY,
    names bit(65536)  NOT NULL
);
INSERT INTO redrive.metric_folded (label, names)
SELECT l, repeat('0', 65536)::bit(65536) FROM unnest('{queue,kind,error_class}'::text[]) l;

COMMENT ON COLUMN redrive.metric_folded.names IS 'The bit of a name is its hash. How many there are is told by how many bits are set.';

-- What the last audit of the counters found.
CREATE TABLE redrive.metric_drift (
    queue      text        COLLATE "C" NOT NULL,
    set        text        COLLATE "C" NOT NULL CHECK (set IN ('live', 'dlq')),
    rows       bigint      NOT NULL,
    total      bigint      NOT NULL,
    drift      bigint      NOT NULL,
    audited_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, set)
);

COMMENT ON COLUMN redrive.metric_drift.drift IS 'Rows less total; when only the states of letters differ, by how much they do.';

-- A sum of what was counted: one word, one set of labels, one bucket.
CREATE TYPE redrive.metric_cell AS (
    queue    text,
    word     text,
    label    text,
    cause    text,
    bucket   smallint,
    count    bigint,
    sum      double precision,
    first_at timestamptz,
    last_at  timestamptz
);

-- Which bucket of a histogram a value belongs to: how many bounds are below it. A value on a bound
-- belongs to that bound. (width_bucket would put it over the bound.)
CREATE FUNCTION redrive.metric_bucket(bounds double precision[], observed double precision) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT count(*)::smallint FROM unnest(bounds) AS b (bound) WHERE b.bound < observed
$$;

-- Adds two arrays of counts, place by place.
CREATE FUNCTION redrive.add_counts(one bigint[], other bigint[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN other IS NULL THEN one WHEN one IS NULL THEN other ELSE (
        SELECT array_agg(coalesce(b.one, 0) + coalesce(b.other, 0) ORDER BY b.place)
        FROM unnest(one, other) WITH ORDINALITY AS b (one, other, place)) END
$$;

-- Which names get a slot when these cells are folded: the first to come, while there are slots.
CREATE FUNCTION redrive.new_metric_slots(cells redrive.metric_cell[])
    RETURNS TABLE (label text, queue text, name text)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH new_queues AS MATERIALIZED (
        SELECT n.queue
        FROM (
            SELECT c.queue, row_number() OVER (ORDER BY min(c.first_at), c.queue)
                   + (SELECT count(*) FROM redrive.metric_slots s WHERE s.label = 'queue') AS place
            FROM unnest(cells) c
            WHERE NOT EXISTS (
                SELECT FROM redrive.metric_slots s
                WHERE s.label = 'queue' AND s.queue = '' AND s.name = c.queue)
            GROUP BY c.queue
        ) n
        WHERE n.place <= 100
    ),
    named AS (
        SELECT w.labels[1] AS label,
               CASE WHEN EXISTS (SELECT FROM new_queues n WHERE n.queue = c.queue)
                        OR EXISTS (SELECT FROM redrive.metric_slots s
                                   WHERE s.label = 'queue' AND s.queue = '' AND s.name = c.queue)
                    THEN c.queue ELSE '__other__' END AS queue,
               c.label AS name, min(c.first_at) AS first_at
        FROM (
            SELECT u.queue, u.word, u.label, min(u.first_at) AS first_at
            FROM unnest(cells) u
            GROUP BY 1, 2, 3
        ) c
        JOIN redrive.metric_words w ON w.word = c.word
        WHERE w.labels[1] IN ('kind', 'error_class') AND c.label IS NOT NULL
        GROUP BY 1, 2, 3
    )
    SELECT 'queue', '', n.queue FROM new_queues n
    UNION ALL
    SELECT p.label, p.queue, p.name
    FROM (
        SELECT n.label, n.queue, n.name,
               row_number() OVER (PARTITION BY n.label, n.queue ORDER BY n.first_at, n.name)
               + (SELECT count(*) FROM redrive.metric_slots s
                  WHERE s.label = n.label AND s.queue = n.queue) AS place
        FROM named n
        WHERE NOT EXISTS (
            SELECT FROM redrive.metric_slots s
            WHERE s.label = n.label AND s.queue = n.queue AND s.name = n.name)
    ) p
    WHERE p.place <= 20
$$;

-- Cells as rows of `metric_values`: by the names that have a slot, or get one; all others are
-- `__other__`.
CREATE FUNCTION redrive.place_metric_cells(cells redrive.metric_cell[])
    RETURNS TABLE (word text, queue text, label text, cause text, value bigint, counts bigint[],
                   sum double precision, last_at timestamptz)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH slots AS MATERIALIZED (
        SELECT s.label, s.queue, s.name FROM redrive.metric_slots s
        UNION
        SELECT n.label, n.queue, n.name FROM redrive.new_metric_slots(cells) n
    ),
    queued AS (
        SELECT c.word, coalesce(s.name, '__other__') AS queue, c.label, c.cause, c.bucket, c.count, c.sum,
               c.last_at, w.bounds,
               CASE WHEN w.labels[1] IN ('kind', 'error_class') THEN w.labels[1] END AS slotted
        FROM unnest(cells) c
        JOIN redrive.metric_words w ON w.word = c.word
        LEFT JOIN slots s ON s.label = 'queue' AND s.queue = '' AND s.name = c.queue
    ),
    named AS MATERIALIZED (
        SELECT q.word, q.queue,
               CASE WHEN q.slotted IS NULL THEN coalesce(q.label, '') ELSE coalesce(s.name, '__other__') END AS label,
               coalesce(q.cause, '') AS cause, q.bucket, q.bounds, sum(q.count)::bigint AS count,
               sum(q.sum) AS sum, max(q.last_at) AS last_at
        FROM queued q
        LEFT JOIN slots s ON s.label = q.slotted AND s.queue = q.queue AND s.name = q.label
        GROUP BY 1, 2, 3, 4, 5, 6
    )
    SELECT n.word, n.queue, n.label, n.cause, n.count, NULL::bigint[], 0::double precision, n.last_at
    FROM named n
    WHERE n.bounds IS NULL
    UNION ALL
    SELECT k.word, k.queue, k.label, k.cause, sum(n.count)::bigint,
           array_agg(coalesce(n.count, 0) ORDER BY b.bucket), coalesce(sum(n.sum), 0), max(n.last_at)
    FROM (
        SELECT DISTINCT n.word, n.queue, n.label, n.cause, cardinality(n.bounds) AS last_bucket
        FROM named n
        WHERE n.bounds IS NOT NULL
    ) k
    CROSS JOIN LATERAL generate_series(0, k.last_bucket) AS b (bucket)
    LEFT JOIN named n ON n.word = k.word AND n.queue = k.queue AND n.label = k.label
        AND n.cause = k.cause AND n.bucket = b.bucket
    GROUP BY 1, 2, 3, 4
$$;

-- Folds what was counted into the totals: up to so many rows a call, one call at a time; whoever
-- comes second has nothing to do. Turns the ring when a child has grown to `segment_bytes`, and
-- truncates children that are drained. Answers how many rows were folded.
-- SECURITY DEFINER because TRUNCATE belongs to the owner and nobody else should have it.
CREATE FUNCTION redrive.fold_metrics(most integer DEFAULT 50000, segment_bytes bigint DEFAULT 1048576)
    RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '50ms'
    SET enable_seqscan = on
    SET jit = off
AS $$
DECLARE
    here     smallint;
    child    smallint;
    cells    redrive.metric_cell[];
    taken    bigint;
    folded   bigint := 0;
    occupied boolean;
    kept     redrive.metric_values[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('redrive.fold_metrics')) THEN
        RETURN 0;
    END IF;
    SELECT r.segment INTO here FROM redrive.metric_ring r;
    -- The child that rows go to comes last: in it are the newest.
    FOR step IN 1..3 LOOP
        child := (here + step) % 3;
        EXECUTE format(
            'WITH gone AS ('
            ' DELETE FROM redrive.metric_deltas_%1$s d'
            ' WHERE d.ctid = ANY (ARRAY(SELECT n.ctid FROM redrive.metric_deltas_%1$s n LIMIT $1))'
            ' RETURNING d.at, d.queue, d.words, d.labels, d.causes, d.buckets, d.counts, d.sums),'
            'cells AS ('
            ' SELECT g.queue, u.word, u.label, u.cause, u.bucket, sum(u.count)::bigint AS count,'
            '  sum(u.sum) AS sum, min(g.at) AS first_at, max(g.at) AS last_at'
            ' FROM gone g CROSS JOIN LATERAL'
            '  unnest(g.words, g.labels, g.causes, g.buckets, g.counts, g.sums)'
            '  AS u (word, label, cause, bucket, count, sum)'
            ' GROUP BY 1, 2, 3, 4, 5)'
            ' SELECT (SELECT count(*) FROM gone), array_agg(ROW(c.queue, c.word, c.label, c.cause,'
            '  c.bucket, c.count, c.sum, c.first_at, c.last_at)::redrive.metric_cell) FROM cells c',
            child)
            INTO taken, cells USING most - folded;
        folded := folded + taken;
        IF taken > 0 THEN
            PERFORM redrive.grant_metric_slots(cells);
            INSERT INTO redrive.metric_values AS v (word, queue, label, cause, value, counts, sum, last_at)
            SELECT p.word, p.queue, p.label, p.cause, p.value, p.counts, p.sum, p.last_at
            FROM redrive.place_metric_cells(cells) p
            ON CONFLICT (word, queue, label, cause) DO UPDATE
            SET value = v.value + excluded.value, counts = redrive.add_counts(v.counts, excluded.counts),
                sum = v.sum + excluded.sum, last_at = greatest(v.last_at, excluded.last_at);
        END IF;
        EXIT WHEN folded >= most;
    END LOOP;

    -- Truncate what is drained. Under the lock nobody can be writing, and every committed row is
    -- seen; somebody who has written and not ended holds the lock off.
    FOR step IN 1..2 LOOP
        child := (here + step) % 3;
        CONTINUE WHEN pg_relation_size(format('redrive.metric_deltas_%s', child)::regclass) = 0;
        BEGIN
            EXECUTE format('LOCK TABLE redrive.metric_deltas_%s IN ACCESS EXCLUSIVE MODE', child);
            EXECUTE format('SELECT EXISTS (SELECT FROM redrive.metric_deltas_%s)', child) INTO occupied;
            IF occupied THEN
                RAISE lock_not_available;
            END IF;
            EXECUTE format('TRUNCATE redrive.metric_deltas_%s', child);
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;

    IF pg_relation_size(format('redrive.metric_deltas_%s', here)::regclass) >= segment_bytes THEN
        FOR step IN 1..2 LOOP
            child := (here + step) % 3;
            IF pg_relation_size(format('redrive.metric_deltas_%s', child)::regclass) = 0 THEN
                UPDATE redrive.metric_ring SET segment = child, turned_at = clock_timestamp();
                EXIT;
            END IF;
        END LOOP;
    END IF;

    -- While somebody holds the horizon every fold leaves dead versions of the totals behind. When
    -- they are many times what lives, the totals are written anew.
    IF folded > 0 AND pg_relation_size('redrive.metric_values'::regclass) > 4 * segment_bytes
        AND pg_relation_size('redrive.metric_values'::regclass)
            > 8 * (SELECT coalesce(sum(pg_column_size(v)), 0) FROM redrive.metric_values v)
    THEN
        BEGIN
            LOCK TABLE redrive.metric_values IN ACCESS EXCLUSIVE MODE;
            kept := ARRAY(SELECT v FROM redrive.metric_values v);
            TRUNCATE redrive.metric_values;
            INSERT INTO redrive.metric_values SELECT (k).* FROM unnest(kept) k;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END IF;
    RETURN folded;
END
$$;

-- Gives slots to new names, and takes note of those that get none.
CREATE FUNCTION redrive.grant_metric_slots(cells redrive.metric_cell[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    over  record;
    known bit(65536);
    place integer;
BEGIN
    INSERT INTO redrive.metric_slots (label, queue, name)
    SELECT n.label, n.queue, n.name FROM redrive.new_metric_slots(cells) n;
    FOR over IN
        SELECT n.label, array_agg(hashtext(n.queue || E'\x1f' || n.name) & 65535) AS places
        FROM (
            SELECT DISTINCT 'queue' AS label, '' AS queue, c.queue AS name FROM unnest(cells) c
            UNION
            SELECT w.labels[1], c.queue, c.label
            FROM unnest(cells) c
            JOIN redrive.metric_words w ON w.word = c.word
            WHERE w.labels[1] IN ('kind', 'error_class') AND c.label IS NOT NULL
        ) n
        WHERE NOT EXISTS (
                SELECT FROM redrive.metric_slots s
                WHERE s.label = n.label AND s.queue = n.queue AND s.name = n.name)
            -- A kind of a queue that has no slot may have one among those of `__other__`.
            AND NOT EXISTS (
                SELECT FROM redrive.metric_slots s
                WHERE s.label = n.label AND s.queue = '__other__' AND s.name = n.name
                    AND NOT EXISTS (
                        SELECT FROM redrive.metric_slots q
                        WHERE q.label = 'queue' AND q.queue = '' AND q.name = n.queue))
        GROUP BY n.label
    LOOP
        SELECT f.names INTO known FROM redrive.metric_folded f WHERE f.label = over.label;
        CONTINUE WHEN NOT EXISTS (SELECT FROM unnest(over.places) p WHERE get_bit(known, p) = 0);
        FOREACH place IN ARRAY over.places LOOP
            known := set_bit(known, place, 1);
        END LOOP;
        UPDATE redrive.metric_folded f SET names = known WHERE f.label = over.label;
    END LOOP;
END
$$;

-- Every metric that is counted, with its value: what was folded, and of what was not the first
-- 5,000 rows. Those are few while a worker lives, and without one they are counted up to that many;
-- redrive_fold_age_seconds tells. It never reads jobs or letters.
--
-- A TRUNCATE empties a table also for those who began to look before it. So the tables are locked
-- against it first, and read by a later statement, which sees what was committed until then: call
-- it outside of a transaction, or in one that is READ COMMITTED.
-- SECURITY DEFINER so that whoever may call it needs no right to anything else.
CREATE FUNCTION redrive.metric_totals()
    RETURNS TABLE (metric text, labels text[], value double precision, counts bigint[], sum double precision)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = on
    SET synchronize_seqscans = off
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    cells redrive.metric_cell[];
    age   double precision;
BEGIN
    LOCK TABLE redrive.metric_deltas, redrive.metric_values IN ACCESS SHARE MODE;
    RETURN QUERY
    WITH deltas AS MATERIALIZED (
        SELECT d.at, d.queue, d.words, d.labels, d.causes, d.buckets, d.counts, d.sums
        FROM redrive.metric_deltas d
        LIMIT 5000
    ),
    cells AS (
        SELECT d.queue, u.word, u.label, u.cause, u.bucket, sum(u.count)::bigint AS count, sum(u.sum) AS sum,
               min(d.at) AS first_at, max(d.at) AS last_at
        FROM deltas d
        CROSS JOIN LATERAL unnest(d.words, d.labels, d.causes, d.buckets, d.counts, d.sums)
            AS u (word, label, cause, bucket, count, sum)
        GROUP BY 1, 2, 3, 4, 5
    ),
    placed AS (
        SELECT p.word, p.queue, p.label, p.cause, p.value, p.counts, p.sum, p.last_at
        FROM redrive.place_metric_cells((
            SELECT array_agg(ROW(c.queue, c.word, c.label, c.cause, c.bucket, c.count, c.sum,
                                 c.first_at, c.last_at)::redrive.metric_cell) FROM cells c)) p
    ),
    series AS MATERIALIZED (
        SELECT coalesce(v.word, p.word) AS word, coalesce(v.queue, p.queue) AS queue,
               coalesce(v.label, p.label) AS label, coalesce(v.cause, p.cause) AS cause,
               coalesce(v.value, 0) + coalesce(p.value, 0) AS value,
               CASE WHEN p.counts IS NULL THEN v.counts ELSE redrive.add_counts(v.counts, p.counts) END AS counts,
               coalesce(v.sum, 0) + coalesce(p.sum, 0) AS sum,
               greatest(v.last_at, p.last_at) AS last_at
        FROM redrive.metric_values v
        FULL JOIN placed p ON p.word = v.word AND p.queue = v.queue AND p.label = v.label AND p.cause = v.cause
    )
    SELECT w.metric,
           ARRAY[s.queue] || (ARRAY[s.label, s.cause])[1:cardinality(w.labels)],
           CASE WHEN w.bounds IS NULL THEN s.value::double precision END,
           s.counts,
           CASE WHEN w.bounds IS NOT NULL THEN s.sum END
    FROM series s
    JOIN redrive.metric_words w ON w.word = s.word
    WHERE w.metric IS NOT NULL
    UNION ALL
    SELECT 'redrive_queue_live_jobs', ARRAY[s.queue],
           sum(CASE WHEN s.word IN ('enqueued', 'found', 'returned') THEN s.value ELSE -s.value END)::double precision,
           NULL, NULL
    FROM series s
    WHERE s.word IN ('enqueued', 'found', 'returned', 'succeeded', 'ended')
    GROUP BY s.queue
    UNION ALL
    SELECT 'redrive_queue_last_success_timestamp_seconds', ARRAY[s.queue],
           date_part('epoch', max(s.last_at)), NULL, NULL
    FROM series s
    WHERE s.word = 'succeeded'
    GROUP BY s.queue
    UNION ALL
    SELECT 'redrive_fold_age_seconds', '{}'::text[],
           coalesce(date_part('epoch', clock_timestamp() - min(d.at)), 0), NULL, NULL
    FROM deltas d
    UNION ALL
    SELECT 'redrive_audit_drift_jobs', ARRAY[f.queue, f.set], f.drift, NULL, NULL
    FROM redrive.metric_drift f
    UNION ALL
    -- How many names there are by how many of their bits are set.
    SELECT 'redrive_series_folded', ARRAY[f.label],
           round((-65536 * ln(1 - least(bit_count(f.names), 65535) / 65536.0))::numeric), NULL, NULL
    FROM redrive.metric_folded f;
END
$$;

-- Compares the counters with the rows, exactly and under one snapshot: how many live jobs and how
-- many letters each queue has, and how many its totals say. Stores the drift, so that it is
-- published. It reads every job and letter: run it when the server has time.
-- Queues that have no slot are `__other__` together. In a transaction, it must be READ COMMITTED.
CREATE FUNCTION redrive.audit_counters()
    RETURNS TABLE (queue text, set text, rows bigint, total bigint, drift bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = on
    SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('redrive.audit_counters'));
    -- See metric_totals; and `jobs` is truncated as well.
    LOCK TABLE redrive.jobs, redrive.metric_deltas, redrive.metric_values IN ACCESS SHARE MODE;
    DELETE FROM redrive.metric_drift;
    RETURN QUERY
    WITH counted AS (
        SELECT v.queue, v.word, v.label, v.value FROM redrive.metric_values v
        UNION ALL
        SELECT d.queue, u.word, coalesce(u.label, ''), u.count
        FROM redrive.metric_deltas d
        CROSS JOIN LATERAL unnest(d.words, d.labels, d.counts) AS u (word, label, count)
    ),
    sides AS (
        SELECT j.queue::text AS queue, 'live' AS set, '' AS state, count(*) AS rows, 0::bigint AS total
        FROM redrive.jobs j GROUP BY 1
        UNION ALL
        SELECT d.queue, 'live', '', count(*), 0 FROM redrive.jobs_delayed d GROUP BY 1
        UNION ALL
        SELECT l.queue::text, 'live', '', sum(cardinality(l.jobs) - cardinality(l.done))::bigint, 0
        FROM redrive.leases l GROUP BY 1
        UNION ALL
        SELECT l.queue::text, 'dlq', l.state, count(*), 0 FROM redrive.dead_letters l GROUP BY 1, 3
        UNION ALL
        SELECT c.queue, 'live', '', 0,
               sum(CASE WHEN c.word IN ('enqueued', 'found', 'returned') THEN c.value ELSE -c.value END)::bigint
        FROM counted c
        WHERE c.word IN ('enqueued', 'found', 'returned', 'succeeded', 'ended')
        GROUP BY 1
        UNION ALL
        SELECT c.queue, 'dlq', c.label, 0, sum(c.value)::bigint
        FROM counted c
        WHERE c.word = 'letters'
        GROUP BY 1, 3
    ),
    by_state AS (
        SELECT coalesce(n.name, '__other__') AS queue, s.set, s.state,
               sum(s.rows)::bigint AS rows, sum(s.total)::bigint AS total
        FROM sides s
        LEFT JOIN redrive.metric_slots n ON n.label = 'queue' AND n.queue = '' AND n.name = s.queue
        GROUP BY 1, 2, 3
    ),
    found AS (
        INSERT INTO redrive.metric_drift (queue, set, rows, total, drift)
        SELECT b.queue, b.set, sum(b.rows), sum(b.total),
               CASE WHEN sum(b.rows) = sum(b.total) THEN sum(abs(b.rows - b.total))
                    ELSE sum(b.rows) - sum(b.total) END
        FROM by_state b
        GROUP BY 1, 2
        RETURNING metric_drift.queue, metric_drift.set, metric_drift.rows, metric_drift.total, metric_drift.drift
    )
    SELECT f.queue, f.set, f.rows, f.total, f.drift FROM found f ORDER BY 1, 2 DESC;
END
$$;

-- The run time of a handler that settles its job in its own transaction is known when that commits.
CREATE FUNCTION redrive.count_own_run() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO redrive.metric_deltas (segment, queue, words, labels, buckets, counts, sums)
    SELECT r.segment, NEW.queue, '{run,end_to_end}', '{succeeded,NULL}',
           ARRAY[redrive.metric_bucket(run.bounds, o.run), redrive.metric_bucket(whole.bounds, o.whole)],
           '{1,1}', ARRAY[o.run, o.whole]
    FROM redrive.metric_ring r
    CROSS JOIN (VALUES (
        date_part('epoch', clock_timestamp() - NEW.began_at),
        date_part('epoch', clock_timestamp() - NEW.born_at))) AS o (run, whole)
    JOIN redrive.metric_words run ON run.word = 'run'
    JOIN redrive.metric_words whole ON whole.word = 'end_to_end';
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER count_own_run AFTER INSERT ON redrive.metric_deltas
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.began_at IS NOT NULL) EXECUTE FUNCTION redrive.count_own_run();

-- Letters are counted by triggers, a statement at a time, so that no door can forget it.
CREATE FUNCTION redrive.count_metrics_of_added() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Bounds from the last to the first, negated: width_bucket counts from below, and a value that
    -- is on a bound is to be counted below it.
    mirrored double precision[] := ARRAY(
        SELECT -b FROM redrive.metric_words w CROSS JOIN unnest(w.bounds) b
        WHERE w.word = 'attempts_dead' ORDER BY 1);
BEGIN
    INSERT INTO redrive.metric_deltas (segment, queue, words, labels, buckets, counts, sums)
    SELECT r.segment, c.queue, array_agg(c.word), array_agg(c.label), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT g.queue, x.word, x.label, x.bucket, sum(g.count)::bigint AS count, sum(x.sum) AS sum
        FROM (
            SELECT a.queue::text AS queue, a.kind::text AS kind, a.state, a.reason,
                   left(a.error_class, 200) AS class, count(*) AS count, sum(a.attempts) AS attempts,
                   CASE WHEN a.reason <> 'captured'
                       THEN cardinality(mirrored) - width_bucket(-a.attempts::double precision, mirrored)
                   END AS bucket
            FROM added a
            GROUP BY 1, 2, 3, 4, 5, 8
        ) g
        CROSS JOIN LATERAL (VALUES
            ('letters', g.state, NULL::smallint, NULL::double precision),
            ('dead', g.reason, NULL, NULL),
            ('dead_kind', g.kind, NULL, NULL),
            ('dead_class', g.class, NULL, NULL),
            ('attempts_dead', NULL, g.bucket::smallint, g.attempts::double precision)
        ) AS x (word, label, bucket, sum)
        WHERE x.label IS NOT NULL OR x.bucket IS NOT NULL
        GROUP BY 1, 2, 3, 4
    ) c
    CROSS JOIN redrive.metric_ring r
    GROUP BY r.segment, c.queue;
    RETURN NULL;
END
$$;

CREATE FUNCTION redrive.count_metrics_of_changed() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    lowest   text;
    highest  text;
    mirrored double precision[];
    moment   timestamptz := clock_timestamp();
    -- Who died since the first of these was in the table for less than the first bound, and so on.
    borders  timestamptz[];
BEGIN
    SELECT min(b.state), max(b.state) INTO lowest, highest FROM became b;
    IF highest IS NULL THEN
        RETURN NULL;
    END IF;
    borders := ARRAY(
        SELECT moment - b * interval '1 second'
        FROM redrive.metric_words w CROSS JOIN unnest(w.bounds) b
        WHERE w.word = 'residence' ORDER BY 1);
    -- Redrive, recovery and discard lead all their letters into one state, and nobody dies: what
    -- was and what became can be counted apart, without a join.
    IF lowest = highest AND highest IN ('redriving', 'recovered', 'discarded') THEN
        INSERT INTO redrive.metric_deltas (segment, queue, words, labels, buckets, counts, sums)
        SELECT r.segment, c.queue, array_agg(c.word), array_agg(c.label), array_agg(c.bucket),
               array_agg(c.count), array_agg(c.sum)
        FROM (
            SELECT x.queue, x.word, x.label, x.bucket, sum(x.count)::bigint AS count, sum(x.sum) AS sum
            FROM (
                SELECT 'letters' AS word, w.queue, w.state AS label, NULL::smallint AS bucket,
                       -w.count AS count, NULL::double precision AS sum
                FROM (SELECT o.queue::text AS queue, o.state, count(*) AS count FROM was o GROUP BY 1, 2) w
                UNION ALL
                SELECT y.word, b.queue, y.label, NULL, y.sign * b.count, NULL
                FROM (SELECT n.queue::text AS queue, count(*) AS count FROM became n GROUP BY 1) b
                -- Each that is sent back is a live job again.
                CROSS JOIN (VALUES ('letters', highest, 1), ('returned', NULL, 1)) AS y (word, label, sign)
                WHERE y.word <> 'returned' OR highest = 'redriving'
                UNION ALL
                -- Those that were so before have not come back.
                SELECT 'returned', o.queue::text, NULL, NULL, -count(*), NULL
                FROM was o
                WHERE highest = 'redriving' AND o.state = 'redriving'
                GROUP BY 2
                UNION ALL
                SELECT z.word, l.queue, z.label, z.bucket, l.count, z.sum
                FROM (
                    SELECT o.queue::text AS queue,
                           (cardinality(borders) - width_bucket(o.died_at, borders))::smallint AS bucket,
                           count(*) AS count, sum(moment - o.died_at) AS age
                    FROM was o
                    WHERE o.state <> highest
                    GROUP BY 1, 2
                ) l
                CROSS JOIN LATERAL (VALUES
                    (CASE highest WHEN 'redriving' THEN 'redriven' ELSE highest END,
                     NULL::text, NULL::smallint, NULL::double precision),
                    ('residence', CASE highest WHEN 'redriving' THEN 'redriven' ELSE 'discarded' END,
                     l.bucket, date_part('epoch', l.age))
                ) AS z (word, label, bucket, sum)
                WHERE z.word <> 'residence' OR highest <> 'recovered'
            ) x
            GROUP BY 1, 2, 3, 4
            HAVING sum(x.count) <> 0
        ) c
        CROSS JOIN redrive.metric_ring r
        GROUP BY r.segment, c.queue;
        RETURN NULL;
    END IF;

    mirrored := ARRAY(
        SELECT -b FROM redrive.metric_words w CROSS JOIN unnest(w.bounds) b
        WHERE w.word = 'attempts_dead' ORDER BY 1);
    INSERT INTO redrive.metric_deltas (segment, queue, words, labels, buckets, counts, sums)
    SELECT r.segment, c.queue, array_agg(c.word), array_agg(c.label), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT x.queue, x.word, x.label, x.bucket, sum(x.sign * g.count)::bigint AS count, sum(x.sum) AS sum
        FROM (
            SELECT was.queue::text AS old_queue, was.state AS old_state, became.queue::text AS queue,
                   became.state, became.kind::text AS kind, became.reason,
                   left(became.error_class, 200) AS class, became.deaths > was.deaths AS has_died,
                   cardinality(mirrored) - width_bucket(-became.attempts::double precision, mirrored) AS attempted,
                   cardinality(borders) - width_bucket(was.died_at, borders) AS stayed,
                   count(*) AS count, sum(became.attempts) AS attempts, sum(moment - was.died_at) AS age
            FROM was
            -- A full join, because it can only be hashed or merged; see count_changed_letters.
            FULL JOIN became ON became.id = was.id
            WHERE was.state IS DISTINCT FROM became.state OR was.deaths IS DISTINCT FROM became.deaths
                OR was.queue IS DISTINCT FROM became.queue
            GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
        ) g
        CROSS JOIN LATERAL (VALUES
            (true, g.old_queue, 'letters', g.old_state, NULL::integer, -1, NULL::double precision),
            (true, g.queue, 'letters', g.state, NULL, 1, NULL),
            (g.has_died, g.queue, 'dead', g.reason, NULL, 1, NULL),
            (g.has_died, g.queue, 'dead_kind', g.kind, NULL, 1, NULL),
            (g.has_died, g.queue, 'dead_class', g.class, NULL, 1, NULL),
            (g.has_died, g.queue, 'dead_again', NULL, NULL, 1, NULL),
            (g.has_died, g.queue, 'attempts_dead', NULL, g.attempted, 1, g.attempts::double precision),
            (g.state = 'recovered', g.queue, 'recovered', NULL, NULL, 1, NULL),
            (g.state = 'discarded', g.old_queue, 'discarded', NULL, NULL, 1, NULL),
            (g.state = 'redriving', g.old_queue, 'redriven', NULL, NULL, 1, NULL),
            (g.state = 'redriving', g.queue, 'returned', NULL, NULL, 1, NULL),
            (g.state IN ('redriving', 'discarded'), g.old_queue, 'residence',
             CASE g.state WHEN 'discarded' THEN 'discarded' ELSE 'redriven' END, g.stayed, 1,
             date_part('epoch', g.age))
        ) AS x (happened, queue, word, label, bucket, sign, sum)
        WHERE x.happened
            AND (g.old_state <> g.state OR x.word IN ('letters', 'attempts_dead') OR x.word LIKE 'dead%')
        GROUP BY 1, 2, 3, 4
        HAVING sum(x.sign * g.count) <> 0
    ) c
    CROSS JOIN redrive.metric_ring r
    GROUP BY r.segment, c.queue;
    RETURN NULL;
END
$$;

CREATE FUNCTION redrive.count_metrics_of_removed() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO redrive.metric_deltas (segment, queue, words, labels, counts)
    SELECT r.segment, g.queue, array_agg('letters'::text) || ARRAY['pruned'], array_agg(g.state) || ARRAY[NULL::text],
           array_agg(-g.count) || ARRAY[sum(g.count)::bigint]
    FROM (SELECT o.queue::text AS queue, o.state, count(*) AS count FROM removed o GROUP BY 1, 2) g
    CROSS JOIN redrive.metric_ring r
    GROUP BY r.segment, g.queue;
    RETURN NULL;
END
$$;

CREATE TRIGGER count_metrics_of_added AFTER INSERT ON redrive.dead_letters
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_metrics_of_added();
CREATE TRIGGER count_metrics_of_changed AFTER UPDATE ON redrive.dead_letters
    REFERENCING OLD TABLE AS was NEW TABLE AS became
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_metrics_of_changed();
CREATE TRIGGER count_metrics_of_removed AFTER DELETE ON redrive.dead_letters
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_metrics_of_removed();

-- As in 0010, and counted.
CREATE OR REPLACE FUNCTION redrive.enqueue(
    queue        text,
    kind         text,
    payload      jsonb,
    delay        interval DEFAULT '0',
    priority     integer  DEFAULT 0,
    max_attempts integer  DEFAULT 5,
    unique_key   text     DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    new_id bigint := nextval('redrive.job_id');
    held_by bigint;
BEGIN
    PERFORM redrive.check_name('queue', enqueue.queue), redrive.check_name('kind', enqueue.kind);
    IF enqueue.payload IS NULL THEN
        RAISE EXCEPTION 'redrive: the payload is NULL; use ''null''::jsonb for a JSON null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF enqueue.delay IS NULL OR enqueue.delay < '0' OR enqueue.delay > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the delay % is not between 0 and 3650 days', enqueue.delay
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.priority IS NULL OR enqueue.priority NOT BETWEEN -1000 AND 1000 THEN
        RAISE EXCEPTION 'redrive: the priority % is not between -1000 and 1000', enqueue.priority
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.max_attempts IS NULL OR enqueue.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'redrive: max_attempts % is not between 1 and 1000', enqueue.max_attempts
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF octet_length(enqueue.unique_key) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'redrive: the unique key has % bytes, not 1 to 200', octet_length(enqueue.unique_key)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF enqueue.unique_key IS NOT NULL THEN
        -- Changes nothing, but waits for whoever is at the same key, and answers who has it.
        INSERT INTO redrive.unique_keys AS k (queue, key, job_id)
        VALUES (enqueue.queue, enqueue.unique_key, new_id)
        ON CONFLICT ON CONSTRAINT unique_keys_pkey DO UPDATE SET key = excluded.key
        RETURNING k.job_id INTO held_by;
        IF held_by <> new_id THEN
            INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
            SELECT m.segment, enqueue.queue, '{duplicates}', '{1}' FROM redrive.metric_ring m;
            RETURN held_by;
        END IF;
    END IF;

    IF enqueue.delay > '0' THEN
        INSERT INTO redrive.jobs_delayed (id, queue, kind, payload, priority, max_attempts, run_at, unique_key)
        VALUES (new_id, enqueue.queue, enqueue.kind, enqueue.payload, enqueue.priority,
                enqueue.max_attempts, clock_timestamp() + enqueue.delay, enqueue.unique_key);
    ELSE
        INSERT INTO redrive.jobs (segment, id, queue, kind, payload, priority, max_attempts, unique_key)
        SELECT r.segment, new_id, enqueue.queue, enqueue.kind, enqueue.payload, enqueue.priority,
               enqueue.max_attempts, enqueue.unique_key
        FROM redrive.ring r;
    END IF;
    INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
    SELECT m.segment, enqueue.queue, '{enqueued}', '{1}' FROM redrive.metric_ring m;
    PERFORM redrive.wake(enqueue.queue);
    RETURN new_id;
END
$$;

-- What is there already is counted in, as found.
LOCK TABLE redrive.jobs, redrive.jobs_delayed, redrive.leases, redrive.dead_letters IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
SELECT 0, l.queue, '{found}', ARRAY[sum(l.count)::bigint]
FROM (
    SELECT j.queue::text AS queue, count(*) AS count FROM redrive.jobs j GROUP BY 1
    UNION ALL
    SELECT d.queue, count(*) FROM redrive.jobs_delayed d GROUP BY 1
    UNION ALL
    SELECT l.queue::text, sum(cardinality(l.jobs) - cardinality(l.done)) FROM redrive.leases l GROUP BY 1
) l
GROUP BY l.queue;
INSERT INTO redrive.metric_deltas (segment, queue, words, labels, counts)
SELECT 0, l.queue, array_agg('letters'::text), array_agg(l.state), array_agg(l.count)
FROM (SELECT d.queue::text AS queue, d.state, count(*) AS count FROM redrive.dead_letters d GROUP BY 1, 2) l
GROUP BY l.queue;
SELECT redrive.fold_metrics();

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
