-- Purpose: `jobs_delayed`: jobs whose time has not come (scheduled, backing off, snoozed).
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: there is none.
-- breaking: yes

CREATE TABLE redrive.jobs_delayed (
    id           bigint             NOT NULL DEFAULT nextval('redrive.job_id') PRIMARY KEY,
    run_at       redrive.some_day   NOT NULL,
    enqueued_at  timestamptz        NOT NULL DEFAULT clock_timestamp(),
    attempt      redrive.times      NOT NULL DEFAULT 0,
    max_attempts redrive.allowance  NOT NULL DEFAULT 5,
    generation   redrive.times      NOT NULL DEFAULT 0,
    priority     redrive.priority   NOT NULL DEFAULT 0,
    crashes      redrive.few_times  NOT NULL DEFAULT 0,
    refunds      redrive.few_times  NOT NULL DEFAULT 0,
    queue        redrive.short_text NOT NULL,
    kind         redrive.short_text NOT NULL,
    payload      jsonb              NOT NULL,
    history      jsonb,
    CONSTRAINT jobs_delayed_have_an_attempt_left CHECK (attempt < max_attempts)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON TABLE redrive.jobs_delayed IS 'Delayed jobs: inserted by enqueue and by settling a retry; moved into jobs when due.';

CREATE INDEX jobs_delayed_for_promote ON redrive.jobs_delayed (queue, run_at, id);
