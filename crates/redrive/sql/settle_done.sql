-- Purpose: ends leases all of whose jobs are done, none of them redriven: the common case.
-- Called by: settle.rs, by a worker's settler.
-- $1 uuid[]    leases         $9 integer[] how many jobs of each are done now
-- $2 text      queue of the worker
-- $3 uuid[], $4 text[], $5 text[], $6 smallint[], $7 bigint[], $8 double precision[]
--              what is to be counted: lease, word, label, bucket, count, sum; see worker/cells.rs
-- Locks: the lease rows.
-- Index relied on: the primary key of leases.
-- Rows: the leases that were still held. A missing one is lost: its jobs belong to others, or it
--       has more of them than its worker thinks, because this database never had or has lost what
--       was settled of them. Of its results only the refusal is counted.
WITH ended AS (
    DELETE FROM redrive.leases l
    WHERE l.lease_id = ANY ($1::uuid[])
        AND cardinality(l.done) + ($9::integer[])[array_position($1::uuid[], l.lease_id)] = l.job_count
    RETURNING l.lease_id
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, labels, buckets, counts, sums)
    SELECT m.segment, $2, array_agg(c.word), array_agg(c.label), array_agg(c.bucket), array_agg(c.count),
           array_agg(c.sum)
    FROM (
        SELECT CASE WHEN e.lease_id IS NULL THEN 'refused' ELSE u.word END AS word,
               CASE WHEN e.lease_id IS NOT NULL THEN u.label END AS label,
               u.bucket, sum(u.count)::bigint AS count, sum(u.sum) AS sum
        FROM ended e
        -- A full join, because it can only be hashed or merged; see settle.sql.
        FULL JOIN unnest($3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::bigint[],
                         $8::double precision[])
            AS u (lease_id, word, label, bucket, count, sum) ON u.lease_id = e.lease_id
        WHERE num_nonnulls(u.word) = 1 AND (e.lease_id IS NOT NULL OR u.word = 'succeeded')
        GROUP BY 1, 2, 3
    ) c
    CROSS JOIN redrive.metric_ring m
    GROUP BY m.segment
)
SELECT e.lease_id FROM ended e
