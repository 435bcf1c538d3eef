-- Purpose: stores checkpoints and progress in the headers of leased jobs.
-- Called by: pipeline/checkpoint.rs, after a renewal, and before the settle of a failed attempt.
-- $1 uuid[]    lease of each job
-- $2 bigint[]  job
-- $3 jsonb[]   headers to set
-- Locks: the lease rows.
-- Index relied on: the primary key of leases.
-- Rows: the leases that are held. A missing lease is lost, and nothing is stored for its jobs.
UPDATE redrive.leases l
SET headers = ARRAY(
        -- Headers beyond the limit would keep the job from being stored anywhere else.
        SELECT CASE WHEN octet_length(m.headers::text) <= 65536 THEN m.headers ELSE j.headers END
        FROM unnest(l.ids, l.headers) WITH ORDINALITY AS j (id, headers, place)
        LEFT JOIN unnest($1::uuid[], $2::bigint[], $3::jsonb[]) AS g (lease_id, id, headers)
            ON g.lease_id = l.lease_id AND g.id = j.id
        CROSS JOIN LATERAL (
            SELECT CASE WHEN g.id IS NULL THEN j.headers ELSE coalesce(j.headers, '{}') || g.headers END
        ) AS m (headers)
        ORDER BY j.place)
WHERE l.lease_id = ANY ($1::uuid[])
RETURNING l.lease_id
