-- Purpose: adds up what all records of some operations changed.
-- Called by: admin/audit.rs, because a page of the audit may have only some of their records.
-- $1 bigint[]  the first records of the operations
-- Index relied on: the primary key, from the earliest of these records.
-- Rows: one per operation, with its first record. Zero rows: it was pruned.
SELECT o.id, sum(a.letters)::bigint AS letters
FROM redrive.audit a
CROSS JOIN LATERAL (SELECT coalesce((a.about ->> 'batch_of')::bigint, a.id)) AS o (id)
WHERE a.id >= (SELECT min(f.id) FROM unnest($1::bigint[]) AS f (id))
    AND o.id = ANY ($1::bigint[])
GROUP BY o.id
