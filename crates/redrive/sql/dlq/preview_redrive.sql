-- Purpose: counts the letters that a redrive would send, by failure group.
-- Called by: dlq/redrive.rs, for a dry run.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 boolean   include quarantined letters
-- Locks: none.
-- Index relied on: an index that fits the filter; the count reads every matching letter.
-- Rows: one per group, the largest first. Zero rows: no letter would be sent.
SELECT p.group_id, p.queue, p.kind, p.error_class, p.title, p.letters
FROM redrive.preview_redrive($1, $2) p
