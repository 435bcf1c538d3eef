-- Purpose: deletes or archives a batch of the letters that have outlived their retention rule.
-- Called by: dlq/retention.rs, for any worker once a minute, and for a manual prune.
-- $1 bigint    maximum number of letters
-- $2 text      `wait` until a concurrent call has finished, or `skip` the pass
-- $3 text      operator       $4 text  reason
-- Locks: the rows it deletes, skipping locked ones; the row of the task in exclusive_tasks,
--        so that one call runs at a time.
-- Index relied on: dead_letters_by_state, dead_letters_open_for_redrive.
-- Rows: always one: the number of letters deleted or archived; NULL: another call is running.
SELECT redrive.apply_retention($1, $2, $3, $4) AS taken
