-- Purpose: locks the buckets of the rate limits that concern a claim, and counts their tokens.
-- Called by: pipeline/tokens.rs, for a worker's fetcher, in the transaction of the claim.
-- $1 text    queue
-- $2 text[]  kinds of the limits; empty: the limit of the whole queue
-- Locks: the rows of the buckets; one that another session has locked, or that is missing, grants no token.
-- Index relied on: the primary keys of rate_buckets and rate_limits.
-- Rows: always one: whether every bucket is locked here; the tokens of the emptiest; the milliseconds until each has
--       at least one.
SELECT count(*) = cardinality($2::text[]) AS is_locked,
       coalesce(floor(min(t.tokens)), 0)::bigint AS tokens,
       coalesce(ceil(1000 * max(greatest(0, 1 - t.tokens) / t.refill)), 0)::bigint AS wait_ms
FROM (
    SELECT redrive.tokens_now(b, l) AS tokens, redrive.token_refill(l) AS refill
    FROM redrive.rate_buckets b
    JOIN redrive.rate_limits l ON l.queue = b.queue AND l.kind = b.kind AND NOT l.each_group
    WHERE b.queue = $1 AND b.kind = ANY ($2::text[])
    ORDER BY b.kind
    FOR NO KEY UPDATE OF b SKIP LOCKED
) t
