-- Purpose: stores at which time the promotions of a queue start, so that they need not read past the rows before it, nor
--          metrics_queues count them.
-- Called by: worker/fetcher/promotion.rs, every few seconds while its promotions need a mark.
-- $1 text      queue
-- $2 bigint    the mark: a time in microseconds since 1970, stored as 5 seconds ago if it is later; 0: before every job
-- Locks: the row of the mark.
-- Index relied on: the primary key of delayed_marks, which is small.
-- Rows: one if the mark was stored. Zero rows: another process stored one within the last 4 seconds.
WITH forgotten AS (
    DELETE FROM redrive.delayed_marks m
    WHERE m.noted_at < statement_timestamp() - interval '1 day' AND m.queue <> $1
)
INSERT INTO redrive.delayed_marks AS m (queue, run_at)
SELECT $1::text, least(timestamptz 'epoch' + $2::bigint * interval '1 microsecond',
                       statement_timestamp() - interval '5 seconds')
ON CONFLICT (queue) DO UPDATE
SET run_at = excluded.run_at, noted_at = excluded.noted_at
WHERE m.noted_at < excluded.noted_at - interval '4 seconds' OR m.noted_at > excluded.noted_at
RETURNING 1 AS stored
