-- Purpose: Every job that is live or kept, with its state.

-- The live jobs, and the finished ones that their handlers keep. The columns are those of live_jobs.
CREATE OR REPLACE VIEW redrive.all_jobs AS
    TABLE redrive.live_jobs
    UNION ALL
    SELECT d.id, d.queue::text, d.kind::text, 'done'::text, d.priority, 'null'::json, d.attempt, d.max_attempts,
           d.generation, 0::smallint, d.done_at, d.enqueued_at, NULL::jsonb, NULL::uuid, NULL::uuid, d.started_at,
           NULL::text, NULL::timestamptz, NULL::jsonb, NULL::text
    FROM redrive.done_jobs d
    WHERE d.keep_until > statement_timestamp();

COMMENT ON VIEW redrive.all_jobs IS 'Every job that is live or kept, with its state: ready, delayed, leased or done.';
REVOKE ALL ON redrive.all_jobs FROM PUBLIC;
