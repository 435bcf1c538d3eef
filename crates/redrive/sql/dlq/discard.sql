-- Purpose: closes a batch of open and quarantined letters, or reopens discarded ones, and writes the audit. Discarded letters
--          keep the reason and stay stored until they are pruned.
-- Called by: dlq/discard.rs, once per batch.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 timestamptz only letters that died by this time; NULL: now; see redrive.sql
-- $3 bigint    maximum number of letters
-- $4 text      reason         $5 text  operator
-- $6 bigint    audit record of the first batch; NULL: this is the first
-- $7 boolean   whether to reopen
-- Locks: the letters it changes; letters locked by another operator are skipped.
-- Index relied on: dead_letters_open_for_redrive, dead_letters_by_audit, dead_letters_for_list or the primary key.
-- Rows: one per changed letter, with the audit record of the first batch and `as_of`. Zero rows: no letter is left.
SELECT d.id, d.audit_id, coalesce($2::timestamptz, statement_timestamp()) AS as_of
FROM redrive.discard_letters($1, coalesce($2::timestamptz, statement_timestamp()), $3, $4, $5, $6, $7) d
