-- Purpose: finds what points at a job that is gone, and totals that differ, and fixes it unless it is a dry run.
-- Called by: admin/repair.rs.
-- $1 boolean dry run  $2 text operator  $3 text reason
-- Locks: ACCESS SHARE on jobs, leases and the counters, which prevents truncation; the rows that it changes.
-- Index relied on: none; it reads every job and letter.
-- Rows: one per kind of fault, with the number of its places and up to ten of them. Zero rows: there is none.
SELECT r.finding AS kind, r.places, r.examples
FROM redrive.repair($1, $2, $3) AS r
