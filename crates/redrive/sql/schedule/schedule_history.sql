-- Purpose: lists the latest ticks of a schedule, with the states of the letters of their jobs.
-- $1 text name  $2 bigint how many entries at most
-- Index relied on: schedule_ticks_by_schedule; the primary key of dead_letters.
-- Rows: the entries, newest first. `letter` is NULL if the job has not died, or its letter was removed.
SELECT t.tick_at, t.at, t.outcome, t.ticks, t.job_id AS job, t.letters, d.state AS letter
FROM redrive.schedule_ticks t
LEFT JOIN redrive.dead_letters d ON d.id = t.job_id
WHERE t.schedule = $1
ORDER BY t.id DESC
LIMIT $2
