-- Purpose: applies the redactions to a page of existing letters and their versions, and writes the audit; or
--          counts the letters that this would change.
-- Called by: dlq/redaction/existing.rs, once per page.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 bigint    last id of the previous page; 0: first page
-- $3 bigint    maximum number of letters
-- $4 boolean   only count
-- $5 text      operator       $6 text  reason
-- $7 bigint    audit record of the first batch; NULL: this is the first
-- Locks: the letters of the page, in the order of their ids, unless it only counts.
-- Index relied on: the primary key, or an index that fits the filter.
-- Rows: one: the last letter of the page, the number of changed letters, and the audit record of the first
--       batch. Zero rows: there are no more pages.
SELECT r.last_id, r.letters, r.audit_id
FROM redrive.redact_letters($1, $2, $3, $4, $5, $6, $7) r
