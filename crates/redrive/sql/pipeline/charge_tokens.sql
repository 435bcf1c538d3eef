-- Purpose: takes the tokens of claimed jobs from the buckets of the rate limits that concern them.
-- Called by: pipeline/tokens.rs, for a worker's fetcher, after the claim, in its transaction.
-- $1 text    queue
-- $2 text    kind of the jobs; empty: any without a limit of its own
-- $3 bigint  jobs
-- Locks: the rows of the buckets, which this transaction has locked.
-- Index relied on: the primary keys of rate_buckets and rate_limits.
-- Rows: none.
UPDATE redrive.rate_buckets b
SET tokens = redrive.tokens_now(b, l) - $3::bigint, counted_at = clock_timestamp()
FROM redrive.rate_limits l
WHERE b.queue = $1 AND b.kind IN ('', $2) AND l.queue = b.queue AND l.kind = b.kind
    AND NOT l.each_group
