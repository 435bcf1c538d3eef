-- Purpose: restores a version of each letter, keeps the current ones, and writes the audit.
-- Called by: dlq/version.rs, once per page.
-- $1 bigint[]  ids
-- $2 integer   version; NULL: the one before the last edit of each letter
-- $3 text reason  $4 text operator  $5 jsonb the caller's filter
-- $6 bigint    audit record of the first batch; NULL: this is the first
-- Locks: the letters, in the order of their ids.
-- Index relied on: the primary keys of dead_letters and letter_versions.
-- Rows: the ids of the restored letters, with the audit record of the first batch. The others do not have
--       this version, or are neither open nor quarantined.
SELECT r.id, r.audit_id
FROM redrive.restore_letters($1, $2, $3, $4, $5, $6) AS r
ORDER BY r.id
