-- Purpose: adds a policy, or changes the policy with the same name.
-- Called by: dlq/policy.rs.
-- $1 text name  $2 jsonb filter; see redrive.filter_letters  $3 bigint milliseconds between ticks
-- $4 integer batch  $5 integer generations  $6 double precision growth
-- $7 bigint maximum delay in milliseconds; NULL: one week, or $3 if that is longer
-- $8 integer start hour  $9 integer end hour  $10 boolean only while the breaker is closed
-- $11 text mode  $12 text operator  $13 text reason
-- Locks: the policy with that name.
-- Index relied on: policies_name_key.
-- Rows: always one: the id of the policy.
SELECT redrive.set_policy(
    $1, $2, $3::bigint * interval '1 millisecond', $4, $5, $6, $7::bigint * interval '1 millisecond',
    $8, $9, $10, $11, $12, $13) AS id
