-- Purpose: counts the audit records that are older than a given age.
-- Called by: admin/audit.rs, for the dry run of a prune.
-- $1 interval  age
-- Index relied on: none; it reads the audit.
-- Rows: always one.
SELECT count(*) AS records
FROM redrive.audit a
WHERE a.at < statement_timestamp() - least($1::interval, interval '36600 days')
