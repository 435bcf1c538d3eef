-- Purpose: lists the latest ticks of a schedule, with the states of their jobs.
-- $1 text name  $2 bigint how many entries at most
-- Index relied on: schedule_ticks_by_schedule; the primary keys of dead_letters and archived_letters. A live job is
--                  found by reading the live jobs once, which is acceptable for operators.
-- Rows: the entries, newest first. `state` is NULL without a job; `done` if the job is neither live nor a letter.
WITH latest AS MATERIALIZED (
    SELECT t.id, t.tick_at, t.at, t.outcome, t.ticks, t.job_id, t.letters
    FROM redrive.schedule_ticks t
    WHERE t.schedule = $1
    ORDER BY t.id DESC
    LIMIT $2
),
live AS MATERIALIZED (
    SELECT j.id, j.state FROM redrive.live_jobs j WHERE j.id = ANY (ARRAY(SELECT l.job_id FROM latest l))
)
SELECT t.tick_at, t.at, t.outcome, t.ticks, t.job_id, t.letters,
       CASE WHEN t.job_id IS NOT NULL THEN coalesce(
           j.state,
           CASE d.state WHEN 'recovered' THEN 'done' WHEN 'redriving' THEN 'done' WHEN 'discarded' THEN 'discarded'
               ELSE CASE WHEN d.id IS NOT NULL THEN 'dead' END END,
           (SELECT 'archived' FROM redrive.archived_letters a WHERE a.id = t.job_id LIMIT 1),
           'done') END AS state
FROM latest t
LEFT JOIN live j ON j.id = t.job_id
LEFT JOIN redrive.dead_letters d ON d.id = t.job_id
ORDER BY t.id DESC
