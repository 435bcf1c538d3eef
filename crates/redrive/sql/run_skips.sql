-- Purpose: why members of a redrive run were not sent back.
-- Called by: redrive/run.rs.
-- $1 bigint    the run
-- Locks: none.
-- Index relied on: the primary key of run_letters; it reads all members of the run.
-- Rows: one a reason. Zero rows: none was skipped.
SELECT m.outcome, count(*) AS letters
FROM redrive.run_letters m
WHERE m.run_id = $1 AND m.outcome LIKE 'skipped%'
GROUP BY m.outcome
ORDER BY letters DESC, m.outcome
