-- Purpose: lists audit records, the newest first.
-- $1 bigint    maximum age of a record in milliseconds; NULL: any
-- $2 text      verb; NULL: all
-- $3 bigint    id of the last record of the previous page; NULL: first page
-- $4 bigint    maximum number of records
-- Index relied on: the primary key; audit_by_operation for the totals.
-- Rows: the records, with what all records of the operation changed. Zero rows: no record matches.
WITH page AS (
    SELECT a.*, coalesce(a.batch_of, a.id) AS operation
    FROM redrive.audit a
    WHERE ($1::bigint IS NULL OR a.at >= statement_timestamp() - $1 * interval '1 millisecond')
        AND ($2::text IS NULL OR a.verb = $2)
        AND ($3::bigint IS NULL OR a.id < $3)
    ORDER BY a.id DESC
    LIMIT $4
)
SELECT p.id, p.at, p.verb, p.role, p.person, p.reason, p.filter, p.letters, p.operation, o.total, p.about
FROM page p
JOIN (
    SELECT f.operation, (
        SELECT sum(n.letters)::bigint
        FROM (
            SELECT a.letters FROM redrive.audit a WHERE a.id = f.operation
            UNION ALL
            SELECT a.letters FROM redrive.audit a WHERE a.batch_of = f.operation
        ) n) AS total
    FROM (SELECT DISTINCT page.operation FROM page) f
) o ON o.operation = p.operation
ORDER BY p.id DESC
