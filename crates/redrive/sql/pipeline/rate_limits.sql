-- Purpose: lists the rate limits with the tokens that are left.
-- $1 text  queue; NULL: all
-- Index relied on: the primary keys of rate_limits and rate_buckets; group_buckets_by_time.
-- Rows: one per limit, by queue and kind. The tokens of a limit of each group are those of the group with the fewest. Zero
--       rows: there is none.
SELECT l.queue, nullif(l.kind, '') AS kind, l.each_group, l.starts, (extract(epoch FROM l.period) * 1000)::bigint AS period,
       -- A full bucket holds less than the burst, because more tokens come while its jobs start.
       l.burst, floor(l.burst / redrive.token_capacity(l) * CASE
           WHEN l.each_group THEN redrive.fewest_tokens(l)
           ELSE redrive.tokens_now(b, l) END + 1e-9)::bigint AS tokens, l.set_at, l.person, l.reason
FROM redrive.rate_limits l
LEFT JOIN redrive.rate_buckets b ON b.queue = l.queue AND b.kind = l.kind AND NOT l.each_group
WHERE $1::text IS NULL OR l.queue = $1
ORDER BY l.queue, l.kind, l.each_group
