-- Purpose: returns claimed jobs that have no token of their group to the queue, each until its group may have one. No
--          attempt is charged.
-- Called by: pipeline/tokens.rs, for a worker's fetcher, in the transaction of the claim.
-- $1 uuid[]    lease of each job
-- $2 bigint[]  jobs
-- $3 bigint[]  microseconds to wait
-- Locks: none; no other session knows these leases.
-- Index relied on: the primary key of leases; group_slots_by_job.
-- Rows: the jobs that were returned. Zero rows: there was none.
WITH put AS MATERIALIZED (
    SELECT p.lease_id, p.id, p.wait_us
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS p (lease_id, id, wait_us)
),
offered AS MATERIALIZED (
    SELECT p.lease_id, array_agg(p.id) AS ids
    FROM put p
    GROUP BY p.lease_id
),
ended AS (
    DELETE FROM redrive.leases l
    USING offered o
    WHERE l.lease_id = ANY ($1::uuid[]) AND l.lease_id = o.lease_id
        AND cardinality(l.done) + cardinality(o.ids) = l.job_count
    RETURNING o.ids, l AS lease
),
shrunk AS (
    UPDATE redrive.leases l
    SET done = l.done || o.ids
    FROM offered o
    WHERE l.lease_id = ANY ($1::uuid[]) AND l.lease_id = o.lease_id
        AND cardinality(l.done) + cardinality(o.ids) < l.job_count
    RETURNING o.ids, l AS lease
),
-- Logically an inner join; see settle.sql.
returned AS MATERIALIZED (
    SELECT j.id, j.queue,
           redrive.tried(j.job, (j.job).attempt - 1, ready_at =>
                         clock_timestamp() + p.wait_us * interval '1 microsecond') AS job
    FROM (
        SELECT u.id, u.queue, u AS job
        FROM (TABLE ended UNION ALL TABLE shrunk) h
        CROSS JOIN LATERAL redrive.some_jobs_of(h.lease, h.ids) u
        WHERE u.id = ANY (h.ids)
    ) j
    FULL JOIN put p ON p.id = j.id
    WHERE num_nonnulls(j.id, p.id) = 2
),
delayed AS MATERIALIZED (
    SELECT redrive.requeue('{}', array_agg(r.job), true) FROM returned r HAVING count(*) > 0
),
-- As a job in backoff, it keeps only an ordered group waiting.
passed AS MATERIALIZED (
    SELECT redrive.free_slots('{}', array_agg(r.id)) AS freed
    FROM returned r
    WHERE (SELECT count(*) FROM delayed) >= 0
    HAVING count(*) > 0
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, r.queue, '{released}', ARRAY[count(*)]
    FROM returned r
    CROSS JOIN redrive.metric_ring m
    GROUP BY 1, 2
)
SELECT r.id
FROM returned r
WHERE (SELECT count(*) FROM passed) >= 0
