-- Purpose: counts the letters that match a filter by the values of a property.
-- Called by: dlq/breakdown.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 text      property; see redrive.count_letters_by
-- $3 text[]    place of the value in the payload; empty for other properties
-- $4 bigint    maximum number of values
-- Locks: none.
-- Index relied on: an index that fits the filter; the count reads every matching letter.
-- Rows: one per value, the most frequent first; NULL: no value. Zero rows: no letter matches.
SELECT c.value, c.letters, c.first_at, c.last_at
FROM redrive.count_letters_by($1, $2, $3, $4) c
