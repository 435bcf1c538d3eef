-- Purpose: The groups that a letter holds.

CREATE OR REPLACE VIEW redrive.held_groups AS
    SELECT s.queue::text AS queue, s.group_key::text AS group_key, s.job_id AS letter_id, s.held_at,
           l.kind::text AS kind, l.error_class,
           (SELECT count(*) FROM redrive.jobs_waiting j
            WHERE j.queue = s.queue AND (j.meta).group_key = s.group_key) AS waiting,
           (SELECT count(*) FROM redrive.dead_letters b
            JOIN redrive.diverted_groups d ON d.queue = b.queue AND d.group_key = b.group_key AND b.died_at >= d.since
            WHERE b.queue = s.queue AND b.group_key = s.group_key AND b.cause = 'diverted'
                AND b.state IN ('open', 'quarantined') AND b.id <> s.job_id) AS diverted
    FROM redrive.group_slots s
    JOIN redrive.dead_letters l ON l.id = s.job_id
    WHERE s.held_at IS NOT NULL;

COMMENT ON VIEW redrive.held_groups IS 'The groups that a letter holds, with the number of jobs that wait and of letters that were diverted behind it.';
