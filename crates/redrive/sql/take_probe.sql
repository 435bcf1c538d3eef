-- Purpose: takes the right to claim one job for a breaker whose probe is due, if there is one. The
--          right ends at the new probe_at: a prober that is gone is replaced.
-- Called by: breaker.rs, by a worker's fetcher.
-- $1 text      breaker
-- $2 uuid      worker
-- $3 bigint    for how long the right lasts, in milliseconds
-- $4 text      queue
-- $5 text[]    kinds that would do; NULL: all
-- Locks: the row of the breaker.
-- Index relied on: the primary key of breakers; jobs_for_claim.
-- Rows: one: the number of the probe, its fence. Zero rows: it is not due, somebody else has it,
--       or no job is ready.
UPDATE redrive.breakers b
SET state = 'half_open', probes = b.probes + 1, prober = $2, changed_at = clock_timestamp(),
    probe_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
WHERE b.name = $1 AND b.state <> 'closed' AND b.probe_at <= clock_timestamp()
    AND EXISTS (
        SELECT FROM redrive.jobs j
        WHERE j.queue = $4 AND ($5::text[] IS NULL OR j.kind = ANY ($5::text[])))
RETURNING b.probes AS number
