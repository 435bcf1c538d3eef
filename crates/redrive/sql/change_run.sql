-- Purpose: pauses, resumes or cancels a redrive run, and writes the audit.
-- Called by: redrive/run.rs.
-- $1 bigint    the run        $2 text    pause, resume or cancel
-- $3 text      why            $4 text    who
-- Locks: the row of the run: it waits for a step that is under way.
-- Index relied on: the primary key of redrive_runs.
-- Rows: always one: the state it had and the one it has; NULL: there is no such run.
SELECT c.was, c.became
FROM redrive.change_run($1, $2, $3, $4) c
