-- Purpose: counts the audit records that are older than a given age.
-- $1 interval  age
-- Rows: always one.
SELECT count(*) AS records FROM redrive.audit a WHERE a.at < (SELECT redrive.audit_horizon($1))
