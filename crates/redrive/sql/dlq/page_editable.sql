-- Purpose: returns one page of the letters that can be edited, in the order of their ids.
-- Called by: dlq/edit.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 bigint    last id of the previous page; 0: first page
-- $3 bigint    maximum number of letters
-- Locks: none; edit_letters.sql locks the letters and checks them again.
-- Index relied on: the primary key, or an index that fits the filter.
-- Rows: id, payload (NULL: the letter has raw bytes only) and number of edits. Zero rows: there are
--       no more pages.
SELECT p.id, p.payload, p.edits
FROM redrive.page_editable($1, $2, $3) AS p
ORDER BY p.id
