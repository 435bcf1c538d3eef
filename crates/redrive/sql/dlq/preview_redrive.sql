-- Purpose: counts the letters that a redrive would select, by what it would do with them, and names the oldest ones.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 boolean   include quarantined letters
-- $3 text      target queue; NULL: the letter's queue
-- $4 bigint    maximum number of letters; NULL: all
-- $5 integer   how many letters of each result to name
-- Index relied on: an index that fits the filter; the count reads every matching letter.
-- Rows: one per result, the most frequent first. Zero rows: no letter would be selected.
SELECT p.result, count(*) AS letters, (array_agg(p.id ORDER BY p.died_at, p.id))[:$5] AS sample
FROM redrive.preview_redrive($1, $2, $3, $4) p
GROUP BY p.result
ORDER BY count(*) DESC, p.result
