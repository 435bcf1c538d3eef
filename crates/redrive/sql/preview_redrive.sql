-- Purpose: what a redrive would send back, by failure group.
-- Called by: redrive.rs, for a dry run.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 boolean   whether quarantined letters are meant too
-- Locks: none.
-- Index relied on: what the filter makes narrower; counting reads all it counts.
-- Rows: one a group, the largest first. Zero rows: nothing would go.
SELECT p.group_id, p.queue, p.kind, p.error_class, p.title, p.letters
FROM redrive.preview_redrive($1, $2) p
