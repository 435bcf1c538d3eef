-- Purpose: counts the letters that match a filter, and how many of them can be redriven.
-- Called by: dlq/letter.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- Locks: none.
-- Index relied on: an index that fits the filter; the count reads every matching letter.
-- Rows: always one.
SELECT c.letters, c.redrivable
FROM redrive.count_letters($1) c
