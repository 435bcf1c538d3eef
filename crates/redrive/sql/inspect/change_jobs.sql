-- Purpose: changes a batch of waiting jobs and writes the audit.
-- Called by: inspect/bulk.rs and inspect/edit.rs, once per batch.
-- $1 text      change: cancel, set_priority, run_now or edit
-- $2 jsonb     filter; see redrive.filter_jobs
-- $3 jsonb     place of the last job of the previous batch; NULL: first batch
-- $4 jsonb     place of the last job of this batch; NULL: the maximum decides
-- $5 bigint    maximum number of jobs
-- $6 text      reason         $7 text  operator
-- $8 bigint    audit record of the first batch; NULL: this is the first
-- $9 integer   new priority; NULL: it does not change
-- $10 bigint[] ids of the jobs of an edit
-- $11 text[]   payloads that they had when they were read
-- $12 text[]   new payloads
-- Locks: the jobs; those locked by another session are skipped.
-- Index relied on: the primary key of jobs_delayed, and jobs_for_claim.
-- Rows: one per changed job, with its place and the audit record of the first batch. Zero rows: no job is left.
SELECT c.id, c.audit_id, c.next_place
FROM redrive.change_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) c
