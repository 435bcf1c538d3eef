-- Purpose: grants the worker one probe of a breaker, if a probe is due. The grant expires at the new probe_at, so
--          another worker takes over from one that has crashed.
-- Called by: pipeline/probe.rs, for a worker's fetcher, after it has claimed the job.
-- $1 text       breaker
-- $2 bigint     duration of the grant, in milliseconds
-- Locks: the row of the breaker; one that another session has locked grants no probe.
-- Index relied on: the primary key of breakers.
-- Rows: one: the number of the probe, which fences its result. Zero rows: no probe is due, or another worker has it.
UPDATE redrive.breakers b
SET state = 'half_open', probes = b.probes + 1, changed_at = clock_timestamp(),
    probe_at = clock_timestamp() + $2::bigint * interval '1 millisecond'
WHERE b.name = (
    SELECT d.name
    FROM redrive.breakers d
    WHERE d.name = $1 AND d.state <> 'closed' AND d.probe_at <= clock_timestamp()
    FOR NO KEY UPDATE SKIP LOCKED)
RETURNING b.probes AS number
