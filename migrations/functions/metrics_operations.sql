-- Purpose: Gauges of workers, breakers, pauses, rate limits, schedules and redrive runs.

-- Returns the gauges, and the counters of runs. Tables that compaction rewrites are locked before they are read,
-- by later statements: a snapshot that is older than the TRUNCATE finds them empty, and counters would fall.
-- Index: redrive_runs_unfinished, run_deltas_by_run; workers, breakers and queue_pauses are small; redrive_runs has one row
-- per run.
CREATE OR REPLACE FUNCTION redrive.metrics_operations()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    LOCK TABLE redrive.workers, redrive.leases, redrive.rate_buckets, redrive.run_deltas IN ACCESS SHARE MODE;
    RETURN QUERY
    SELECT 'redrive_workers',
           ARRAY[w.queue::text, CASE WHEN w.expires_at <= statement_timestamp() THEN 'expired'
                                     WHEN w.waiting THEN 'waiting' ELSE 'busy' END],
           count(*)::double precision
    FROM redrive.workers w
    GROUP BY 2;

    RETURN QUERY
    SELECT v.metric, ARRAY[s.queue], v.value::double precision
    FROM redrive.served_queues s
    CROSS JOIN LATERAL (VALUES
        ('redrive_worker_slots', s.slots), ('redrive_worker_slots_busy', s.busy)
    ) v (metric, value);

    -- The breaker of a dependency counts for each queue with a worker for a kind that needs it. One that no handler has
    -- named holds nothing and counts nowhere.
    RETURN QUERY
    SELECT 'redrive_breakers',
           ARRAY[CASE WHEN b.name LIKE 'queue:%' THEN substr(b.name, 7) ELSE coalesce(held.queue, '__other__') END, b.state],
           count(*)::double precision
    FROM redrive.breakers b
    LEFT JOIN LATERAL (
        SELECT DISTINCT w.queue::text AS queue FROM redrive.workers w
        WHERE b.name NOT LIKE 'queue:%' AND w.expires_at > statement_timestamp()
            AND (w.kinds IS NULL OR w.kinds && b.kinds)
    ) held ON true
    WHERE b.state <> 'closed' AND (b.name LIKE 'queue:%' OR b.kinds <> '{}')
    GROUP BY 2;

    RETURN QUERY
    SELECT v.metric, v.labels, v.value::double precision
    FROM redrive.paused_queues p
    CROSS JOIN LATERAL (VALUES
        ('redrive_queue_paused', ARRAY[p.queue, CASE WHEN p.ends_at IS NULL THEN 'none' ELSE 'planned' END], 1),
        ('redrive_queue_paused_seconds', ARRAY[p.queue],
            greatest(0, extract(epoch FROM statement_timestamp() - p.paused_at)))
    ) v (metric, labels, value);

    -- The limits of the first hundred kinds keep their names.
    RETURN QUERY
    SELECT v.metric, ARRAY[n.queue, n.label], max(v.value)
    FROM (
        SELECT l.queue::text AS queue,
               CASE WHEN l.each_group THEN '__each_group__'
                    WHEN l.kind = '' THEN '__queue__'
                    WHEN row_number() OVER (PARTITION BY l.kind = '' ORDER BY l.set_at, l.queue, l.kind) <= 100 THEN l.kind
                    ELSE '__other__' END AS label,
               CASE WHEN l.each_group THEN redrive.fewest_tokens(l) ELSE redrive.tokens_now(b, l) END AS tokens,
               redrive.token_capacity(l) AS capacity
        FROM redrive.rate_limits l
        LEFT JOIN redrive.rate_buckets b ON b.queue = l.queue AND b.kind = l.kind AND NOT l.each_group
    ) n
    CROSS JOIN LATERAL (VALUES
        ('redrive_rate_limit_use_ratio', least(1, greatest(0, 1 - n.tokens / n.capacity))),
        ('redrive_rate_limit_empty', (n.tokens < 1)::integer)
    ) v (metric, value)
    GROUP BY 1, 2;

    -- The first hundred schedules keep their names. A lease is read once for all schedules of its queue.
    RETURN QUERY
    WITH named AS MATERIALIZED (
        SELECT s.name, s.queue, s.priority, s.next_at, s.changed_at,
               s.paused_at IS NOT NULL OR redrive.is_policy_held(s.policy) AS waits,
               CASE WHEN row_number() OVER (ORDER BY s.created_at, s.name) <= 100 THEN s.name::text ELSE '__other__' END
                   AS label
        FROM redrive.schedules s
    ),
    latest AS MATERIALIZED (
        SELECT n.name, n.queue, n.priority, t.id, t.job_id
        FROM named n
        CROSS JOIN LATERAL (
            SELECT k.id, k.job_id FROM redrive.schedule_ticks k
            WHERE k.schedule = n.name AND k.outcome IN ('fired', 'triggered')
            ORDER BY k.id DESC LIMIT 10
        ) t
    ),
    leased AS MATERIALIZED (
        SELECT i.id FROM redrive.leases l CROSS JOIN LATERAL unnest(l.ids) AS i (id)
        WHERE l.queue = ANY (ARRAY(SELECT n.queue FROM named n)) AND i.id <> ALL (l.done)
            AND i.id = ANY (ARRAY(SELECT t.job_id FROM latest t))
    ),
    ended AS (
        SELECT t.name, t.id, coalesce(d.state <> 'recovered', false) AS is_dead
        FROM latest t
        LEFT JOIN redrive.dead_letters d ON d.id = t.job_id
        WHERE d.state IS DISTINCT FROM 'redriving'
            AND NOT EXISTS (SELECT FROM leased i WHERE i.id = t.job_id)
            AND NOT EXISTS (SELECT FROM redrive.jobs_delayed j WHERE j.id = t.job_id)
            AND NOT EXISTS (
                SELECT FROM redrive.jobs j
                WHERE j.queue = t.queue AND j.rank = -2 * t.priority
                    AND j.id = t.job_id)
    ),
    in_a_row AS (
        SELECT r.name, count(*) FILTER (WHERE r.all_dead) AS deaths
        FROM (SELECT e.name, bool_and(e.is_dead) OVER (PARTITION BY e.name ORDER BY e.id DESC) AS all_dead FROM ended e) r
        GROUP BY r.name
    )
    SELECT v.metric, ARRAY[n.label], max(v.value)::double precision
    FROM named n
    LEFT JOIN in_a_row i ON i.name = n.name
    CROSS JOIN LATERAL (VALUES
        ('redrive_schedule_lag_seconds', CASE WHEN NOT n.waits THEN
            greatest(extract(epoch FROM statement_timestamp() - coalesce(n.next_at, n.changed_at)), 0) ELSE 0 END),
        ('redrive_schedule_deaths', coalesce(i.deaths, 0))
    ) v (metric, value)
    GROUP BY 1, 2;

    RETURN QUERY
    SELECT 'redrive_runs', ARRAY[r.state], count(*)::double precision
    FROM redrive.redrive_runs r
    WHERE r.state IN ('unapproved', 'running', 'paused', 'halted')
    GROUP BY r.state;

    -- The view counts what is not folded yet, too.
    RETURN QUERY
    SELECT v.metric, v.labels, coalesce(v.value, 0)::double precision
    FROM (
        SELECT sum(r.total - r.cursor) FILTER (WHERE r.state IN ('running', 'paused', 'halted')) AS waiting,
               (SELECT greatest(0, extract(epoch FROM statement_timestamp() - min(i.progress_at)))
                FROM redrive.redrive_runs i WHERE i.state = 'running' AND i.cursor < i.total) AS idle,
               sum(r.still_running) AS unsettled, sum(r.recovered) AS recovered, sum(r.died_alike) AS alike,
               sum(r.died_differently) AS differently
        FROM redrive.runs r
    ) a
    CROSS JOIN LATERAL (VALUES
        ('redrive_run_letters_waiting', '{}'::text[], a.waiting),
        ('redrive_run_letters_unsettled', '{}', a.unsettled),
        ('redrive_run_idle_seconds', '{}', a.idle),
        ('redrive_run_outcomes_total', '{recovered}', a.recovered),
        ('redrive_run_outcomes_total', '{died_alike}', a.alike),
        ('redrive_run_outcomes_total', '{died_differently}', a.differently)
    ) v (metric, labels, value);
END
$$;
