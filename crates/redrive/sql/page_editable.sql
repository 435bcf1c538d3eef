-- Purpose: one page of the letters that can be edited, in the order of their ids.
-- Called by: edit.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 bigint    the id after which the page begins; 0 for the first
-- $3 bigint    how many at most
-- Locks: none; what is edited is checked again under its lock.
-- Index relied on: the primary key, or what the filter makes narrower.
-- Rows: id, payload (NULL: captured bytes only) and how often it was edited.
SELECT p.id, p.payload, p.edits
FROM redrive.page_editable($1, $2, $3) AS p
ORDER BY p.id
