-- Purpose: writes verdicts on leased jobs: done, retry, snooze, dead. One statement removes each job
--          from its lease and stores it where its verdict requires.
-- Called by: pipeline/settle.rs, for a worker's settler, and for its fetcher if claimed jobs have no token of their group.
-- $1 uuid[]    lease of each verdict
-- $2 bigint[]  job
-- $3 text[]    verdict: done, retry, outage (a retry whose attempt is refunded), snooze, dead, refund: a snooze
--              that is counted and, once the job has had its refunds, a retry or a death, or unrun: a refund
--              that is not counted, because no handler ran
-- $4 bigint[]  delay in milliseconds (retry, outage, snooze, refund, unrun)
-- $5 text[]    cause (dead, refund)
-- $6 text[]    error class    $7 text[] error message    $8 text[] error detail
-- $9 bigint[]  run time in milliseconds; NULL: no attempt failed (done, snooze, unrun for want of a slot, dead because it
--              expired)
-- $10 uuid     worker         $11 text  host             $12 text  version
-- $13 boolean  whether this call repeats one whose reply was lost, so that missing verdicts are not refused
-- $14 boolean[] whether the attempt met an outage; the outage of a job starts with the first one in a row
-- $15 integer  process id of the worker
-- $16 text     queue of the worker
-- $17 smallint[] histogram bucket of the delay
-- $18 uuid[], $19 text[], $20 text[], $21 text[], $22 smallint[], $23 bigint[], $24 float8[]
--              counter changes: lease, key, label, cause, bucket, count, sum; see
--              pipeline/tallies.rs
-- $25 text[]   key of the failure group; NULL: the message decides
-- $26 integer  maximum refunds per job
-- Locks: the lease rows; the letters of redriven jobs, in the order of their ids; the unique keys and the
--        slots of groups of jobs that end or back off, which no other session locks. Such a slot may pass to a
--        follower in the same lease.
-- Index relied on: the primary keys of leases and dead_letters; unique_keys_by_job; group_slots_by_job.
-- Rows: the verdicts that were written. A missing verdict was rejected: its lease is lost, or this
--       call repeats one that succeeded but whose reply was lost.
WITH verdicts AS MATERIALIZED (
    SELECT v.lease_id, v.id, v.verdict, v.delay_ms, v.cause, v.error_class, v.error_message,
           v.error_detail, v.run_ms, v.in_outage, v.delay_bucket, v.failure_key
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[],
                $7::text[], $8::text[], $9::bigint[], $14::boolean[], $17::smallint[], $25::text[])
        AS v (lease_id, id, verdict, delay_ms, cause, error_class, error_message,
              error_detail, run_ms, in_outage, delay_bucket, failure_key)
),
offered AS MATERIALIZED (
    SELECT v.lease_id, array_agg(v.id) AS ids, array_agg(v.id) FILTER (WHERE v.verdict <> 'done') AS unfinished
    FROM verdicts v
    GROUP BY v.lease_id
),
-- A lease ends only when the database has settled all its jobs. The worker's view is not enough: a
-- crash or failover may have lost settlements that the worker considers done. The jobs of a lease are only
-- unpacked if a job did not succeed, or if a letter, a unique key or a group may belong to one that did.
ended AS (
    DELETE FROM redrive.leases l
    USING offered o
    WHERE l.lease_id = ANY ($1::uuid[]) AND l.lease_id = o.lease_id
        AND NOT l.done && o.ids AND cardinality(l.done) + cardinality(o.ids) = l.job_count
    RETURNING l.lease_id, l.cancelled,
              CASE WHEN l.metas IS NULL THEN o.unfinished ELSE o.ids END AS wanted,
              CASE WHEN num_nonnulls(l.metas, o.unfinished) > 0 THEN l END AS lease
),
shrunk AS (
    UPDATE redrive.leases l
    SET done = l.done || o.ids
    FROM offered o
    WHERE l.lease_id = ANY ($1::uuid[]) AND l.lease_id = o.lease_id
        AND NOT l.done && o.ids AND cardinality(l.done) + cardinality(o.ids) < l.job_count
    RETURNING l.lease_id, l.cancelled,
              CASE WHEN l.metas IS NULL THEN o.unfinished ELSE o.ids END AS wanted,
              CASE WHEN num_nonnulls(l.metas, o.unfinished) > 0 THEN l END AS lease
),
written AS MATERIALIZED (
    SELECT v.lease_id, v.id, v.verdict
    FROM verdicts v
    FULL JOIN (SELECT e.lease_id FROM ended e UNION ALL SELECT s.lease_id FROM shrunk s) h ON h.lease_id = v.lease_id
    WHERE num_nonnulls(v.id, h.lease_id) = 2
),
settled AS MATERIALIZED (
    SELECT j.lease_id, j.id, (j.job).generation, ((j.job).meta).unique_key, ((j.job).meta).group_key, j.has_company, s.verdict,
           CASE WHEN s.is_cancelled THEN 'manual' ELSE v.cause END AS cause,
           v.verdict AS told, v.delay_ms, v.delay_bucket, v.error_class, v.error_message, v.error_detail, v.failure_key,
           -- LEAST ignores a NULL.
           CASE WHEN v.verdict = 'dead' AND v.run_ms IS NOT NULL THEN least(v.run_ms, 2147483647)::integer END AS run_ms,
           CASE WHEN s.verdict <> 'done' THEN redrive.altered(
               j.job,
               -- A job that expired or did not run made no attempt.
               CASE WHEN s.verdict IN ('snooze', 'outage') OR v.verdict = 'unrun' OR v.cause = 'expired' THEN (j.job).attempt - 1
                   ELSE (j.job).attempt END,
               -- No handler has shown that a suspect is innocent.
               CASE WHEN s.verdict = 'dead' OR v.verdict = 'unrun' THEN (j.job).crashes ELSE 0 END,
               (j.job).refunds + (v.verdict = 'refund' AND (j.job).refunds < $26::integer)::integer,
               CASE
                   WHEN v.run_ms IS NULL THEN NULL
                   -- The last attempt is stored in the letter's own columns.
                   WHEN v.verdict = 'dead' THEN redrive.cut_history((j.job).history, 19)
                   ELSE redrive.add_attempt((j.job).history, jsonb_build_object(
                       'generation', (j.job).generation, 'attempt', (j.job).attempt, 'outcome', CASE v.verdict
                           WHEN 'retry' THEN 'failed' WHEN 'outage' THEN 'outage' ELSE 'interrupted' END,
                       'run_ms', v.run_ms, 'error_class', v.error_class, 'error_message', left(v.error_message, 1000),
                       'worker', $10::uuid, 'host', $11::text, 'version', $12::text, 'pid', $15::integer,
                       'ended_at', clock_timestamp()))
               END,
               CASE WHEN v.verdict <> 'unrun' THEN coalesce(v.in_outage, false) END,
               CASE WHEN v.delay_ms > 0 THEN clock_timestamp() + v.delay_ms * interval '1 millisecond' END) END AS job
    FROM (
        SELECT h.lease_id, h.cancelled, (h.lease).job_count > 1 AS has_company, u.id, u AS job
        FROM (TABLE ended UNION ALL TABLE shrunk) h
        CROSS JOIN LATERAL redrive.some_jobs_of(h.lease, h.wanted) u
        WHERE h.wanted IS NOT NULL
    ) j
    -- Logically an inner join. The planner assumes short arrays and would choose nested loops: a
    -- million steps for a thousand verdicts. A full join is always hashed or merged, and the
    -- condition below keeps the planner from reducing it to an inner join.
    FULL JOIN verdicts v ON v.lease_id = j.lease_id AND v.id = j.id
    CROSS JOIN LATERAL (
        SELECT c.is_cancelled, CASE
            WHEN c.is_cancelled THEN 'dead'
            WHEN v.verdict = 'unrun' THEN 'snooze'
            WHEN v.verdict <> 'refund' THEN v.verdict
            WHEN (j.job).refunds < $26::integer THEN 'snooze'
            WHEN (j.job).attempt < (j.job).max_attempts THEN 'retry'
            ELSE 'dead'
        END AS verdict
        FROM (SELECT j.id = ANY (j.cancelled) AND v.verdict NOT IN ('done', 'dead') AS is_cancelled) c
    ) s
    WHERE num_nonnulls(j.id, v.verdict) = 2
),
-- The lock order of letters and groups; see redrive.bury. The turn of a diverted group passes to a later letter.
letters AS MATERIALIZED (
    SELECT l.id
    FROM redrive.dead_letters l
    WHERE l.id = ANY (ARRAY(
            SELECT s.id FROM settled s WHERE s.generation > 0 AND s.verdict IN ('done', 'dead')))
    ORDER BY l.id
    FOR NO KEY UPDATE
),
-- Frees the slots of groups whose jobs ended or back off, or passes them on to followers in the same lease. Functions,
-- so that a statement without a job of a group does not open the table. The triggers of letters free the slots of jobs
-- that died.
passed AS MATERIALIZED (
    SELECT redrive.free_slots(
        coalesce(array_agg(s.id) FILTER (WHERE s.verdict = 'done'), '{}'),
        coalesce(array_agg(s.id) FILTER (WHERE s.verdict <> 'done'), '{}'))
    FROM settled s
    WHERE s.group_key IS NOT NULL AND NOT s.has_company
        AND (s.verdict = 'done' OR s.verdict IN ('retry', 'outage', 'snooze') AND s.delay_ms > 0)
        AND (SELECT count(*) FROM letters) >= 0
    HAVING count(*) > 0
    UNION ALL
    SELECT redrive.pass_slots(h.lease, g.done, g.delayed, g.dead, g.ready)
    FROM (TABLE ended UNION ALL TABLE shrunk) h
    CROSS JOIN LATERAL (
        SELECT array_agg(s.id) FILTER (WHERE s.verdict = 'done') AS done,
               array_agg(s.id) FILTER (WHERE s.verdict = 'dead') AS dead,
               array_agg(s.id) FILTER (WHERE s.verdict IN ('retry', 'outage', 'snooze') AND s.delay_ms > 0) AS delayed,
               array_agg(s.id) FILTER (WHERE s.verdict IN ('retry', 'outage', 'snooze') AND s.delay_ms <= 0) AS ready
        FROM settled s
        WHERE s.lease_id = h.lease_id AND s.group_key IS NOT NULL
        HAVING count(*) > 0
    ) g
    WHERE (h.lease).job_count > 1 AND (SELECT count(*) FROM letters) >= 0
),
returned AS MATERIALIZED (
    SELECT redrive.requeue(array_agg(s.job) FILTER (WHERE s.delay_ms <= 0),
                           array_agg(s.job) FILTER (WHERE s.delay_ms > 0), true)
    FROM settled s
    -- The turns have passed before.
    WHERE s.verdict IN ('retry', 'outage', 'snooze') AND (SELECT count(*) FROM passed) >= 0
    HAVING count(*) > 0
),
died AS MATERIALIZED (
    SELECT redrive.bury(array_agg(s.job), array_agg(ROW(
               s.cause, s.error_class, s.error_message, s.error_detail, s.failure_key, s.run_ms,
               $10::uuid, $11::text, $12::text, $15::integer)::redrive.death))
    FROM settled s
    WHERE s.verdict = 'dead' AND (SELECT count(*) FROM returned) >= 0
    HAVING count(*) > 0
),
-- Frees the unique keys of jobs that are done. No other session locks the key of a live job; see
-- redrive.take_key. The array keeps the planner from reading all keys.
freed AS (
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(
        SELECT s.id FROM settled s WHERE s.unique_key IS NOT NULL AND s.verdict = 'done'))
),
-- The array and the expression on the state keep the planner from using an index on the state.
-- With statistics that show no redriving letters, it would scan all of them for each job.
recovered AS (
    UPDATE redrive.dead_letters l
    SET state = 'recovered', changed_at = clock_timestamp()
    WHERE l.id = ANY (ARRAY(
            SELECT s.id FROM settled s WHERE s.verdict = 'done' AND s.generation > 0))
        AND l.state || '' = 'redriving' AND (SELECT count(*) FROM letters) >= 0
),
-- The worker's counts of attempts for leases that were held, and what became of the jobs, which only the server knows.
counted AS (
    INSERT INTO redrive.metric_deltas (queue, keys, labels, causes, buckets, counts, sums)
    SELECT $16, array_agg(c.key), array_agg(c.label), array_agg(c.cause), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT u.key, u.label, u.cause, u.bucket, u.count, u.sum
        FROM unnest($18::uuid[], $19::text[], $20::text[], $21::text[], $22::smallint[], $23::bigint[],
                    $24::float8[]) AS u (lease_id, key, label, cause, bucket, count, sum)
        WHERE u.lease_id = ANY (ARRAY(SELECT e.lease_id FROM ended e UNION ALL SELECT s.lease_id FROM shrunk s))
        UNION ALL
        SELECT x.key, NULL, NULL, x.bucket, count(*), sum(x.seconds)
        FROM settled s
        CROSS JOIN LATERAL (VALUES
            (CASE WHEN s.verdict = 'dead' THEN 'ended' WHEN s.verdict IN ('retry', 'outage') THEN 'retried'
                  WHEN s.told = 'snooze' THEN 'snoozed' WHEN s.verdict = 'snooze' THEN 'released' END,
             NULL::smallint, NULL::double precision),
            (CASE WHEN s.verdict = 'retry' AND s.told = 'retry' THEN 'retry_delay' END, s.delay_bucket, s.delay_ms / 1000.0)
        ) AS x (key, bucket, seconds)
        WHERE x.key IS NOT NULL
        GROUP BY x.key, x.bucket
        UNION ALL
        SELECT 'refused', NULL, NULL, NULL, n.refused, NULL
        -- A job that did not run has no result.
        FROM (
            SELECT cardinality(array_remove($3::text[], 'unrun')) - count(*) FILTER (WHERE w.verdict <> 'unrun') AS refused
            FROM written w
        ) n
        WHERE n.refused > 0 AND NOT $13::boolean
    ) c
    HAVING count(*) > 0
)
SELECT w.lease_id, w.id
FROM written w
WHERE (SELECT count(*) FROM passed) + (SELECT count(*) FROM returned) + (SELECT count(*) FROM died) >= 0
