-- Purpose: `jobs_delayed`: jobs whose time has not come (scheduled, backing off, snoozed).
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: there is none.
-- breaking: yes

CREATE TABLE redrive.jobs_delayed (
    id           bigint      NOT NULL DEFAULT nextval('redrive.job_id') PRIMARY KEY,
    run_at       timestamptz NOT NULL CHECK (run_at > '2000-01-01' AND run_at < '3000-01-01'),
    enqueued_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempt      integer     NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    max_attempts integer     NOT NULL DEFAULT 5 CHECK (max_attempts BETWEEN 1 AND 1000),
    generation   integer     NOT NULL DEFAULT 0 CHECK (generation >= 0),
    priority     smallint    NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1000 AND 1000),
    crashes      smallint    NOT NULL DEFAULT 0 CHECK (crashes >= 0),
    refunds      smallint    NOT NULL DEFAULT 0 CHECK (refunds >= 0),
    queue        text        COLLATE "C" NOT NULL CHECK (length(queue) BETWEEN 1 AND 100),
    kind         text        COLLATE "C" NOT NULL CHECK (length(kind) BETWEEN 1 AND 100),
    payload      jsonb       NOT NULL,
    history      jsonb,
    CONSTRAINT jobs_delayed_have_an_attempt_left CHECK (attempt < max_attempts)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON TABLE redrive.jobs_delayed IS 'Delayed jobs: inserted by enqueue and by settling a retry; moved into jobs when due.';

CREATE INDEX jobs_delayed_for_promote ON redrive.jobs_delayed (queue, run_at, id);
