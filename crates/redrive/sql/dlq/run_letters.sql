-- Purpose: lists letters of a redrive run, one page, or the runs of a letter, with the outcome of each letter in each run.
-- $1 bigint    run; NULL: those of the letter
-- $2 bigint    place in the run after which the page begins; 0: the first page
-- $3 bigint    letter
-- $4 bigint    maximum number of rows
-- Index relied on: the primary keys of run_letters, redrive_runs and dead_letters; run_letters_by_letter.
-- Rows: the letters, in the order in which the run sends them, or one per run, the newest first. `state` is NULL if the
--       letter was removed. Zero rows: none is left, or no run selected the letter.
SELECT m.run_id AS run, m.ordinal AS place, m.letter_id AS letter, l.state,
       CASE WHEN m.outcome LIKE 'skipped%' THEN 'skipped' WHEN m.outcome IS NOT NULL THEN m.outcome
           WHEN l.run_id = m.run_id AND l.run_ordinal = m.ordinal THEN 'sent'
           WHEN r.state IN ('cancelled', 'finished') THEN 'not_tried' ELSE 'waiting' END AS outcome,
       nullif(split_part(m.outcome, 'skipped_', 2), '') AS skip
FROM (
    (SELECT a.* FROM redrive.run_letters a WHERE a.run_id = $1 AND a.ordinal > $2 ORDER BY a.ordinal LIMIT $4)
    UNION ALL
    (SELECT a.* FROM redrive.run_letters a WHERE a.letter_id = $3 ORDER BY a.run_id DESC LIMIT $4)
) m
JOIN redrive.redrive_runs r ON r.id = m.run_id
LEFT JOIN redrive.dead_letters l ON l.id = m.letter_id
ORDER BY m.run_id DESC, m.ordinal
