-- Purpose: lists audit records, the newest first.
-- $1 bigint    maximum age of a record in milliseconds; NULL: any
-- $2 text      verb; NULL: all
-- $3 bigint    id of the last record of the previous page; NULL: first page
-- $4 bigint    maximum number of records
-- Index relied on: the primary key.
-- Rows: the records. Zero rows: no record matches.
SELECT a.id, a.at, a.verb, a.role, a.person, a.reason, a.filter, a.letters, a.about
FROM redrive.audit a
WHERE ($1::bigint IS NULL OR a.at >= statement_timestamp() - $1 * interval '1 millisecond')
    AND ($2::text IS NULL OR a.verb = $2)
    AND ($3::bigint IS NULL OR a.id < $3)
ORDER BY a.id DESC
LIMIT $4
