-- Purpose: counts the audit records that are older than a given age, which is refused even if there are no records.
-- $1 interval  age
-- Rows: always one.
SELECT count(a.id) AS records FROM redrive.audit_horizon($1) AS h (until) LEFT JOIN redrive.audit a ON a.at < h.until
