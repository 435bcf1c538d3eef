-- Purpose: resumes a paused queue for an operator.
-- Called by: pipeline/pause.rs.
-- $1 text      queue
-- $2 text      operator   $3 text  reason
-- Locks: the row of the pause.
-- Index relied on: the primary key of queue_pauses.
-- Rows: always one: whether the queue was paused.
SELECT redrive.resume_queue($1, $2, $3) AS was_paused
