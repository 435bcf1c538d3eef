-- Purpose: moves a page of archived letters back into the table and writes the audit, or counts them.
-- Called by: dlq/archive/restore.rs, once per page.
-- $1 jsonb     filter; see redrive.filter_archive
-- $2 bigint    last id of the previous page
-- $3 bigint    maximum number of letters
-- $4 boolean   true: change nothing
-- $5 text      operator       $6 text  reason
-- $7 bigint    audit record of the first batch; NULL: this is the first
-- Locks: the archived letters of the page.
-- Index relied on: the primary key of archived_letters; dead_letters_captured_once.
-- Rows: one per letter of the page: restored, or why not, and the audit record of the first batch. Zero rows: no
--       letter is left.
SELECT r.id, r.result, r.audit_id
FROM redrive.restore_archived($1, $2, $3, $4, $5, $6, $7) r
ORDER BY r.id
