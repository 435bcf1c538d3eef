-- Purpose: replaces the payloads of letters, keeps the old versions, and writes the audit.
-- Called by: dlq/edit.rs, once per page.
-- $1 bigint[]  ids
-- $2 json[]    new payloads
-- $3 integer[] number of edits of each letter when its payload was read; a letter that has been
--              edited since is skipped
-- $4 text reason  $5 text operator  $6 jsonb the caller's filter  $7 text kind of edit
-- $8 bigint    audit record of the first batch; NULL: this is the first
-- Locks: the letters, in the order of their ids; those that another session holds for over 3 s are skipped.
-- Index relied on: the primary key.
-- Rows: the ids of the edited letters, with the audit record of the first batch. The others were edited,
--       redriven or closed since they were read, or locked.
SELECT e.id, e.audit_id
FROM redrive.edit_letters($1, $2, NULL, $3, $4, $5, $6, $7, $8) AS e
ORDER BY e.id
