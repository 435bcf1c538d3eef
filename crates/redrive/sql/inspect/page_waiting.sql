-- Purpose: returns one page of waiting jobs with their payloads, for an edit.
-- Called by: inspect/edit.rs.
-- $1 jsonb     filter; see redrive.filter_jobs
-- $2 jsonb     place of the last job of the previous page; NULL: first page
-- $3 bigint    maximum number of jobs
-- Locks: none; change_jobs.sql locks the jobs and checks them again.
-- Index relied on: the primary key of jobs_delayed, and jobs_for_claim.
-- Rows: id, payload and place of each job. Zero rows: there are no more pages.
SELECT p.id, p.payload, p.next_place FROM redrive.page_waiting($1, $2, $3) p
