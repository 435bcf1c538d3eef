-- Purpose: counts the letters that a split would move.
-- $1 bigint    group
-- $2 text      regular expression of their error messages
-- Index relied on: dead_letters_by_group, dead_letters_redriving. It reads every letter of the group.
-- Rows: always one.
SELECT count(*) AS letters
FROM (
    SELECT l.error_message FROM redrive.dead_letters l WHERE l.group_id = $1::bigint AND l.state <> 'redriving'
    UNION ALL
    SELECT l.error_message FROM redrive.dead_letters l WHERE l.group_id = $1::bigint AND l.state = 'redriving'
) p
WHERE p.error_message ~ $2::text
