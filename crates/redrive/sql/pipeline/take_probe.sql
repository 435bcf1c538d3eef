-- Purpose: grants the worker one probe of a breaker, if a probe is due. The grant expires at the new
--          probe_at, so another worker takes over from one that has crashed.
-- Called by: pipeline/breaker.rs, for a worker's fetcher.
-- $1 text      breaker
-- $2 uuid      worker
-- $3 bigint    duration of the grant, in milliseconds
-- $4 text      queue
-- $5 text[]    kinds that can be probed; NULL: all
-- Locks: the row of the breaker.
-- Index relied on: the primary key of breakers; jobs_for_claim.
-- Rows: one: the number of the probe, which fences its result. Zero rows: no probe is due, another
--       worker took it, or no job is ready.
UPDATE redrive.breakers b
SET state = 'half_open', probes = b.probes + 1, prober = $2, changed_at = clock_timestamp(),
    probe_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
WHERE b.name = $1 AND b.state <> 'closed' AND b.probe_at <= clock_timestamp()
    AND EXISTS (
        SELECT FROM redrive.jobs j
        WHERE j.queue = $4 AND ($5::text[] IS NULL OR j.kind = ANY ($5::text[])))
RETURNING b.probes AS number
