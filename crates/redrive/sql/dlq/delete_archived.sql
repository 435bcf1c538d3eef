-- Purpose: deletes a batch of archived letters and writes the audit.
-- Called by: dlq/archive/delete.rs, once per batch.
-- $1 jsonb     filter; see redrive.filter_archive
-- $2 bigint    maximum number of letters
-- $3 text      operator       $4 text  reason
-- $5 bigint    audit record of the first batch; NULL: this is the first
-- Locks: the archived letters that it deletes.
-- Index relied on: the primary key of archived_letters, or archived_letters_by_queue.
-- Rows: one: how many it deleted, and the audit record of the first batch. Zero rows: no letter is left.
SELECT d.letters, d.audit_id
FROM redrive.delete_archived($1, $2, $3, $4, $5) d
