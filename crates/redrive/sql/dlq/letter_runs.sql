-- Purpose: lists the redrive runs of a letter, with its outcome in each.
-- $1 bigint    letter
-- $2 bigint    maximum number of runs
-- Index relied on: run_letters_by_letter, the primary keys of redrive_runs and dead_letters.
-- Rows: one per run, the newest first. Zero rows: no run selected the letter.
SELECT m.run_id AS run, m.ordinal AS place, m.letter_id AS letter, l.state,
       CASE WHEN m.outcome LIKE 'skipped%' THEN 'skipped' WHEN m.outcome IS NOT NULL THEN m.outcome
           WHEN l.run_id = m.run_id AND l.run_ordinal = m.ordinal THEN 'sent'
           WHEN r.state IN ('cancelled', 'finished') THEN 'not_tried' ELSE 'waiting' END AS outcome,
       nullif(split_part(m.outcome, 'skipped_', 2), '') AS skip
FROM redrive.run_letters m
JOIN redrive.redrive_runs r ON r.id = m.run_id
LEFT JOIN redrive.dead_letters l ON l.id = m.letter_id
WHERE m.letter_id = $1
ORDER BY m.run_id DESC
LIMIT $2
