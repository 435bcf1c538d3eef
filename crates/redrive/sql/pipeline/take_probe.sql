-- Purpose: grants the worker one probe of a breaker, if a probe is due and these parts of the claim index
--          have a job for it. The grant expires at the new probe_at, so another worker takes over from one
--          that has crashed.
-- Called by: pipeline/probe.rs, for a worker's fetcher.
-- $1 text       breaker
-- $2 uuid       worker
-- $3 bigint     duration of the grant, in milliseconds
-- $4 text       queue
-- $5 text[]     kinds that can be probed; NULL: all
-- $6 text[]     kinds to skip because another breaker is open; NULL: none
-- $7 integer    maximum crashes of a job
-- $8 integer[], $9 bigint[], $10 integer[]
--               ranges of the claim index to search, as in claim.sql
-- $11 integer[], $12 bigint[], $13 bigint[]
--               ids of single ranks to search, as in claim_window.sql
-- Locks: the row of the breaker.
-- Index relied on: the primary key of breakers; jobs_for_claim.
-- Rows: one if a probe is due: whether these parts have a job, and the number of the probe, which fences
--       its result; NULL if they have none, or if another worker took the probe. Zero rows: no probe is due,
--       and nothing was searched.
WITH due AS MATERIALIZED (
    SELECT b.name
    FROM redrive.breakers b
    WHERE b.name = $1 AND b.state <> 'closed' AND b.probe_at <= clock_timestamp()
),
searched AS MATERIALIZED (
    SELECT d.name,
           EXISTS (
               SELECT FROM unnest($8::integer[], $9::bigint[], $10::integer[]) AS range (from_rank, from_id, to_rank)
               CROSS JOIN LATERAL (
                   SELECT FROM redrive.jobs j
                   WHERE j.queue = $4 AND j.segment < 8
                       AND (j.rank, j.id) > (range.from_rank, range.from_id)
                       AND j.rank < range.to_rank
                       AND ($5::text[] IS NULL OR j.kind = ANY ($5::text[]))
                       AND coalesce((j.meta).crashes, 0) <= $7::integer
                       AND ($6::text[] IS NULL OR j.kind <> ALL ($6::text[]))
                   ORDER BY j.rank, j.id
                   LIMIT 1
               ) found
           ) OR EXISTS (
               SELECT FROM unnest($11::integer[], $12::bigint[], $13::bigint[]) AS range (rank, from_id, to_id)
               CROSS JOIN LATERAL (
                   SELECT FROM redrive.jobs j
                   WHERE j.queue = $4 AND j.segment < 8
                       AND j.rank = range.rank
                       AND j.id > range.from_id
                       AND j.id <= range.to_id
                       AND ($5::text[] IS NULL OR j.kind = ANY ($5::text[]))
                       AND coalesce((j.meta).crashes, 0) <= $7::integer
                       AND ($6::text[] IS NULL OR j.kind <> ALL ($6::text[]))
                   ORDER BY j.rank, j.id
                   LIMIT 1
               ) found
           ) AS has_job
    FROM due d
),
taken AS (
    UPDATE redrive.breakers b
    SET state = 'half_open', probes = b.probes + 1, prober = $2, changed_at = clock_timestamp(),
        probe_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
    FROM searched s
    WHERE s.has_job AND b.name = s.name AND b.state <> 'closed' AND b.probe_at <= clock_timestamp()
    RETURNING b.probes AS number
)
SELECT s.has_job, (SELECT t.number FROM taken t) AS number
FROM searched s
