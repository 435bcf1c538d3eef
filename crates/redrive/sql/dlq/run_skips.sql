-- Purpose: counts the letters that a redrive run skipped, by outcome.
-- $1 bigint    run
-- Index relied on: the primary key of run_letters; it reads all members of the run.
-- Rows: one per outcome, the most frequent first. Zero rows: no letter was skipped.
SELECT m.outcome, count(*) AS letters
FROM redrive.run_letters m
WHERE m.run_id = $1 AND m.outcome LIKE 'skipped%'
GROUP BY m.outcome
ORDER BY letters DESC, m.outcome
