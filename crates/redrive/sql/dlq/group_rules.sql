-- Purpose: lists the rules of failure groups, in the order in which they apply.
-- Rows: one per rule. Zero rows: there are none.
SELECT r.id, r.group_id AS "group", g.title, r.into_id AS "into", r.pattern, r.at, r.person, r.reason
FROM redrive.group_rules r
LEFT JOIN redrive.groups g ON g.id = r.group_id
ORDER BY r.id
