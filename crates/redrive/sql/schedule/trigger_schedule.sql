-- Purpose: enqueues the job of a schedule, or redrives the letters of its policy, now.
-- Called by: schedule/handle.rs.
-- $1 text name  $2 text operator  $3 text reason
-- Locks: what it inserts, and the letters that it sends; a locked letter is skipped. It waits for a transaction that is storing the key of the same schedule.
-- Index relied on: the primary key of schedules; schedule_ticks_by_schedule.
-- Rows: always one: the job and whether it is new, or the number of letters. All NULL: the schedule does not exist.
SELECT t.job_id, t.is_new, t.letters FROM redrive.trigger_schedule($1, $2, $3) t
