-- Purpose: counts the letters that the retention rules would delete or archive now.
-- Called by: dlq/retention.rs, for a dry run.
-- Index relied on: dead_letters_by_state, dead_letters_open_for_redrive; it counts rows.
-- Rows: one per queue and state with a rule. Zero rows: there are no rules, or no letters.
SELECT d.queue, d.state, (extract(epoch FROM d.keep) * 1000)::bigint AS keep, d.action, d.letters
FROM redrive.retention_due() d
