-- Purpose: Gauges that are looked up: live jobs, letters and their ages. Nothing scans jobs or letters.

-- Returns how many rows are counted per queue: 10,000 divided by the number of queues, at least 100.
CREATE OR REPLACE FUNCTION redrive.metrics_cap(queues integer) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN greatest(100, 10000 / greatest(queues, 1))::bigint;

-- Returns the live jobs of each queue and their ages.
--
-- The first ready jobs of a queue are read once, because any number of dead rows may lie before them. If there are
-- more, jobs of a lower priority can wait behind them. The oldest job is then also searched from the lowest rank on,
-- by index skip scan. Within a rank the order is that of ids. A job keeps its id when it returns from a delay, so
-- the first 10 are compared; those behind them were enqueued later.
--
-- Ages are those of jobs that a worker may take. A job without a handler, or one that waits for the turn of its group, may
-- stay for days while the jobs around it come and go.
--
-- As in metrics_operations, tables that compaction rewrites are locked before they are read.
-- Index: jobs_for_claim and jobs_delayed_for_promote, about 10000 rows in total, and for the oldest jobs of queues with
-- more ones up to 320 priorities in total, 2 per queue at least, with 10 rows each; leases is small.
CREATE OR REPLACE FUNCTION redrive.metrics_queues()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    queues text[];
    cap    bigint;
    most   integer;
BEGIN
    LOCK TABLE redrive.workers, redrive.leases, redrive.delayed_marks IN ACCESS SHARE MODE;
    -- Up to 1,000 queues that have jobs, by index skip scan. A queue with a mark in delayed_marks may begin with millions
    -- of dead rows, so the scan of delayed jobs stops before it, and its name is returned in any case.
    queues := ARRAY(
        WITH RECURSIVE known (queue, steps) AS (
            SELECT ''::text COLLATE "C", 0
            UNION ALL
            SELECT least(
                (SELECT j.queue FROM redrive.jobs j WHERE j.queue > k.queue ORDER BY j.queue LIMIT 1),
                (SELECT d.queue FROM redrive.jobs_delayed d
                 WHERE d.queue > k.queue
                     AND d.queue < coalesce(
                         (SELECT min(m.queue) FROM redrive.delayed_marks m WHERE m.queue > k.queue), chr(1114111))
                 ORDER BY d.queue LIMIT 1),
                (SELECT min(m.queue) FROM redrive.delayed_marks m WHERE m.queue > k.queue)
            ), k.steps + 1
            FROM known k
            WHERE k.queue IS NOT NULL AND k.steps < 1000
        )
        SELECT k.queue FROM known k WHERE k.queue > '');
    cap := redrive.metrics_cap(cardinality(queues));
    -- How many priorities are searched per queue.
    most := least(32, greatest(2, 320 / greatest(cardinality(queues), 1)));
    RETURN QUERY
    WITH first_jobs AS MATERIALIZED (
        SELECT k.queue, few.*
        FROM unnest(queues) AS k (queue)
        CROSS JOIN LATERAL (
            -- In the order of claims: jobs that nobody takes are left behind, at its start.
            SELECT j.kind, coalesce((j.meta).ready_at, j.enqueued_at) AS ready_at,
                   CASE WHEN j.segment = 8 THEN (j.meta).group_key END AS group_key,
                   row_number() OVER (ORDER BY j.rank, j.id) AS place
            FROM redrive.jobs j WHERE j.queue = k.queue
            ORDER BY j.rank, j.id LIMIT cap + 1
        ) few
    ),
    -- The first jobs of the lowest ranks, if there is a job behind the cap, which itself is not counted.
    lowest_jobs AS (
        SELECT f.queue, few.*, cap + 2 AS place
        FROM first_jobs f
        CROSS JOIN LATERAL (
            WITH RECURSIVE known (rank, steps) AS (
                SELECT (SELECT j.rank FROM redrive.jobs j WHERE j.queue = f.queue ORDER BY j.rank DESC LIMIT 1), 1
                UNION ALL
                SELECT (SELECT j.rank FROM redrive.jobs j
                        WHERE j.queue = f.queue AND j.rank < n.rank
                        ORDER BY j.rank DESC LIMIT 1), n.steps + 1
                FROM known n
                WHERE n.rank IS NOT NULL AND n.steps < most
            )
            SELECT r.*
            FROM known n
            CROSS JOIN LATERAL (
                SELECT j.kind, coalesce((j.meta).ready_at, j.enqueued_at) AS ready_at,
                       CASE WHEN j.segment = 8 THEN (j.meta).group_key END AS group_key
                FROM redrive.jobs j
                WHERE j.queue = f.queue AND j.rank = n.rank
                ORDER BY j.id LIMIT 10
            ) r
        ) few
        WHERE f.place > cap
    ),
    waiting AS MATERIALIZED (
        SELECT f.queue, f.kind, f.group_key, count(*) FILTER (WHERE f.place <= cap) AS jobs,
               count(*) FILTER (WHERE f.place = cap + 1) AS beyond, min(f.ready_at) AS oldest_at, min(f.place) AS place,
               (array_agg(f.ready_at ORDER BY f.place) FILTER (WHERE f.place <= cap + 1))[1] AS next_at
        FROM (SELECT * FROM first_jobs UNION ALL SELECT * FROM lowest_jobs) f
        GROUP BY f.queue, f.kind, f.group_key
    ),
    -- Groups without a turn left. Live jobs and letters have taken them.
    full_groups AS MATERIALIZED (
        SELECT g.queue, g.group_key
        FROM (SELECT DISTINCT w.queue, w.group_key FROM waiting w WHERE w.group_key IS NOT NULL) g
        JOIN redrive.group_policies p ON p.queue = g.queue AND p.mode IN ('ordered', 'limit')
        WHERE p.job_limit <= (
            SELECT count(*) FROM redrive.group_slots s WHERE s.queue = g.queue AND s.group_key = g.group_key)
    ),
    -- The kinds that live workers handle; NULL: any.
    handled AS MATERIALIZED (
        SELECT DISTINCT w.queue, k.kind
        FROM redrive.workers w
        LEFT JOIN LATERAL unnest(w.kinds) AS k (kind) ON true
        WHERE w.expires_at > statement_timestamp()
    ),
    ready AS MATERIALIZED (
        SELECT w.queue, sum(w.jobs) AS jobs, sum(w.beyond) > 0 AS is_capped,
               sum(w.jobs) FILTER (WHERE f.is_handled IS NOT TRUE) AS unhandled,
               sum(w.jobs) FILTER (WHERE f.is_handled IS NOT FALSE AND f.has_no_turn) AS blocked,
               min(w.oldest_at) FILTER (WHERE f.is_handled IS NOT FALSE AND f.has_no_turn IS NOT TRUE) AS oldest_at,
               (array_agg(w.next_at ORDER BY w.place)
                FILTER (WHERE f.is_handled IS NOT FALSE AND f.has_no_turn IS NOT TRUE))[1] AS next_at
        FROM waiting w
        -- The jobs of a queue without a worker wait for any.
        CROSS JOIN LATERAL (
            SELECT CASE WHEN w.queue IN (SELECT h.queue FROM handled h) THEN
                       w.queue IN (SELECT h.queue FROM handled h WHERE h.kind IS NULL)
                       OR (w.queue, w.kind) IN (SELECT h.queue, h.kind FROM handled h WHERE h.kind IS NOT NULL)
                   END AS is_handled,
                   (w.queue, w.group_key) IN (SELECT g.queue, g.group_key FROM full_groups g) AS has_no_turn
            OFFSET 0 -- Once per kind and group, and not per FILTER.
        ) f
        GROUP BY w.queue
    ),
    -- Kinds with a slot keep their names. The most frequent others take the places that are left.
    named AS (
        SELECT r.queue, r.jobs,
               CASE WHEN s.name IS NOT NULL
                        OR row_number() OVER (PARTITION BY r.queue, s.name IS NULL ORDER BY r.jobs DESC, r.kind)
                           + (SELECT count(*) FROM redrive.metric_slots o WHERE o.label = 'kind' AND o.queue = r.queue)
                           <= 20
                    THEN r.kind ELSE '__other__' END AS kind
        FROM (SELECT w.queue, w.kind, sum(w.jobs) AS jobs FROM waiting w GROUP BY w.queue, w.kind) r
        LEFT JOIN redrive.metric_slots s ON s.label = 'kind' AND s.queue = r.queue AND s.name = r.kind
        WHERE r.jobs > 0
    ),
    delayed AS MATERIALIZED (
        SELECT k.queue, late.jobs, late.due_at
        FROM unnest(queues) AS k (queue)
        LEFT JOIN redrive.delayed_marks mark ON mark.queue = k.queue AND mark.run_at <= statement_timestamp()
        -- Few jobs lie below the mark, behind any number of dead rows, and workers promote those soon.
        CROSS JOIN LATERAL (
            SELECT count(*) AS jobs, min(few.run_at) AS due_at
            FROM (
                SELECT d.run_at FROM redrive.jobs_delayed d
                WHERE d.queue = k.queue AND d.run_at >= coalesce(mark.run_at, 'epoch')
                ORDER BY d.run_at, d.id LIMIT cap + 1
            ) few
        ) late
    ),
    -- Uses the columns beside `jobs`, which is not unpacked.
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
    FROM delayed d
    FULL JOIN leased l ON l.queue = d.queue
    CROSS JOIN LATERAL (SELECT coalesce(d.queue, l.queue) AS queue) q
    LEFT JOIN ready r ON r.queue = q.queue
    CROSS JOIN LATERAL (VALUES
        ('redrive_queue_jobs', ARRAY[q.queue, 'ready'], coalesce(r.jobs, 0)::double precision),
        ('redrive_queue_jobs', ARRAY[q.queue, 'delayed'], least(coalesce(d.jobs, 0), cap)),
        ('redrive_queue_jobs', ARRAY[q.queue, 'leased'], coalesce(l.jobs, 0)),
        ('redrive_queue_jobs_capped', ARRAY[q.queue, 'ready'], coalesce(r.is_capped, false)::integer),
        ('redrive_queue_jobs_capped', ARRAY[q.queue, 'delayed'], (coalesce(d.jobs, 0) > cap)::integer),
        ('redrive_queue_unhandled_jobs', ARRAY[q.queue], coalesce(r.unhandled, 0)),
        ('redrive_queue_oldest_ready_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - r.oldest_at))),
        ('redrive_queue_next_ready_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - r.next_at))),
        ('redrive_queue_overdue_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - d.due_at))),
        ('redrive_queue_oldest_leased_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - l.claimed_at))),
        ('redrive_queue_overdue_leases', ARRAY[q.queue], coalesce(l.overdue, 0)),
        ('redrive_queue_blocked_jobs', ARRAY[q.queue], coalesce(r.blocked, 0))
    ) v (metric, labels, value)
    UNION ALL
    SELECT 'redrive_queue_ready_jobs_by_kind', ARRAY[n.queue, n.kind], sum(n.jobs)
    FROM named n
    GROUP BY n.queue, n.kind
    UNION ALL
    SELECT v.metric, ARRAY[h.queue], v.value
    FROM redrive.queues_with_held_groups(cap) h
    CROSS JOIN LATERAL (VALUES
        ('redrive_held_groups', h.groups::double precision),
        ('redrive_held_group_jobs', h.waiting),
        ('redrive_held_group_oldest_age_seconds', coalesce(greatest(0, extract(epoch FROM clock_timestamp() - h.held_at)), 0))
    ) v (metric, value);
END
$$;

-- Returns the ages of the open letters of each queue, and their retention. Letters of ignored groups do not count.
-- Letters that an active policy will redrive wait for a retry, and so do those that a consumer of `dlq_events` has
-- claimed or put off; all others wait for an operator.
-- Index: dead_letters_open_for_redrive, about 2500 rows in total.
CREATE OR REPLACE FUNCTION redrive.metrics_letters()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    queues text[] := ARRAY(SELECT redrive.queues_with_letters(1000));
    -- Letters are large, so a page holds few of them.
    cap    bigint := redrive.metrics_cap(cardinality(queues)) / 4;
    ignored bigint[] := ARRAY(SELECT g.id FROM redrive.groups g WHERE g.state = 'ignored');
BEGIN
    RETURN QUERY
    WITH promised AS MATERIALIZED (
        SELECT w.id FROM redrive.letters_with_policy(queues, cap) AS w (id)
    )
    SELECT v.metric, v.labels, v.value::double precision
    FROM unnest(queues) AS q (queue)
    -- One pass over the oldest letters.
    CROSS JOIN LATERAL (
        SELECT min(few.died_at) FILTER (WHERE few.counts AND NOT few.is_promised) AS for_operator,
               min(few.died_at) FILTER (WHERE few.place = cap) AS last_at,
               min(few.died_at) FILTER (WHERE few.counts AND few.is_promised) AS for_retry
        FROM (
            SELECT l.died_at, row_number() OVER (ORDER BY l.died_at) AS place, l.group_id <> ALL (ignored) AS counts,
                   l.id IN (SELECT w.id FROM promised w)
                       OR coalesce(greatest(l.retry_after, l.claimed_until) > statement_timestamp(), false) AS is_promised
            FROM redrive.dead_letters l
            WHERE l.state = 'open' AND l.queue = q.queue
            ORDER BY l.died_at LIMIT cap
        ) few
    ) older
    -- Behind the last one, the oldest of a group that is not ignored waits for an operator, as far as is known. With too many
    -- groups, the last one stands for it.
    LEFT JOIN LATERAL (
        SELECT CASE WHEN count(*) < cap THEN min(l.died_at) ELSE older.last_at END AS died_at
        FROM (
            SELECT g.id FROM redrive.groups g WHERE g.queue = q.queue AND g.state <> 'ignored' LIMIT cap
        ) g
        LEFT JOIN LATERAL (
            SELECT l.died_at FROM redrive.dead_letters l
            WHERE l.group_id = g.id AND l.state = 'open' AND l.died_at >= older.last_at
            ORDER BY l.died_at LIMIT 1
        ) l ON true
    ) behind ON older.last_at IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT r.keep FROM redrive.retention r
        WHERE r.state = 'open' AND (r.queue = q.queue OR r.queue IS NULL)
        ORDER BY r.queue NULLS LAST LIMIT 1
    ) kept ON true
    CROSS JOIN LATERAL (VALUES
        ('redrive_dlq_oldest_age_seconds', ARRAY[q.queue, 'operator'],
            greatest(0, extract(epoch FROM clock_timestamp() - least(older.for_operator, behind.died_at)))::double precision),
        ('redrive_dlq_oldest_age_seconds', ARRAY[q.queue, 'retry'],
            greatest(0, extract(epoch FROM clock_timestamp() - older.for_retry))),
        ('redrive_dlq_retention_seconds', ARRAY[q.queue], coalesce(extract(epoch FROM kept.keep), 0))
    ) v (metric, labels, value);
END
$$;
