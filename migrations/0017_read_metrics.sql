-- Purpose: the numbers that are not counted but looked up: live jobs, letters, operations, tables,
--          bloat, server. None of it scans jobs or letters; none of it reads a payload.
-- Locks: leases, workers, ring and groups exclusively, for a moment: leases are written anew for a
--          column, and there is an index more on groups and one on redrive_runs.
-- Safe under running workers of the previous version: yes.
-- breaking: no

-- How many jobs a lease has, so that nobody needs to unpack it to know.
ALTER TABLE redrive.leases
    ADD COLUMN job_count integer NOT NULL GENERATED ALWAYS AS (cardinality(jobs)) STORED;
COMMENT ON COLUMN redrive.leases.job_count IS 'The jobs in it, those that are settled included.';

-- By queue and state; nothing in it changes when deaths are folded into a group.
CREATE INDEX groups_by_queue ON redrive.groups (queue, state);
CREATE INDEX groups_regressed ON redrive.groups (queue) INCLUDE (regressions) WHERE regressions > 0;
CREATE INDEX redrive_runs_unfinished ON redrive.redrive_runs (state)
    WHERE state IN ('running', 'paused', 'halted');

-- Regressions of groups that were forgotten, so that the sum over all groups never falls.
CREATE TABLE redrive.forgotten_regressions (
    queue       redrive.name NOT NULL PRIMARY KEY,
    regressions bigint       NOT NULL
);

CREATE FUNCTION redrive.keep_regressions() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO redrive.forgotten_regressions AS f (queue, regressions)
    SELECT g.queue, sum(g.regressions) FROM gone g WHERE g.regressions > 0 GROUP BY g.queue
    ON CONFLICT ON CONSTRAINT forgotten_regressions_pkey
        DO UPDATE SET regressions = f.regressions + excluded.regressions;
    RETURN NULL;
END
$$;

CREATE TRIGGER keep_regressions AFTER DELETE ON redrive.groups
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION redrive.keep_regressions();

-- Outcomes of runs that nobody drives any more: folded like the numbers of groups, a bounded number
-- at a time, so that `run_deltas` stays small. Answers how many were folded.
CREATE FUNCTION redrive.fold_runs() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
AS $$
DECLARE
    run    bigint := 0;
    folded bigint := 0;
    batch  bigint;
BEGIN
    LOOP
        SELECT min(d.run_id) INTO run FROM redrive.run_deltas d WHERE d.run_id > run;
        EXIT WHEN run IS NULL OR folded >= 20000;
        -- Its driver folds a run that is driven.
        PERFORM FROM redrive.redrive_runs r WHERE r.id = run AND r.state <> 'running' FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        WITH gone AS (
            DELETE FROM redrive.run_deltas d
            WHERE d.ctid = ANY (ARRAY(SELECT n.ctid FROM redrive.run_deltas n WHERE n.run_id = run LIMIT 20000))
            RETURNING d.recovered, d.died_alike, d.died_differently
        ),
        added AS (
            UPDATE redrive.redrive_runs r
            SET recovered = r.recovered + n.recovered, died_alike = r.died_alike + n.died_alike,
                died_differently = r.died_differently + n.died_differently
            FROM (
                SELECT sum(g.recovered) AS recovered, sum(g.died_alike) AS died_alike,
                       sum(g.died_differently) AS died_differently
                FROM gone g
            ) n
            WHERE r.id = run AND n.recovered IS NOT NULL
        )
        SELECT count(*) INTO batch FROM gone;
        folded := folded + batch;
    END LOOP;
    RETURN folded;
END
$$;

ALTER TABLE redrive.ring ADD COLUMN truncated_at timestamptz;
COMMENT ON COLUMN redrive.ring.truncated_at IS 'When a drained segment was truncated last; NULL: never.';

-- As in 0010, and it says when it truncated.
CREATE OR REPLACE FUNCTION redrive.turn_ring(segment_bytes bigint, move_limit integer) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '50ms'
    SET enable_seqscan = on
AS $$
DECLARE
    here       smallint;
    next_one   smallint;
    candidate  smallint;
    occupied   boolean;
    moved_rows bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('redrive.turn_ring')) THEN
        RETURN 'nothing';
    END IF;
    SELECT r.segment INTO here FROM redrive.ring r;
    next_one := (here + 1) % 4;

    -- Truncate: oldest first. The look without the lock keeps the lock short; the look
    -- under it sees every committed row, because nobody can be writing any more.
    FOR step IN 1..3 LOOP
        candidate := (here + step) % 4;
        CONTINUE WHEN pg_relation_size(format('redrive.jobs_%s', candidate)::regclass) = 0;
        EXECUTE format('SELECT EXISTS (SELECT FROM redrive.jobs_%s)', candidate) INTO occupied;
        CONTINUE WHEN occupied;
        BEGIN
            EXECUTE format('LOCK TABLE redrive.jobs_%s IN ACCESS EXCLUSIVE MODE', candidate);
            EXECUTE format('SELECT EXISTS (SELECT FROM redrive.jobs_%s)', candidate) INTO occupied;
            IF NOT occupied THEN
                EXECUTE format('TRUNCATE redrive.jobs_%s', candidate);
                UPDATE redrive.ring SET truncated_at = clock_timestamp();
                RETURN 'truncated';
            END IF;
            -- Somebody enqueued into it in between: let go of the lock at once.
            RAISE lock_not_available;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;

    IF pg_relation_size(format('redrive.jobs_%s', here)::regclass) < segment_bytes THEN
        RETURN 'nothing';
    END IF;
    IF pg_relation_size(format('redrive.jobs_%s', next_one)::regclass) = 0 THEN
        UPDATE redrive.ring SET segment = next_one, turned_at = clock_timestamp();
        RETURN 'turned';
    END IF;

    -- The ring wants to turn and the next segment is not clean. When only a few jobs keep
    -- it so, they move on; when it is a real backlog, it will be drained instead.
    EXECUTE format('SELECT count(*) FROM (SELECT FROM redrive.jobs_%s LIMIT $1) few', next_one)
        INTO moved_rows USING move_limit + 1;
    IF moved_rows = 0 OR moved_rows > move_limit THEN
        RETURN 'nothing';
    END IF;
    EXECUTE format(
        'WITH left_behind AS MATERIALIZED ('
        '  SELECT ctid FROM redrive.jobs_%1$s FOR UPDATE SKIP LOCKED),'
        ' gone AS ('
        '  DELETE FROM redrive.jobs_%1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM left_behind))'
        '  RETURNING id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '            crashes, refunds, queue, kind, payload, history, unique_key, outage_since)'
        ' INSERT INTO redrive.jobs'
        '  (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '   crashes, refunds, queue, kind, payload, history, unique_key, outage_since)'
        ' SELECT $1, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '        crashes, refunds, queue, kind, payload, history, unique_key, outage_since FROM gone',
        next_one)
        USING here;
    RETURN 'moved';
END
$$;

-- The queues that there are, the first thousand of them: from index to index, never row by row.
CREATE FUNCTION redrive.metrics_queue_names() RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE known (queue, steps) AS (
            SELECT ''::text COLLATE "C", 0
            UNION ALL
            SELECT least(
                (SELECT j.queue FROM redrive.jobs j WHERE j.queue > k.queue ORDER BY j.queue LIMIT 1),
                (SELECT d.queue FROM redrive.jobs_delayed d WHERE d.queue > k.queue ORDER BY d.queue LIMIT 1),
                (SELECT l.queue::text FROM redrive.dead_letters l
                 WHERE l.state = 'open' AND l.queue > k.queue ORDER BY l.queue LIMIT 1),
                (SELECT g.queue::text FROM redrive.groups g WHERE g.queue > k.queue ORDER BY g.queue LIMIT 1)
            ), k.steps + 1
            FROM known k
            WHERE k.queue IS NOT NULL AND k.steps < 1000
        )
        SELECT k.queue FROM known k WHERE k.queue > ''
        UNION
        SELECT w.queue::text FROM redrive.workers w
        UNION
        SELECT r.queue::text FROM redrive.retention r WHERE r.queue IS NOT NULL
        ORDER BY 1
    );
END
$$;

-- How many rows of a queue are counted at most: ten thousand for all queues together, so that a
-- reading stays cheap, and a hundred at least.
CREATE FUNCTION redrive.metrics_cap(queues integer) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT greatest(100, 10000 / greatest(queues, 1))::bigint $$;

-- The live jobs of each queue, and their ages.
CREATE FUNCTION redrive.metrics_queues()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    queues text[] := redrive.metrics_queue_names();
    cap    bigint := redrive.metrics_cap(cardinality(queues));
BEGIN
    RETURN QUERY
    WITH counted AS MATERIALIZED (
        SELECT k.queue, ready.jobs AS ready, late.jobs AS delayed, head.ready_at
        FROM unnest(queues) AS k (queue)
        CROSS JOIN LATERAL (
            SELECT count(*) AS jobs
            FROM (SELECT FROM redrive.jobs j WHERE j.queue = k.queue LIMIT cap + 1) few
        ) ready
        CROSS JOIN LATERAL (
            SELECT count(*) AS jobs
            FROM (SELECT FROM redrive.jobs_delayed d WHERE d.queue = k.queue LIMIT cap + 1) few
        ) late
        LEFT JOIN LATERAL (
            SELECT j.ready_at FROM redrive.jobs j WHERE j.queue = k.queue
            ORDER BY (-j.priority), j.id LIMIT 1
        ) head ON true
    ),
    -- By its columns beside the jobs, which stay packed where they are.
    leased AS MATERIALIZED (
        SELECT l.queue::text AS queue, sum(l.job_count - cardinality(l.done)) AS jobs,
               min(l.claimed_at) AS claimed_at,
               count(*) FILTER (WHERE coalesce(w.expires_at, l.claimed_at + interval '1 minute')
                                      < statement_timestamp()) AS overdue
        FROM redrive.leases l
        LEFT JOIN redrive.workers w ON w.worker_id = l.worker_id
        GROUP BY l.queue
    )
    SELECT v.metric, v.labels, v.value::double precision
    FROM counted c
    FULL JOIN leased l ON l.queue = c.queue
    CROSS JOIN LATERAL (SELECT coalesce(c.queue, l.queue) AS queue) q
    CROSS JOIN LATERAL (VALUES
        ('redrive_queue_jobs', ARRAY[q.queue, 'ready'], least(coalesce(c.ready, 0), cap)::double precision),
        ('redrive_queue_jobs', ARRAY[q.queue, 'delayed'], least(coalesce(c.delayed, 0), cap)),
        ('redrive_queue_jobs', ARRAY[q.queue, 'leased'], coalesce(l.jobs, 0)),
        ('redrive_queue_jobs_capped', ARRAY[q.queue, 'ready'], (coalesce(c.ready, 0) > cap)::integer),
        ('redrive_queue_jobs_capped', ARRAY[q.queue, 'delayed'], (coalesce(c.delayed, 0) > cap)::integer),
        ('redrive_queue_jobs_capped', ARRAY[q.queue, 'leased'], 0),
        ('redrive_queue_oldest_ready_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - c.ready_at))),
        ('redrive_queue_oldest_leased_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - l.claimed_at))),
        ('redrive_queue_overdue_leases', ARRAY[q.queue], coalesce(l.overdue, 0))
    ) v (metric, labels, value);
END
$$;

-- The letters of each queue: how old, and until when they are kept.
CREATE FUNCTION redrive.metrics_letters()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    queues text[] := redrive.metrics_queue_names();
    -- Letters are large, so that there are few to a page.
    cap    bigint := redrive.metrics_cap(cardinality(queues)) / 2;
BEGIN
    RETURN QUERY
    SELECT v.metric, v.labels, v.value::double precision
    FROM unnest(queues) AS q (queue)
    LEFT JOIN LATERAL (
        SELECT l.died_at FROM redrive.dead_letters l
        WHERE l.state = 'open' AND l.queue = q.queue
        ORDER BY l.died_at LIMIT 1
    ) oldest ON true
    -- Once over the oldest ones: those of a week are among those of a day.
    CROSS JOIN LATERAL (
        SELECT count(*) AS hour,
               count(*) FILTER (WHERE few.died_at < statement_timestamp() - interval '1 day') AS day,
               count(*) FILTER (WHERE few.died_at < statement_timestamp() - interval '7 days') AS week
        FROM (
            SELECT l.died_at FROM redrive.dead_letters l
            WHERE l.state = 'open' AND l.queue = q.queue
                AND l.died_at < statement_timestamp() - interval '1 hour'
            ORDER BY l.died_at LIMIT cap
        ) few
    ) older
    LEFT JOIN LATERAL (
        SELECT r.keep FROM redrive.retention r
        WHERE r.state = 'open' AND (r.queue = q.queue OR r.queue IS NULL)
        ORDER BY r.queue NULLS LAST LIMIT 1
    ) kept ON true
    CROSS JOIN LATERAL (VALUES
        ('redrive_dlq_oldest_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - oldest.died_at))::double precision),
        ('redrive_dlq_letters_older_than', ARRAY[q.queue, '1h'], older.hour),
        ('redrive_dlq_letters_older_than', ARRAY[q.queue, '1d'], older.day),
        ('redrive_dlq_letters_older_than', ARRAY[q.queue, '7d'], older.week),
        ('redrive_dlq_retention_seconds', ARRAY[q.queue], coalesce(extract(epoch FROM kept.keep), 0))
    ) v (metric, labels, value);
END
$$;

-- Workers, breakers, failure groups, redrive runs.
CREATE FUNCTION redrive.metrics_operations()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    queues text[] := redrive.metrics_queue_names();
    cap    bigint := redrive.metrics_cap(cardinality(queues));
BEGIN
    RETURN QUERY
    SELECT 'redrive_workers', ARRAY[w.queue, CASE
               WHEN w.expires_at <= statement_timestamp() THEN 'expired'
               WHEN w.waiting THEN 'waiting'
               ELSE 'busy' END], count(*)::double precision
    FROM redrive.workers w
    GROUP BY 2;

    -- A worker that holds as many jobs as it has slots has a handler running in each.
    RETURN QUERY
    SELECT v.metric, ARRAY[s.queue], v.value::double precision
    FROM (
        SELECT w.queue::text AS queue, sum(w.slots) AS slots, sum(least(w.slots, coalesce(l.jobs, 0))) AS busy
        FROM redrive.workers w
        LEFT JOIN (
            SELECT h.worker_id, sum(h.job_count - cardinality(h.done)) AS jobs
            FROM redrive.leases h GROUP BY h.worker_id
        ) l ON l.worker_id = w.worker_id
        WHERE w.expires_at > statement_timestamp()
        GROUP BY w.queue
    ) s
    CROSS JOIN LATERAL (VALUES
        ('redrive_worker_slots', s.slots), ('redrive_worker_slots_busy', s.busy)
    ) v (metric, value);

    -- One of a dependency counts for each queue that has a worker for a kind that waits for it.
    RETURN QUERY
    SELECT 'redrive_breakers', ARRAY[held.queue, b.state], count(*)::double precision
    FROM redrive.breakers b
    CROSS JOIN LATERAL (
        SELECT substr(b.name, 7) AS queue WHERE b.name LIKE 'queue:%'
        UNION ALL
        (SELECT DISTINCT w.queue::text FROM redrive.workers w
         WHERE b.name NOT LIKE 'queue:%' AND w.expires_at > statement_timestamp()
             AND (w.kinds IS NULL OR w.kinds && b.kinds))
        UNION ALL
        SELECT '__other__' WHERE b.name NOT LIKE 'queue:%' AND NOT EXISTS (
            SELECT FROM redrive.workers w
            WHERE w.expires_at > statement_timestamp() AND (w.kinds IS NULL OR w.kinds && b.kinds))
    ) held
    WHERE b.state <> 'closed'
    GROUP BY 2;

    RETURN QUERY
    SELECT 'redrive_failure_groups', ARRAY[q.queue, s.state], few.groups::double precision
    FROM unnest(queues) AS q (queue)
    CROSS JOIN unnest('{open,acknowledged,resolved,ignored}'::text[]) AS s (state)
    CROSS JOIN LATERAL (
        SELECT count(*) AS groups
        FROM (SELECT FROM redrive.groups g WHERE g.queue = q.queue AND g.state = s.state LIMIT cap) f
    ) few;

    RETURN QUERY
    SELECT 'redrive_group_regressions_total', ARRAY[r.queue], sum(r.regressions)::double precision
    FROM (
        SELECT g.queue::text AS queue, g.regressions FROM redrive.groups g WHERE g.regressions > 0
        UNION ALL
        SELECT f.queue::text, f.regressions FROM redrive.forgotten_regressions f
    ) r
    GROUP BY r.queue;

    RETURN QUERY
    SELECT 'redrive_runs', ARRAY[r.state], count(*)::double precision
    FROM redrive.redrive_runs r
    WHERE r.state IN ('running', 'paused', 'halted')
    GROUP BY r.state;

    RETURN QUERY
    SELECT 'redrive_run_letters_waiting', '{}'::text[], coalesce(sum(r.total - r.cursor), 0)::double precision
    FROM redrive.redrive_runs r
    WHERE r.state IN ('running', 'paused', 'halted');

    -- A row a run, and what of its outcomes is not folded yet.
    RETURN QUERY
    SELECT v.metric, v.labels, v.value::double precision
    FROM (
        SELECT coalesce(sum(r.sent), 0) AS sent, coalesce(sum(r.recovered), 0) AS recovered,
               coalesce(sum(r.died_alike), 0) AS alike, coalesce(sum(r.died_differently), 0) AS differently
        FROM redrive.redrive_runs r
    ) a
    CROSS JOIN (
        SELECT coalesce(sum(d.recovered), 0) AS recovered, coalesce(sum(d.died_alike), 0) AS alike,
               coalesce(sum(d.died_differently), 0) AS differently
        FROM redrive.run_deltas d
    ) n
    CROSS JOIN LATERAL (VALUES
        ('redrive_run_letters_unsettled', '{}'::text[],
            a.sent - a.recovered - a.alike - a.differently - n.recovered - n.alike - n.differently),
        ('redrive_run_outcomes_total', '{recovered}', a.recovered + n.recovered),
        ('redrive_run_outcomes_total', '{died_alike}', a.alike + n.alike),
        ('redrive_run_outcomes_total', '{died_differently}', a.differently + n.differently)
    ) v (metric, labels, value);
END
$$;

-- What a table's own settings say, else the server's: how many dead rows bring autovacuum.
CREATE FUNCTION redrive.vacuum_threshold(options text[], rows double precision) RETURNS double precision
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN s.most >= 0 THEN least(s.most, s.base + s.scale * greatest(rows, 0))
                ELSE s.base + s.scale * greatest(rows, 0) END
    FROM (
        SELECT coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_threshold'),
                        current_setting('autovacuum_vacuum_threshold'))::double precision AS base,
               coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_scale_factor'),
                        current_setting('autovacuum_vacuum_scale_factor'))::double precision AS scale,
               -- Since 18; below 0 there is no most.
               coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_max_threshold'),
                        current_setting('autovacuum_vacuum_max_threshold', true), '-1')::double precision AS most
        FROM pg_options_to_table(options) o
    ) s
$$;

-- The tables of redrive: size, rows, vacuum; and the ring. Segments count as their ring.
CREATE FUNCTION redrive.metrics_tables()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
BEGIN
    RETURN QUERY
    WITH heaps AS MATERIALIZED (
        SELECT regexp_replace(c.relname, '_[0-9]+$', '') AS name, c.oid, c.reltoastrelid AS toast,
               redrive.vacuum_threshold(c.reloptions, c.reltuples) AS threshold
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
    ),
    indexes AS MATERIALIZED (
        SELECT h.name, coalesce(whole.relname, i.relname)::text AS index, sum(pg_relation_size(i.oid)) AS bytes
        FROM heaps h
        JOIN pg_index x ON x.indrelid = h.oid
        JOIN pg_class i ON i.oid = x.indexrelid
        LEFT JOIN pg_inherits p ON p.inhrelid = i.oid
        LEFT JOIN pg_class whole ON whole.oid = p.inhparent
        GROUP BY 1, 2
    ),
    tables AS MATERIALIZED (
        SELECT h.name, sum(h.threshold) AS threshold,
               sum(pg_relation_size(h.oid)) AS heap,
               sum(CASE WHEN h.toast <> 0 THEN pg_total_relation_size(h.toast) ELSE 0 END) AS toast,
               sum(pg_stat_get_live_tuples(h.oid)) AS live, sum(pg_stat_get_dead_tuples(h.oid)) AS dead,
               sum(pg_stat_get_tuples_inserted(h.oid)) AS inserted,
               sum(pg_stat_get_tuples_updated(h.oid)) AS updated,
               sum(pg_stat_get_tuples_hot_updated(h.oid)) AS hot_updated,
               sum(pg_stat_get_tuples_deleted(h.oid)) AS deleted,
               sum(pg_stat_get_numscans(h.oid)) AS scans,
               sum(pg_stat_get_autovacuum_count(h.oid)) AS auto_count,
               sum(pg_stat_get_vacuum_count(h.oid)) AS manual_count,
               max(pg_stat_get_last_autovacuum_time(h.oid)) AS auto_at,
               max(pg_stat_get_last_vacuum_time(h.oid)) AS manual_at
        FROM heaps h
        GROUP BY h.name
    )
    SELECT v.metric, v.labels, v.value::double precision
    FROM tables t
    CROSS JOIN LATERAL (VALUES
        ('redrive_table_bytes', ARRAY[t.name, 'heap'], t.heap::double precision),
        ('redrive_table_bytes', ARRAY[t.name, 'toast'], t.toast),
        ('redrive_table_bytes', ARRAY[t.name, 'index'],
            (SELECT coalesce(sum(i.bytes), 0) FROM indexes i WHERE i.name = t.name)),
        ('redrive_table_live_rows_estimate', ARRAY[t.name], t.live),
        ('redrive_table_dead_rows_estimate', ARRAY[t.name], t.dead),
        ('redrive_table_autovacuum_threshold_rows', ARRAY[t.name], t.threshold),
        ('redrive_table_rows_inserted_total', ARRAY[t.name], t.inserted),
        ('redrive_table_rows_updated_total', ARRAY[t.name], t.updated),
        ('redrive_table_rows_hot_updated_total', ARRAY[t.name], t.hot_updated),
        ('redrive_table_rows_deleted_total', ARRAY[t.name], t.deleted),
        ('redrive_table_sequential_scans_total', ARRAY[t.name], t.scans),
        ('redrive_table_vacuums_total', ARRAY[t.name, 'auto'], t.auto_count),
        ('redrive_table_vacuums_total', ARRAY[t.name, 'manual'], t.manual_count),
        ('redrive_table_last_vacuum_timestamp_seconds', ARRAY[t.name, 'auto'],
            coalesce(extract(epoch FROM t.auto_at), 0)),
        ('redrive_table_last_vacuum_timestamp_seconds', ARRAY[t.name, 'manual'],
            coalesce(extract(epoch FROM t.manual_at), 0))
    ) v (metric, labels, value)
    UNION ALL
    SELECT 'redrive_index_bytes', ARRAY[i.name, i.index], i.bytes::double precision FROM indexes i
    UNION ALL
    SELECT v.metric, '{}', coalesce(extract(epoch FROM v.moment), 0)::double precision
    FROM redrive.ring r
    CROSS JOIN LATERAL (VALUES
        ('redrive_ring_turned_timestamp_seconds', r.turned_at),
        ('redrive_ring_truncated_timestamp_seconds', r.truncated_at)
    ) v (metric, moment);
END
$$;

-- What of the heaps is not live rows. By the statistics: the size now, less the live rows at the
-- widths that the last analysis saw; and by pgstattuple_approx where that extension is installed, of
-- tables of which it would read little.
CREATE FUNCTION redrive.metrics_bloat()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
DECLARE
    extension_schema text;
    each_heap record;
    free_bytes double precision;
    measured jsonb := '{}';
BEGIN
    RETURN QUERY
    WITH heaps AS MATERIALIZED (
        SELECT regexp_replace(c.relname, '_[0-9]+$', '') AS name, c.oid, c.relname,
               pg_relation_size(c.oid)::double precision AS bytes,
               -- After a crash the statistics know of no row at all; then what the last vacuum found.
               CASE WHEN pg_stat_get_live_tuples(c.oid) + pg_stat_get_dead_tuples(c.oid) = 0
                   THEN greatest(c.reltuples, 0) ELSE pg_stat_get_live_tuples(c.oid)
               END::double precision AS live,
               pg_stat_get_dead_tuples(c.oid)::double precision AS dead,
               coalesce((SELECT o.option_value FROM pg_options_to_table(c.reloptions) o
                         WHERE o.option_name = 'fillfactor')::double precision, 100) / 100 AS filled
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
    ),
    widths AS MATERIALIZED (
        SELECT s.tablename, sum((1 - s.null_frac) * s.avg_width)::double precision AS width,
               count(*) AS columns
        FROM pg_stats s WHERE s.schemaname = 'redrive' AND NOT s.inherited
        GROUP BY s.tablename
    )
    SELECT 'redrive_table_bloat_bytes_estimate', ARRAY[h.name, 'stats'], sum(greatest(0, h.bytes - CASE
        -- A line pointer, a header with the bitmap of NULLs, both rounded up to 8 bytes.
        WHEN w.width IS NOT NULL
            THEN h.live * (4 + 8 * ceil((23 + ceil(w.columns / 8.0)) / 8) + 8 * ceil(w.width / 8)) / h.filled
        -- Nobody analyzed it: dead rows are as wide as live ones.
        WHEN h.live > 0 THEN h.bytes * h.live / (h.live + h.dead)
        ELSE 0 END))
    FROM heaps h
    LEFT JOIN widths w ON w.tablename = h.relname
    GROUP BY h.name;

    SELECT quote_ident(n.nspname) INTO extension_schema
    FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'pgstattuple';
    IF extension_schema IS NULL
        OR NOT has_function_privilege(format('%s.pgstattuple_approx(regclass)', extension_schema), 'EXECUTE')
    THEN
        RETURN;
    END IF;
    FOR each_heap IN
        SELECT regexp_replace(c.relname, '_[0-9]+$', '') AS name, c.oid
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
            -- It reads the pages that are not all visible: 128 MB of them at most.
            AND pg_relation_size(c.oid) / 8192 - c.relallvisible < 16384
        ORDER BY pg_relation_size(c.oid)
    LOOP
        EXIT WHEN clock_timestamp() - statement_timestamp() > interval '2 seconds';
        EXECUTE format('SELECT a.dead_tuple_len + a.approx_free_space FROM %s.pgstattuple_approx($1) a',
                       extension_schema)
            INTO free_bytes USING each_heap.oid::regclass;
        measured := measured || jsonb_build_object(
            each_heap.name, coalesce((measured ->> each_heap.name)::double precision, 0) + free_bytes);
    END LOOP;
    RETURN QUERY
    SELECT 'redrive_table_bloat_bytes_estimate', ARRAY[m.key, 'pgstattuple'], m.value::double precision
    FROM jsonb_each_text(measured) m;
END
$$;

-- The server: who holds the xmin horizon of our tables, slots, locks, connections. It runs with the
-- rights of its caller: without those of pg_read_all_stats it sees the caller's own transactions only.
CREATE FUNCTION redrive.metrics_server()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
BEGIN
    RETURN QUERY
    WITH activity AS MATERIALIZED (
        SELECT a.datname = current_database() AS is_here, a.state, a.backend_type, a.wait_event_type,
               greatest(age(a.backend_xmin), age(a.backend_xid)) AS xids,
               extract(epoch FROM clock_timestamp() - a.xact_start) AS seconds
        FROM pg_stat_activity a
        WHERE a.pid <> pg_backend_pid()
    ),
    -- A logical slot's catalog_xmin holds back the catalog only.
    held AS MATERIALIZED (
        SELECT CASE WHEN a.state LIKE 'idle in transaction%' THEN 'idle_in_transaction' ELSE 'backend' END
                   AS holder, a.xids, a.seconds
        FROM activity a
        WHERE a.is_here AND a.xids IS NOT NULL AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
        UNION ALL
        SELECT 'prepared', age(p.transaction), extract(epoch FROM clock_timestamp() - p.prepared)
        FROM pg_prepared_xacts p WHERE p.database = current_database()
        UNION ALL
        SELECT 'slot', age(s.xmin), NULL FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
        UNION ALL
        SELECT 'standby_feedback', age(r.backend_xmin), NULL
        FROM pg_stat_replication r WHERE r.backend_xmin IS NOT NULL
    ),
    slots AS MATERIALIZED (
        SELECT s.slot_name::text AS name, s.active, s.safe_wal_size,
               pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                    ELSE pg_current_wal_lsn() END, s.restart_lsn) AS retained
        FROM pg_replication_slots s
        ORDER BY 4 DESC NULLS LAST, 1
        LIMIT 20
    )
    SELECT 'redrive_pg_oldest_horizon_age_transactions', ARRAY[k.holder], coalesce(max(h.xids), 0)::double precision
    FROM unnest('{backend,idle_in_transaction,prepared,slot,standby_feedback}'::text[]) AS k (holder)
    LEFT JOIN held h ON h.holder = k.holder
    GROUP BY k.holder
    UNION ALL
    -- The reader dates slots and standbys, which have no time.
    SELECT 'redrive_pg_oldest_horizon_age_seconds', ARRAY[k.holder],
           greatest(0, coalesce(max(h.seconds), 0))::double precision
    FROM unnest('{backend,idle_in_transaction,prepared}'::text[]) AS k (holder)
    LEFT JOIN held h ON h.holder = k.holder
    GROUP BY k.holder
    UNION ALL
    SELECT 'redrive_pg_oldest_transaction_age_seconds', '{}', greatest(0, coalesce(max(a.seconds), 0))::double precision
    FROM activity a
    WHERE a.is_here AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
    UNION ALL
    SELECT 'redrive_pg_replication_slot_active', ARRAY[s.name], s.active::integer FROM slots s
    UNION ALL
    SELECT 'redrive_pg_replication_slot_retained_wal_bytes', ARRAY[s.name], greatest(0, coalesce(s.retained, 0))
    FROM slots s
    UNION ALL
    SELECT 'redrive_pg_replication_slot_safe_wal_bytes', ARRAY[s.name], s.safe_wal_size
    FROM slots s WHERE s.safe_wal_size IS NOT NULL
    UNION ALL
    SELECT 'redrive_pg_frozen_xid_age', '{}', age(d.datfrozenxid)
    FROM pg_database d WHERE d.datname = current_database()
    UNION ALL
    SELECT 'redrive_pg_lock_waiters', '{}', count(*) FROM activity a WHERE a.is_here AND a.wait_event_type = 'Lock'
    UNION ALL
    -- Us as well, in whatever state we are.
    SELECT 'redrive_pg_connections', ARRAY[s.state], sum(s.connections)
    FROM (
        SELECT a.state, 1 AS connections FROM activity a
        WHERE a.backend_type = 'client backend' AND a.state IS NOT NULL
        UNION ALL
        VALUES ('active', 1), ('idle', 0), ('idle in transaction', 0)
    ) s
    GROUP BY s.state
    UNION ALL
    SELECT 'redrive_pg_autovacuum_workers', '{}', count(*) FROM activity a WHERE a.backend_type = 'autovacuum worker'
    UNION ALL
    SELECT v.metric, '{}', v.value
    FROM (VALUES
        ('redrive_pg_connections_limit', current_setting('max_connections')::double precision),
        ('redrive_pg_autovacuum_workers_limit', current_setting('autovacuum_max_workers')::double precision),
        ('redrive_pg_in_recovery', pg_is_in_recovery()::integer),
        ('redrive_pg_start_timestamp_seconds', extract(epoch FROM pg_postmaster_start_time())),
        ('redrive_pg_stats_reset_timestamp_seconds', coalesce(extract(epoch FROM greatest(
            (SELECT d.stats_reset FROM pg_stat_database d WHERE d.datname = current_database()),
            (SELECT b.stats_reset FROM pg_stat_bgwriter b))), 0))
    ) v (metric, value);
END
$$;

-- Lets a role read the metrics and nothing else: no payload, no error text, nothing to write. Make it
-- first: CREATE ROLE redrive_exporter LOGIN CONNECTION LIMIT 3 PASSWORD '…'
-- Whether other people's transactions are seen is for a superuser to grant: pg_monitor. Answers what
-- is left to be done, empty when nothing is.
CREATE FUNCTION redrive.grant_metrics(role text) RETURNS text
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    each_function regprocedure;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_metrics.role) THEN
        RAISE EXCEPTION 'redrive: there is no role %', coalesce(quote_ident(grant_metrics.role), 'NULL')
            USING ERRCODE = 'undefined_object',
                  HINT = 'CREATE ROLE redrive_exporter LOGIN CONNECTION LIMIT 3';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA redrive TO %I', role);
    EXECUTE format('GRANT SELECT ON redrive.migrations TO %I', role);
    FOR each_function IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = 'redrive'::regnamespace AND p.proname IN (
            'metric_totals', 'metrics_queues', 'metrics_letters', 'metrics_operations', 'metrics_tables',
            'metrics_bloat', 'metrics_server')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', each_function, role);
    END LOOP;
    IF pg_has_role(role, 'pg_read_all_stats', 'USAGE') THEN
        RETURN '';
    END IF;
    BEGIN
        EXECUTE format('GRANT pg_monitor TO %I', role);
        RETURN '';
    EXCEPTION WHEN insufficient_privilege THEN
        RETURN format('as a superuser: GRANT pg_monitor TO %I', role);
    END;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
