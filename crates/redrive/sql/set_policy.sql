-- Purpose: adds a policy, or changes the one of that name.
-- Called by: policy.rs.
-- $1 text name  $2 jsonb filter; see redrive.filter_letters  $3 bigint milliseconds from tick to tick
-- $4 integer batch  $5 integer generations  $6 double precision growth
-- $7 bigint the longest delay in milliseconds; NULL: a week, or $3 when that is longer
-- $8 integer from hour  $9 integer to hour  $10 boolean only while the breaker is closed
-- $11 text mode  $12 text person  $13 text why
-- Locks: the policy of that name.
-- Index relied on: policies_name_key.
-- Rows: always one: the id.
SELECT redrive.set_policy(
    $1, $2, $3::bigint * interval '1 millisecond', $4, $5, $6, $7::bigint * interval '1 millisecond',
    $8, $9, $10, $11, $12, $13) AS id
