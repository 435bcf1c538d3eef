-- Purpose: ends leases whose remaining jobs all succeeded and were never redriven, and passes on the turns of their
--          groups. This is the common case.
-- Called by: pipeline/settle.rs, for a worker's settler.
-- $1 uuid[]    leases         $9 integer[] number of jobs of each lease that are now done
-- $2 text      queue of the worker
-- $3 uuid[], $4 text[], $5 text[], $6 smallint[], $7 bigint[], $8 float8[]
--              counter changes: lease, key, label, bucket, count, sum; see pipeline/tallies.rs
-- $10 boolean  whether this call repeats one whose reply was lost, so that missing leases are not refused
-- Locks: the lease rows; the slots of the jobs, which no other session locks.
-- Index relied on: the primary key of leases; group_slots_by_job.
-- Rows: the leases that were still held. A missing lease is lost, or holds more unsettled jobs than
--       its worker assumes because the database lost an earlier settlement. The results for a
--       missing lease are counted only as refused, and its jobs keep their turns.
WITH ended AS (
    DELETE FROM redrive.leases l
    WHERE l.lease_id = ANY ($1::uuid[])
        AND cardinality(l.done) + ($9::integer[])[array_position($1::uuid[], l.lease_id)] = l.job_count
    RETURNING l.lease_id,
              -- Only jobs of a group have a turn. A job that was settled before may need it again.
              CASE WHEN l.metas IS NOT NULL
                  THEN redrive.free_slots(ARRAY(
                      SELECT j.id
                      -- In step; not in FROM, which would unpack each meta into its columns.
                      FROM (SELECT unnest(l.ids) AS id, unnest(l.metas) AS meta) j
                      WHERE j.id <> ALL (l.done) AND (j.meta).group_key IS NOT NULL), '{}')
              END AS freed
),
counted AS (
    INSERT INTO redrive.metric_deltas (queue, keys, labels, buckets, counts, sums)
    SELECT $2, array_agg(c.key), array_agg(c.label), array_agg(c.bucket), array_agg(c.count),
           array_agg(c.sum)
    FROM (
        SELECT CASE WHEN e.lease_id IS NULL THEN 'refused' ELSE u.key END AS key,
               CASE WHEN e.lease_id IS NOT NULL THEN u.label END AS label,
               u.bucket, sum(u.count)::bigint AS count, sum(u.sum) AS sum
        FROM ended e
        -- A full join, to rule out nested loops; see settle.sql.
        FULL JOIN unnest($3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::bigint[],
                         $8::float8[])
            AS u (lease_id, key, label, bucket, count, sum) ON u.lease_id = e.lease_id
        WHERE num_nonnulls(u.key) = 1 AND (e.lease_id IS NOT NULL OR u.key = 'succeeded' AND NOT $10::boolean)
        GROUP BY 1, 2, 3
    ) c
    HAVING count(*) > 0
)
SELECT e.lease_id FROM ended e
