-- Purpose: lists letters of a redrive run with their state and their outcome in this run, one page.
-- $1 bigint    run
-- $2 bigint    place in the run after which the page begins; 0: the first page
-- $3 bigint    maximum number of letters
-- Index relied on: the primary keys of run_letters, redrive_runs and dead_letters.
-- Rows: the letters, in the order in which the run sends them. `state` is NULL if the letter was removed.
--       Zero rows: no letter is left.
SELECT m.run_id AS run, m.ordinal AS place, m.letter_id AS letter, l.state,
       CASE WHEN m.outcome LIKE 'skipped%' THEN 'skipped' WHEN m.outcome IS NOT NULL THEN m.outcome
           WHEN l.run_id = m.run_id AND l.run_ordinal = m.ordinal THEN 'sent'
           WHEN r.state IN ('cancelled', 'finished') THEN 'not_tried' ELSE 'waiting' END AS outcome,
       nullif(split_part(m.outcome, 'skipped_', 2), '') AS skip
FROM redrive.run_letters m
JOIN redrive.redrive_runs r ON r.id = m.run_id
LEFT JOIN redrive.dead_letters l ON l.id = m.letter_id
WHERE m.run_id = $1 AND m.ordinal > $2
ORDER BY m.ordinal
LIMIT $3
