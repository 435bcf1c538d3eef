-- Purpose: counts the letters that a redrive would select, by what it would do with them, and names the oldest ones
--          that it would send.
-- Called by: dlq/redrive/preview.rs, for a dry run.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 boolean   include quarantined letters
-- $3 text      target queue; NULL: the letter's queue
-- $4 bigint    maximum number of letters; NULL: all
-- $5 bigint    how many letters to name
-- Index relied on: an index that fits the filter; the count reads every matching letter.
-- Rows: one per result, the most frequent first; `sample` is the same in each. Zero rows: no letter would be selected.
WITH judged AS MATERIALIZED (
    SELECT p.id, p.died_at, p.result
    FROM redrive.preview_redrive($1, $2, $3, $4) p
),
oldest AS MATERIALIZED (
    SELECT array_agg(o.id) AS ids
    FROM (SELECT j.id FROM judged j WHERE j.result = 'sent' ORDER BY j.died_at, j.id LIMIT $5) o
)
SELECT j.result, count(*) AS letters, coalesce((SELECT o.ids FROM oldest o), '{}') AS sample
FROM judged j
GROUP BY j.result
ORDER BY count(*) DESC, j.result
