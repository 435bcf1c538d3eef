-- Purpose: counts the letters that a split would move, by the part of the group that they would go to.
-- $1 bigint    group
-- $2 text      action: error, class, kind, payload
-- $3 text      regular expression (error) or path (payload); NULL otherwise
-- Index relied on: dead_letters_by_group, dead_letters_redriving. It reads every letter of the group.
-- Rows: one per part, the largest first. Zero rows: the split would move no letter.
SELECT p.part, sum(p.letters)::bigint AS letters
FROM (
    SELECT redrive.rule_part(l, $2::text, $3::text) AS part, 1 AS letters
    FROM redrive.dead_letters l
    WHERE l.group_id = $1::bigint AND l.state <> 'redriving'
    UNION ALL
    SELECT redrive.rule_part(l, $2::text, $3::text), 1
    FROM redrive.dead_letters l
    WHERE l.group_id = $1::bigint AND l.state = 'redriving'
) p
WHERE p.part IS NOT NULL
GROUP BY p.part
ORDER BY letters DESC, p.part
