-- Purpose: writes verdicts on leased jobs under their leases: done, retry, snooze, dead.
--          Each job leaves its lease and arrives where the verdict says, in one statement.
-- Called by: settle.rs, by a worker's settler.
-- $1 uuid[]    lease of each verdict
-- $2 integer[] ordinal of the job in the lease
-- $3 text[]    verdict: done, retry, outage (a retry whose attempt is given back), snooze, dead
-- $4 bigint[]  delay in milliseconds (retry, outage, snooze)
-- $5 text[]    reason (dead)
-- $6 text[]    error class    $7 text[] error message    $8 text[] error detail
-- $9 jsonb[]   record of the attempt for the history; NULL: none (done, snooze)
-- $10 uuid[]   the leases that end with this call: no job of theirs is left
-- $11 uuid     worker         $12 text  host             $13 text  version
-- $14 text     the reason of a cancelled job: manual
-- $15 boolean[] whether the attempt met an outage: its job is in one since the first in a row
-- $16 integer  process id of the worker
-- $17 text     queue of the worker
-- $18 text[]   cause of a failed attempt; NULL: it did not fail
-- $19 double precision[] how long it ran, in seconds
-- $20 double precision[] how long ago the job was enqueued, in seconds
-- $21 smallint[] $22 smallint[] $23 smallint[] $24 smallint[]
--              the buckets of how long it ran, of that age, of its attempts, of its delay
-- $25 double precision[] how long it had waited for its claim, in seconds
-- $26 smallint[] the bucket of that
-- Locks: the lease rows, the letters of redriven jobs.
-- Index relied on: the primary keys of leases and dead_letters; unique_keys_by_job.
-- Rows: the verdicts that were written. A missing one bounced: its lease is lost, or the same
--       call was answered into the void before and is repeated now.
WITH verdicts AS MATERIALIZED (
    SELECT v.lease_id, v.ordinal, v.verdict, v.delay_ms, v.reason, v.error_class,
           v.error_message, v.error_detail, v.attempt_record, v.in_outage, v.cause, v.run_time, v.age,
           v.run_bucket, v.age_bucket, v.attempts_bucket, v.delay_bucket, v.wait, v.wait_bucket
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::bigint[], $5::text[], $6::text[],
                $7::text[], $8::text[], $9::jsonb[], $15::boolean[], $18::text[],
                $19::double precision[], $20::double precision[], $21::smallint[], $22::smallint[],
                $23::smallint[], $24::smallint[], $25::double precision[], $26::smallint[])
        AS v (lease_id, ordinal, verdict, delay_ms, reason, error_class, error_message,
              error_detail, attempt_record, in_outage, cause, run_time, age, run_bucket, age_bucket,
              attempts_bucket, delay_bucket, wait, wait_bucket)
),
ended AS (
    DELETE FROM redrive.leases l
    WHERE l.lease_id = ANY ($10::uuid[])
    RETURNING l.lease_id, l.queue, l.jobs, l.cancelled
),
shrunk AS (
    UPDATE redrive.leases l
    SET done = l.done || v.ordinals
    FROM (
        SELECT verdicts.lease_id, array_agg(verdicts.ordinal) AS ordinals
        FROM verdicts
        WHERE verdicts.lease_id <> ALL ($10::uuid[])
        GROUP BY verdicts.lease_id
    ) v
    WHERE l.lease_id = v.lease_id AND NOT l.done && v.ordinals
    RETURNING l.lease_id, l.queue, l.jobs, l.cancelled
),
settled AS MATERIALIZED (
    SELECT j.lease_id, j.queue::text AS queue, j.id, j.kind, j.priority, j.payload,
           j.max_attempts, j.generation, j.crashes, j.refunds, j.enqueued_at, j.ordinal,
           j.attempt, j.unique_key,
           CASE WHEN v.in_outage THEN coalesce(j.outage_since, clock_timestamp()) END AS outage_since,
           CASE
               WHEN j.id = ANY (j.cancelled) AND v.verdict IN ('retry', 'outage', 'snooze') THEN 'dead'
               ELSE v.verdict
           END AS verdict,
           CASE
               WHEN j.id = ANY (j.cancelled) AND v.verdict IN ('retry', 'outage', 'snooze') THEN $14::text
               ELSE v.reason
           END AS reason,
           v.delay_ms, v.error_class, v.error_message, v.error_detail, v.cause, v.run_time, v.age,
           v.run_bucket, v.age_bucket, v.attempts_bucket, v.delay_bucket, v.wait, v.wait_bucket,
           CASE
               WHEN v.attempt_record IS NULL THEN j.history
               -- The letter itself tells of the attempt that it died of.
               WHEN v.verdict = 'dead' THEN redrive.remember_before(j.history, v.attempt_record)
               ELSE redrive.remember(j.history, v.attempt_record
                                     || jsonb_build_object('ended_at', clock_timestamp()))
           END AS history,
           CASE WHEN v.verdict = 'dead'
               THEN least((v.attempt_record -> 'run_ms')::numeric, 2147483647)::integer END AS run_ms
    FROM (
        SELECT h.lease_id, h.queue, h.cancelled, u.*
        FROM (TABLE ended UNION ALL TABLE shrunk) h
        CROSS JOIN LATERAL unnest(h.jobs) WITH ORDINALITY
            AS u (id, kind, priority, payload, attempt, max_attempts, generation, crashes, refunds,
                  enqueued_at, history, unique_key, outage_since, ordinal)
    ) j
    -- An inner join in meaning. The planner cannot know how long the arrays are, takes them for
    -- short and would nest loops, a million steps for a thousand verdicts; a full join can only
    -- be hashed or merged, and the condition keeps the planner from seeing through it.
    FULL JOIN verdicts v ON v.lease_id = j.lease_id AND v.ordinal = j.ordinal
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
-- A redriven job has a letter already: it opens again, one generation on.
died AS (
    INSERT INTO redrive.dead_letters
        (id, queue, kind, reason, error_class, error_message, error_detail, payload, priority,
         attempts, max_attempts, generation, crashes, history, worker_id, host, version,
         enqueued_at, unique_key, pid, run_ms)
    SELECT s.id, s.queue, s.kind, s.reason, s.error_class, s.error_message, s.error_detail,
           s.payload, s.priority, s.attempt, s.max_attempts, s.generation, s.crashes,
           coalesce(s.history, '[]'), $11::uuid, $12::text, $13::text, s.enqueued_at, s.unique_key,
           $16::integer, s.run_ms
    FROM settled s
    WHERE s.verdict = 'dead'
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
-- A job that ended holds its key no longer. By an array, so that no plan reads all the keys.
freed AS (
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(
        SELECT s.id FROM settled s WHERE s.unique_key IS NOT NULL AND s.verdict IN ('done', 'dead')))
),
recovered AS (
    UPDATE redrive.dead_letters l
    SET state = 'recovered', changed_at = clock_timestamp()
    FROM settled s
    WHERE s.verdict = 'done' AND s.generation > 0 AND l.id = s.id AND l.state = 'redriving'
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, labels, causes, buckets, counts, sums)
    SELECT m.segment, $17, array_agg(c.word), array_agg(c.label), array_agg(c.cause), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT x.word, x.label, x.cause, x.bucket, count(*) AS count, sum(x.observed) AS sum
        FROM settled s
        CROSS JOIN LATERAL (VALUES
            (CASE s.verdict WHEN 'done' THEN 'succeeded' WHEN 'retry' THEN 'retried'
                            WHEN 'outage' THEN 'retried' WHEN 'snooze' THEN 'snoozed' ELSE 'ended' END,
             CASE s.verdict WHEN 'done' THEN s.kind END, NULL, NULL::smallint, NULL::double precision),
            (CASE WHEN s.cause IS NOT NULL THEN 'failed' END, s.kind, s.cause, NULL, NULL),
            (CASE WHEN s.cause IS NOT NULL OR s.verdict = 'done' THEN 'run' END,
             CASE s.verdict WHEN 'done' THEN 'succeeded' ELSE 'failed' END, NULL, s.run_bucket, s.run_time),
            ('wait', NULL, NULL, s.wait_bucket, s.wait),
            (CASE s.verdict WHEN 'done' THEN 'end_to_end' END, NULL, NULL, s.age_bucket, s.age),
            (CASE s.verdict WHEN 'done' THEN 'attempts_done' END, NULL, NULL, s.attempts_bucket, s.attempt),
            (CASE s.verdict WHEN 'retry' THEN 'retry_delay' END, NULL, NULL, s.delay_bucket,
             s.delay_ms / 1000.0)
        ) AS x (word, label, cause, bucket, observed)
        WHERE x.word IS NOT NULL
        GROUP BY 1, 2, 3, 4
        UNION ALL
        SELECT 'refused', NULL, NULL, NULL, n.refused, NULL
        FROM (SELECT cardinality($1::uuid[]) - count(*) AS refused FROM settled) n
        WHERE n.refused > 0
    ) c
    CROSS JOIN redrive.metric_ring m
    GROUP BY m.segment
)
SELECT s.lease_id, s.ordinal::integer AS ordinal
FROM settled s
