-- Purpose: runs one tick of a policy that is due, under a lease on the policy.
-- Called by: dlq/policy/tick.rs, for any worker, every few seconds and at the next tick, until it returns
--            no row.
-- $1 uuid      worker
-- $2 bigint    lease in milliseconds
-- Locks: the row of the policy and the letters it sends; locked rows are skipped.
-- Index relied on: dead_letters_open_for_redrive or dead_letters_for_list.
-- Rows: one per tick, with the milliseconds until the next one. Zero rows: no policy is due, or other workers hold the ones that are.
SELECT r.policy, r.letters, r.mode, r.error,
       (extract(epoch FROM r.next_tick - clock_timestamp()) * 1000)::bigint AS next_ms
FROM redrive.run_policies($1, $2::bigint * interval '1 millisecond') r
