-- Purpose: removes a batch of everything that matches a filter, and writes the audit without the filter.
-- Called by: dlq/erase.rs, once per batch.
-- $1 jsonb     filter; see redrive.filter_erasure
-- $2 bigint    maximum number of rows per place
-- $3 text      operator       $4 text  reason
-- $5 bigint    audit record of the first batch; NULL: this is the first
-- Locks: the rows it removes. Jobs locked by a claim are skipped.
-- Index relied on: none; it reads every job, letter, version, archived letter and audit record.
-- Rows: one per place: the number of rows, and the audit record of the first batch. Zero rows: nothing is left.
SELECT e.place, e.entries, e.audit_id
FROM redrive.erase_batch($1, $2, $3, $4, $5) e
