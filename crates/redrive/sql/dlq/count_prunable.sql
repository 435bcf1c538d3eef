-- Purpose: counts the letters that have been closed (recovered, discarded) for longer than a given age.
-- $1 interval  age, since the letter was closed
-- Index relied on: dead_letters_by_state.
-- Rows: always one.
SELECT count(*) AS letters
FROM redrive.dead_letters l
WHERE l.state IN ('recovered', 'discarded')
    AND l.changed_at < statement_timestamp() - least($1::interval, interval '36600 days')
