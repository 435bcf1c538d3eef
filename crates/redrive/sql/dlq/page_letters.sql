-- Purpose: returns one page of the ids of the letters that match a filter, in ascending order.
-- Called by: dlq/pages.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 bigint    last id of the previous page; 0: first page
-- $3 bigint    maximum number of letters
-- Locks: none.
-- Index relied on: the primary key, or an index that fits the filter.
-- Rows: the ids. Zero rows: there are no more pages.
SELECT p.id
FROM redrive.page_letters($1, $2, $3) AS p (id)
ORDER BY p.id
