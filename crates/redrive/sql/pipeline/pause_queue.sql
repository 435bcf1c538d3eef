-- Purpose: pauses a queue for an operator.
-- Called by: pipeline/pause.rs.
-- $1 text         queue
-- $2 timestamptz  end; NULL: after the duration
-- $3 bigint       duration in milliseconds; NULL: until the end, or until the queue is resumed
-- $4 text         operator   $5 text  reason
-- Locks: the row of the pause.
-- Index relied on: the primary key of queue_pauses.
-- Rows: always one: the id of the audit record.
SELECT redrive.pause_queue($1, $2, $3::bigint * interval '1 millisecond', $4, $5) AS act
