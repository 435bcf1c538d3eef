-- Purpose: counts what the rules of retention would take now.
-- Called by: retention.rs, for a dry run.
-- Locks: none.
-- Index relied on: dead_letters_closed_by_queue, dead_letters_open_for_redrive; it counts rows.
-- Rows: one for each queue and state that a rule is for. Zero rows: there is no rule, or no letter.
SELECT d.queue, d.state, (extract(epoch FROM d.keep) * 1000)::bigint AS keep_ms, d.action, d.letters
FROM redrive.retention_due() d
