-- Purpose: stores checkpoints and progress in the headers of leased jobs.
-- Called by: pipeline/checkpoint.rs, after a renewal, and before the settle of a failed attempt.
-- $1 uuid[]    lease of each job
-- $2 bigint[]  job
-- $3 jsonb[]   headers to set
-- Locks: the lease rows.
-- Index relied on: the primary key of leases.
-- Rows: the leases that are held. A missing lease is lost, and nothing is stored for its jobs.
UPDATE redrive.leases l
SET metas = redrive.with_headers(l, g.ids, g.headers)
FROM (
    SELECT c.lease_id, array_agg(c.id) AS ids, array_agg(c.headers) AS headers
    FROM unnest($1::uuid[], $2::bigint[], $3::jsonb[]) AS c (lease_id, id, headers)
    GROUP BY c.lease_id
) g
WHERE l.lease_id = ANY ($1::uuid[]) AND l.lease_id = g.lease_id
RETURNING l.lease_id
