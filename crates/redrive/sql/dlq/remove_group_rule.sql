-- Purpose: removes a rule of a failure group; see redrive.remove_group_rule.
-- Called by: dlq/group_rule.rs.
-- $1 bigint    rule
-- $2 text      operator       $3 text  reason
-- Locks: the row of the rule.
-- Index relied on: the primary key of group_rules.
-- Rows: always one: whether the rule existed.
SELECT redrive.remove_group_rule($1, $2, $3) AS is_known
