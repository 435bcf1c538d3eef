-- Purpose: one page of a walk through the letters that a filter means, in the order of their ids.
-- Called by: walk.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 bigint    the id after which the page begins; 0 for the first
-- $3 bigint    how many at most
-- Locks: none.
-- Index relied on: the primary key, or what the filter makes narrower.
-- Rows: ids. Zero rows: the walk is at its end.
SELECT p.id
FROM redrive.page_letters($1, $2, $3) AS p (id)
ORDER BY p.id
