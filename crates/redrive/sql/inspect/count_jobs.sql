-- Purpose: counts the live jobs that match a filter, by state.
-- Called by: inspect/bulk.rs.
-- $1 jsonb     filter; see redrive.filter_jobs
-- $2 integer   priority whose jobs are counted too; NULL: none
-- Locks: none.
-- Index relied on: as in list_jobs.sql.
-- Rows: one per state, with the number of jobs, and of those with the priority. Zero rows: no job matches.
SELECT c.state, c.jobs, c.alike FROM redrive.count_jobs($1, $2) c
