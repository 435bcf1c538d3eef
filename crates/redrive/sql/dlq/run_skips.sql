-- Purpose: counts the letters that a redrive run skipped, by reason.
-- $1 bigint    run
-- Index relied on: the primary key of run_letters; it reads all members of the run.
-- Rows: one per reason, the most frequent first. Zero rows: no letter was skipped.
SELECT split_part(m.outcome, 'skipped_', 2) AS skip, count(*) AS letters
FROM redrive.run_letters m
WHERE m.run_id = $1 AND m.outcome LIKE 'skipped%'
GROUP BY m.outcome
ORDER BY letters DESC, m.outcome
