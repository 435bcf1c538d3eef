-- Purpose: reads the audit, the newest act first.
-- Called by: audit.rs.
-- $1 bigint    only acts of the last so many milliseconds; NULL: all
-- $2 text      only acts with this verb; NULL: all
-- $3 bigint    only records before this one; NULL: from the newest
-- $4 bigint    how many at most
-- Locks: none.
-- Index relied on: the primary key.
-- Rows: the records. Zero rows: none matches.
SELECT a.id, a.at, a.verb, a.role, a.person, a.why, a.filter, a.letters, a.about
FROM redrive.audit a
WHERE ($1::bigint IS NULL OR a.at >= statement_timestamp() - $1 * interval '1 millisecond')
    AND ($2::text IS NULL OR a.verb = $2)
    AND ($3::bigint IS NULL OR a.id < $3)
ORDER BY a.id DESC
LIMIT $4
