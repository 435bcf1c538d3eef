-- Purpose: locks the buckets of the rate limits that concern a claim, and counts their tokens.
-- Called by: pipeline/tokens.rs, for a worker's fetcher, in the transaction of the claim.
-- $1 text  queue
-- $2 text  kind of the jobs; empty: any without a limit of its own
-- Locks: the rows of the buckets; one that another session has locked, or that is missing, grants no token. It waits for
--        another claim that restores a missing one.
-- Index relied on: the primary keys of rate_buckets and rate_limits.
-- Rows: always one: the tokens of the emptiest bucket (NULL: there is no limit any more); the microseconds until each
--       has at least one; and those within which a job must start once it has a token (NULL: no bucket is locked here).
WITH restored AS (
    -- Without a bucket, which a dump may have missed, the limit would grant nothing for ever.
    INSERT INTO redrive.rate_buckets (queue, kind, tokens)
    SELECT n.queue, n.kind, 0
    FROM redrive.rate_limits n
    WHERE n.queue = $1 AND n.kind IN ('', $2) AND NOT n.each_group
        AND NOT EXISTS (SELECT FROM redrive.rate_buckets e WHERE e.queue = n.queue AND e.kind = n.kind)
    ON CONFLICT ON CONSTRAINT rate_buckets_pkey DO NOTHING
)
SELECT CASE
           WHEN count(*) = (
               SELECT count(*) FROM redrive.rate_limits n WHERE n.queue = $1 AND n.kind IN ('', $2) AND NOT n.each_group)
           THEN floor(min(t.tokens))::bigint
           ELSE 0
       END AS tokens,
       coalesce(ceil(1000000 * max(greatest(0, 1 - t.tokens) / t.refill)), 0)::bigint AS wait_us,
       floor(1000000 * min(t.hold))::bigint AS hold_us
FROM (
    SELECT redrive.tokens_now(b, l) AS tokens, redrive.token_refill(l) AS refill, redrive.token_hold(l) AS hold
    FROM redrive.rate_buckets b
    JOIN redrive.rate_limits l ON l.queue = b.queue AND l.kind = b.kind AND NOT l.each_group
    WHERE b.queue = $1 AND b.kind IN ('', $2)
    ORDER BY b.kind
    FOR NO KEY UPDATE OF b SKIP LOCKED
) t
