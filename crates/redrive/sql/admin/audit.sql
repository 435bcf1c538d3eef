-- Purpose: lists audit records, the newest first.
-- $1 bigint    maximum age of a record in milliseconds; NULL: any
-- $2 text      verb; NULL: all
-- $3 bigint    id of the last record of the previous page; NULL: first page
-- $4 bigint    maximum number of records
-- Index relied on: the primary key, for the totals from the earliest of their operations.
-- Rows: the records, with what all records of the operation changed. Zero rows: no record matches.
WITH page AS (
    SELECT a.*, coalesce((a.about ->> 'batch_of')::bigint, a.id) AS operation
    FROM redrive.audit a
    WHERE ($1::bigint IS NULL OR a.at >= statement_timestamp() - $1 * interval '1 millisecond')
        AND ($2::text IS NULL OR a.verb = $2)
        AND ($3::bigint IS NULL OR a.id < $3)
    ORDER BY a.id DESC
    LIMIT $4
)
SELECT p.id, p.at, p.verb, p.role, p.person, p.reason, p.filter, p.letters, o.total, p.about
FROM page p
JOIN (
    SELECT coalesce((a.about ->> 'batch_of')::bigint, a.id) AS operation, sum(a.letters)::bigint AS total
    FROM redrive.audit a
    WHERE a.id >= (SELECT min(f.operation) FROM page f)
    GROUP BY 1
) o ON o.operation = p.operation
ORDER BY p.id DESC
