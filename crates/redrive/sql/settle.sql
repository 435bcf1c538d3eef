-- Purpose: writes verdicts on leased jobs under their leases: done, retry, snooze, dead.
--          Each job leaves its lease and arrives where the verdict says, in one statement.
-- Called by: settle.rs, by a worker's settler.
-- $1 uuid[]    lease of each verdict
-- $2 bigint[]  job
-- $3 text[]    verdict: done, retry, outage (a retry whose attempt is given back), snooze, dead
-- $4 bigint[]  delay in milliseconds (retry, outage, snooze)
-- $5 text[]    reason (dead)
-- $6 text[]    error class    $7 text[] error message    $8 text[] error detail
-- $9 jsonb[]   record of the attempt for the history; NULL: none (done, snooze)
-- $10 uuid     worker         $11 text  host             $12 text  version
-- $13 text     the reason of a cancelled job: manual
-- $14 boolean[] whether the attempt met an outage: its job is in one since the first in a row
-- $15 integer  process id of the worker
-- $16 text     queue of the worker
-- $17 smallint[] the bucket of the delay
-- $18 uuid[], $19 text[], $20 text[], $21 text[], $22 smallint[], $23 bigint[], $24 double precision[]
--              what is to be counted: lease, word, label, cause, bucket, count, sum; see
--              worker/cells.rs
-- Locks: the lease rows; the letters of redriven jobs, in the order of their ids; the keys of jobs that
--        end, in their order.
-- Index relied on: the primary keys of leases and dead_letters; unique_keys_by_job.
-- Rows: the verdicts that were written. A missing one bounced: its lease is lost, or the same
--       call was answered into the void before and is repeated now.
WITH verdicts AS MATERIALIZED (
    SELECT v.lease_id, v.id, v.verdict, v.delay_ms, v.reason, v.error_class, v.error_message,
           v.error_detail, v.attempt_record, v.in_outage, v.delay_bucket
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[],
                $7::text[], $8::text[], $9::jsonb[], $14::boolean[], $17::smallint[])
        AS v (lease_id, id, verdict, delay_ms, reason, error_class, error_message,
              error_detail, attempt_record, in_outage, delay_bucket)
),
offered AS MATERIALIZED (
    SELECT v.lease_id, array_agg(v.id) AS ids FROM verdicts v GROUP BY v.lease_id
),
-- A lease ends when all its jobs are done, and nobody can end it sooner: its worker may be sure of
-- a part that this database never had, or that it lost with its last second.
ended AS (
    DELETE FROM redrive.leases l
    USING offered o
    WHERE l.lease_id = ANY ($1::uuid[]) AND l.lease_id = o.lease_id
        AND NOT l.done && o.ids AND cardinality(l.done) + cardinality(o.ids) = l.job_count
    RETURNING l.lease_id, l.queue, l.jobs, l.cancelled
),
shrunk AS (
    UPDATE redrive.leases l
    SET done = l.done || o.ids
    FROM offered o
    WHERE l.lease_id = ANY ($1::uuid[]) AND l.lease_id = o.lease_id
        AND NOT l.done && o.ids AND cardinality(l.done) + cardinality(o.ids) < l.job_count
    RETURNING l.lease_id, l.queue, l.jobs, l.cancelled
),
settled AS MATERIALIZED (
    SELECT j.lease_id, j.queue::text AS queue, j.id, j.kind, j.priority, j.payload,
           j.max_attempts, j.generation, j.crashes, j.refunds, j.enqueued_at, j.attempt,
           j.unique_key,
           CASE WHEN v.in_outage THEN coalesce(j.outage_since, clock_timestamp()) END AS outage_since,
           CASE
               WHEN j.id = ANY (j.cancelled) AND v.verdict IN ('retry', 'outage', 'snooze') THEN 'dead'
               ELSE v.verdict
           END AS verdict,
           CASE
               WHEN j.id = ANY (j.cancelled) AND v.verdict IN ('retry', 'outage', 'snooze') THEN $13::text
               ELSE v.reason
           END AS reason,
           v.verdict AS told, v.delay_ms, v.delay_bucket, v.error_class, v.error_message,
           v.error_detail,
           CASE
               WHEN v.attempt_record IS NULL THEN j.history
               -- The letter itself tells of the attempt that it died of.
               WHEN v.verdict = 'dead' THEN redrive.remember_before(j.history, v.attempt_record)
               -- The first failure is the usual one, and needs no look at others.
               WHEN j.history IS NULL THEN
                   jsonb_build_array(v.attempt_record || jsonb_build_object('ended_at', clock_timestamp()))
               ELSE redrive.remember(j.history, v.attempt_record
                                     || jsonb_build_object('ended_at', clock_timestamp()))
           END AS history,
           CASE WHEN v.verdict = 'dead'
               THEN least((v.attempt_record -> 'run_ms')::numeric, 2147483647)::integer END AS run_ms
    FROM (
        SELECT h.lease_id, h.queue, h.cancelled, u.*
        FROM (TABLE ended UNION ALL TABLE shrunk) h
        CROSS JOIN LATERAL unnest(h.jobs)
            AS u (id, kind, priority, payload, attempt, max_attempts, generation, crashes, refunds,
                  enqueued_at, history, unique_key, outage_since)
    ) j
    -- An inner join in meaning. The planner cannot know how long the arrays are, takes them for
    -- short and would nest loops, a million steps for a thousand verdicts; a full join can only
    -- be hashed or merged, and the condition keeps the planner from seeing through it.
    FULL JOIN verdicts v ON v.lease_id = j.lease_id AND v.id = j.id
    WHERE num_nonnulls(j.id, v.verdict) = 2
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds,
         queue, kind, payload, history, unique_key, outage_since)
    SELECT r.segment, s.id, s.enqueued_at,
           CASE WHEN s.verdict IN ('snooze', 'outage') THEN s.attempt - 1 ELSE s.attempt END,
           s.max_attempts, s.generation, s.priority, 0, s.refunds,
           s.queue, s.kind, s.payload, s.history, s.unique_key, s.outage_since
    FROM settled s
    CROSS JOIN redrive.ring r
    WHERE s.verdict IN ('retry', 'outage', 'snooze') AND s.delay_ms <= 0
),
delayed AS (
    INSERT INTO redrive.jobs_delayed
        (run_at, id, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds,
         queue, kind, payload, history, unique_key, outage_since)
    SELECT clock_timestamp() + s.delay_ms * interval '1 millisecond', s.id, s.enqueued_at,
           CASE WHEN s.verdict IN ('snooze', 'outage') THEN s.attempt - 1 ELSE s.attempt END,
           s.max_attempts, s.generation, s.priority, 0, s.refunds,
           s.queue, s.kind, s.payload, s.history, s.unique_key, s.outage_since
    FROM settled s
    WHERE s.verdict IN ('retry', 'outage', 'snooze') AND s.delay_ms > 0
),
-- The letters of redriven jobs, before any of them is changed, in the order of their ids: so does
-- everybody who waits for several, and nobody for each other.
letters AS MATERIALIZED (
    SELECT l.id
    FROM redrive.dead_letters l
    WHERE l.id = ANY (ARRAY(
        SELECT s.id FROM settled s WHERE s.generation > 0 AND s.verdict IN ('done', 'dead')))
    ORDER BY l.id
    FOR NO KEY UPDATE
),
-- A redriven job has a letter already: it opens again, one generation on.
died AS (
    INSERT INTO redrive.dead_letters
        (id, queue, kind, reason, error_class, error_message, error_detail, payload, priority,
         attempts, max_attempts, generation, crashes, history, worker_id, host, version,
         enqueued_at, unique_key, pid, run_ms)
    SELECT s.id, s.queue, s.kind, s.reason, s.error_class, s.error_message, s.error_detail,
           s.payload, s.priority, s.attempt, s.max_attempts, s.generation, s.crashes,
           coalesce(s.history, '[]'), $10::uuid, $11::text, $12::text, s.enqueued_at, s.unique_key,
           $15::integer, s.run_ms
    FROM settled s
    WHERE s.verdict = 'dead' AND (SELECT count(*) FROM letters) >= 0
    -- Oldest first, whatever the join made of the order.
    ORDER BY s.id
    ON CONFLICT (id) DO UPDATE
    SET state = 'open', reason = excluded.reason, error_class = excluded.error_class,
        error_message = excluded.error_message, error_detail = excluded.error_detail,
        payload = excluded.payload, priority = excluded.priority, attempts = excluded.attempts,
        max_attempts = excluded.max_attempts, generation = excluded.generation,
        crashes = excluded.crashes, history = excluded.history, worker_id = excluded.worker_id,
        host = excluded.host, version = excluded.version, discard_reason = NULL,
        unique_key = excluded.unique_key, pid = excluded.pid, run_ms = excluded.run_ms,
        group_id = excluded.group_id, detail_id = excluded.detail_id,
        died_at = excluded.died_at, changed_at = excluded.changed_at
),
-- A job that ended holds its key no longer. By an array, so that no plan reads all the keys; and in
-- the order of the keys, in which an enqueue takes them.
freed AS (
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(
        SELECT h.job_id
        FROM redrive.unique_keys h
        WHERE h.job_id = ANY (ARRAY(
            SELECT s.id FROM settled s WHERE s.unique_key IS NOT NULL AND s.verdict IN ('done', 'dead')))
        ORDER BY h.queue, h.key
        FOR UPDATE))
),
-- By an array, and the state in words that no index has: a server that has learnt that no letter
-- is ever redriving would look through all of those for each job.
recovered AS (
    UPDATE redrive.dead_letters l
    SET state = 'recovered', changed_at = clock_timestamp()
    WHERE l.id = ANY (ARRAY(
            SELECT s.id FROM settled s WHERE s.verdict = 'done' AND s.generation > 0))
        AND l.state || '' = 'redriving' AND (SELECT count(*) FROM letters) >= 0
),
-- What the worker counted, of leases that were held; and what it could not know.
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, labels, causes, buckets, counts, sums)
    SELECT m.segment, $16, array_agg(c.word), array_agg(c.label), array_agg(c.cause), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT u.word, u.label, u.cause, u.bucket, u.count, u.sum
        FROM unnest($18::uuid[], $19::text[], $20::text[], $21::text[], $22::smallint[], $23::bigint[],
                    $24::double precision[]) AS u (lease_id, word, label, cause, bucket, count, sum)
        WHERE u.lease_id = ANY (ARRAY(SELECT e.lease_id FROM ended e UNION ALL SELECT s.lease_id FROM shrunk s))
        UNION ALL
        -- Cancelled meanwhile: it died, and was neither retried nor snoozed.
        SELECT x.word, NULL, NULL, x.bucket, x.count, x.sum
        FROM settled s
        CROSS JOIN LATERAL (VALUES
            ('ended', NULL::smallint, 1, NULL::double precision),
            (CASE s.told WHEN 'snooze' THEN 'snoozed' ELSE 'retried' END, NULL, -1, NULL),
            (CASE s.told WHEN 'retry' THEN 'retry_delay' END, s.delay_bucket, -1, s.delay_ms / -1000.0)
        ) AS x (word, bucket, count, sum)
        WHERE s.verdict <> s.told AND x.word IS NOT NULL
        UNION ALL
        SELECT 'refused', NULL, NULL, NULL, n.refused, NULL
        FROM (SELECT cardinality($1::uuid[]) - count(*) AS refused FROM settled) n
        WHERE n.refused > 0
    ) c
    CROSS JOIN redrive.metric_ring m
    GROUP BY m.segment
)
SELECT s.lease_id, s.id
FROM settled s
