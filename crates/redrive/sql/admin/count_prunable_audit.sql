-- Purpose: counts the audit records that are older than a given age.
-- Called by: admin/audit.rs, for the dry run of a prune.
-- $1 bigint    age in milliseconds
-- Index relied on: none; it reads the audit.
-- Rows: always one.
SELECT count(*) AS records
FROM redrive.audit a
WHERE a.at < statement_timestamp() - $1::bigint * interval '1 millisecond'
