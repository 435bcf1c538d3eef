-- Purpose: counts the letters that a filter means, and those of them that can be redriven.
-- Called by: letter.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- Locks: none.
-- Index relied on: what the filter makes narrower; counting reads all it counts.
-- Rows: always one.
SELECT c.letters, c.redrivable
FROM redrive.count_letters($1) c
