-- Purpose: Reading the counters, and auditing them against the rows.

-- Returns every counter with its value: the folded totals and the rows that are not folded. While a worker lives,
-- there are few; redrive_fold_age_seconds shows a backlog. A histogram has the counts of its buckets, and then its sum. It
-- never reads jobs or letters.
--
-- TRUNCATE also empties a table for transactions that started before it. The tables are therefore locked
-- against it first, and read by a later statement, which needs READ COMMITTED. SECURITY DEFINER, so that the caller needs no other privilege.
CREATE OR REPLACE FUNCTION redrive.metric_totals()
    RETURNS TABLE (metric text, labels text[], numbers double precision[])
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET enable_seqscan = on
    SET synchronize_seqscans = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM redrive.require_read_committed('metric_totals');
    LOCK TABLE redrive.metric_deltas, redrive.metric_values IN ACCESS SHARE MODE;
    RETURN QUERY
    WITH tallies AS MATERIALIZED (
        SELECT (u.key, d.queue, u.label, u.cause, u.bucket, sum(u.count), sum(u.sum), max(d.at))::redrive.metric_values AS tally,
               min(d.at) AS first_at
        FROM redrive.metric_deltas d
        CROSS JOIN LATERAL unnest(d.keys, d.labels, d.causes, d.buckets, d.counts, d.sums)
            AS u (key, label, cause, bucket, count, sum)
        GROUP BY u.key, d.queue, u.label, u.cause, u.bucket
    ),
    placed AS (
        SELECT v.* FROM redrive.metric_values v
        UNION ALL
        SELECT p.*
        FROM redrive.place_metric_tallies((SELECT array_agg(c.tally ORDER BY c.first_at, c.tally) FROM tallies c)) p
    ),
    series AS MATERIALIZED (
        SELECT p.key, p.queue, p.label, p.cause, sum(p.value)::bigint AS value, sum(p.sum) AS sum,
               max(p.last_at) AS last_at, array_agg(p.bucket) AS buckets, array_agg(p.value) AS counts
        FROM placed p
        GROUP BY 1, 2, 3, 4
    )
    SELECT w.metric,
           ARRAY[s.queue] || (ARRAY[s.label, s.cause])[1:cardinality(w.labels)],
           CASE WHEN w.bounds IS NULL THEN ARRAY[s.value]
                ELSE ARRAY(
                    SELECT coalesce(sum(c.count), 0)
                    FROM generate_series(0, cardinality(w.bounds)) AS b (bucket)
                    LEFT JOIN unnest(s.buckets, s.counts) AS c (bucket, count) ON c.bucket = b.bucket
                    GROUP BY b.bucket ORDER BY b.bucket)::double precision[] || s.sum END
    FROM series s
    JOIN redrive.counter_keys w ON w.key = s.key
    WHERE w.metric IS NOT NULL
    UNION ALL
    SELECT 'redrive_queue_live_jobs', ARRAY[s.queue],
           ARRAY[sum(CASE WHEN s.key IN ('enqueued', 'returned') THEN s.value ELSE -s.value END)]
    FROM series s
    WHERE s.key IN ('enqueued', 'returned', 'succeeded', 'ended')
    GROUP BY s.queue
    UNION ALL
    SELECT 'redrive_queue_last_success_timestamp_seconds', ARRAY[s.queue], ARRAY[date_part('epoch', max(s.last_at))]
    FROM series s
    WHERE s.key = 'succeeded'
    GROUP BY s.queue
    UNION ALL
    SELECT 'redrive_fold_age_seconds', '{}', ARRAY[coalesce(date_part('epoch', clock_timestamp() - min(c.first_at)), 0)]
    FROM tallies c
    UNION ALL
    -- A queue without a slot was counted lately.
    SELECT 'redrive_series_folded', '{queue}', '{1}'
    WHERE EXISTS (
        SELECT FROM series s WHERE s.queue = '__other__' AND s.last_at > clock_timestamp() - interval '1 day');
END
$$;

-- Counts the live jobs, and the letters by state, of each queue: the rows, and how many the counters say. Queues without
-- a slot are summed as `__other__`. The caller has locked `jobs`, `leases` and the counters against TRUNCATE.
CREATE OR REPLACE FUNCTION redrive.count_rows()
    RETURNS TABLE (queue text, set text, state text, rows bigint, total bigint)
    LANGUAGE sql STABLE
    SET enable_seqscan = on
AS $$
    WITH counted AS (
        SELECT v.queue, v.key, v.label, v.value FROM redrive.metric_values v
        UNION ALL
        SELECT d.queue, u.key, coalesce(u.label, ''), u.count
        FROM redrive.metric_deltas d
        CROSS JOIN LATERAL unnest(d.keys, d.labels, d.counts) AS u (key, label, count)
    ),
    sides AS (
        SELECT q.queue, 'live' AS set, '' AS state, q.ready + q.delayed + q.leased AS rows, 0::bigint AS total
        FROM redrive.queues q
        WHERE q.ready + q.delayed + q.leased > 0
        UNION ALL
        SELECT l.queue::text, 'dlq', l.state, count(*), 0 FROM redrive.dead_letters l GROUP BY 1, 3
        UNION ALL
        SELECT c.queue, CASE c.key WHEN 'letters' THEN 'dlq' ELSE 'live' END, CASE c.key WHEN 'letters' THEN c.label ELSE '' END, 0,
               sum(CASE WHEN c.key IN ('succeeded', 'ended') THEN -c.value ELSE c.value END)::bigint
        FROM counted c
        WHERE c.key IN ('enqueued', 'returned', 'succeeded', 'ended', 'letters')
        GROUP BY 1, 2, 3
    )
    SELECT coalesce(n.name, '__other__'), s.set, s.state, sum(s.rows)::bigint, sum(s.total)::bigint
    FROM sides s
    LEFT JOIN redrive.metric_slots n ON n.label = 'queue' AND n.queue = '' AND n.name = s.queue
    GROUP BY 1, 2, 3
$$;

-- Compares the counters with the rows, exactly and in one snapshot: how many live jobs and letters each
-- queue has, and how many the totals say; `repair` fixes the drift, which is rows minus total, or the sum of the
-- differences if only the states of letters differ. It reads every job and letter, so run it when the server is idle. It
-- needs READ COMMITTED.
-- Locks: ACCESS SHARE on jobs and the counters, which prevents truncation during the comparison.
CREATE OR REPLACE FUNCTION redrive.audit_counters()
    RETURNS TABLE (queue text, set text, rows bigint, total bigint, drift bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
BEGIN
    PERFORM redrive.require_read_committed('audit_counters');
    -- As in metric_totals; `jobs` and `leases` are truncated too.
    LOCK TABLE redrive.jobs, redrive.leases, redrive.metric_deltas, redrive.metric_values IN ACCESS SHARE MODE;
    RETURN QUERY
    SELECT b.queue, b.set, sum(b.rows)::bigint, sum(b.total)::bigint,
           CASE WHEN sum(b.rows) = sum(b.total) THEN sum(abs(b.rows - b.total))
                ELSE sum(b.rows) - sum(b.total) END::bigint
    FROM redrive.count_rows() b
    GROUP BY 1, 2
    ORDER BY 1, 2 DESC;
END
$$;
