-- Purpose: Jobs and redrives at set times.
-- breaking: yes

CREATE TABLE redrive.schedules (
    name         redrive.name          NOT NULL PRIMARY KEY,
    id           bigint                GENERATED ALWAYS AS IDENTITY UNIQUE,
    cron         text                  COLLATE "C" CHECK (octet_length(cron) BETWEEN 1 AND 256),
    zone         text                  COLLATE "C" CHECK (octet_length(zone) BETWEEN 1 AND 100),
    every        interval              CHECK (every BETWEEN '1 second' AND '366 days'),
    queue        redrive.name,
    kind         redrive.kind,
    payload      json                  CHECK (octet_length(payload::text) <= 1048576),
    priority     smallint              CHECK (priority BETWEEN -1000 AND 1000),
    max_attempts integer               CHECK (max_attempts BETWEEN 1 AND 1000),
    -- A tick adds two headers.
    headers      redrive.headers       CHECK (octet_length(headers::text) <= 64000),
    policy       jsonb                 CHECK (policy IS NULL OR (jsonb_typeof(policy -> 'letters') = 'object') IS TRUE),
    missed       text                  COLLATE "C" NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
    overlap      text                  COLLATE "C" NOT NULL CHECK (overlap IN ('allow', 'skip')),
    version      bigint                NOT NULL DEFAULT 1,
    next_at      redrive.run_time,
    retry_at     timestamptz,
    last_at      timestamptz,
    last_error   text,
    paused_at    timestamptz,
    created_at   timestamptz           NOT NULL DEFAULT clock_timestamp(),
    changed_at   timestamptz           NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schedules_have_one_rhythm CHECK ((cron IS NULL) <> (every IS NULL) AND (cron IS NULL) = (zone IS NULL)),
    CONSTRAINT schedules_have_a_job_or_a_policy
        CHECK (num_nonnulls(queue, kind, payload, priority, max_attempts) = CASE WHEN policy IS NULL THEN 5 ELSE 0 END)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

COMMENT ON TABLE redrive.schedules IS 'Jobs that are enqueued, and letters that are redriven, by a cron line in a time zone or at an interval.';
COMMENT ON COLUMN redrive.schedules.id IS 'By which letters record the policy that redrove them.';
COMMENT ON COLUMN redrive.schedules.policy IS 'The letters that each tick redrives, and its limits; see set_policy. NULL: each tick enqueues a job.';
COMMENT ON COLUMN redrive.schedules.version IS 'It grows with each change, and a tick that was planned for an older version has no effect.';
COMMENT ON COLUMN redrive.schedules.next_at IS 'The next tick. NULL: a worker computes it, because PostgreSQL cannot read a cron line.';
COMMENT ON COLUMN redrive.schedules.retry_at IS 'When to try again after an error; NULL: there was none.';
COMMENT ON COLUMN redrive.schedules.last_at IS 'The latest tick that was due when a tick ran. No tick up to it runs again.';

-- The history of each schedule: its latest 100 entries.
CREATE TABLE redrive.schedule_ticks (
    id       bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule redrive.name NOT NULL REFERENCES redrive.schedules ON DELETE CASCADE,
    tick_at  timestamptz  NOT NULL,
    at       timestamptz  NOT NULL DEFAULT clock_timestamp(),
    outcome  text         COLLATE "C" NOT NULL CHECK (outcome IN ('fired', 'triggered', 'counted', 'overlapped', 'missed')),
    ticks    bigint       NOT NULL DEFAULT 1 CHECK (ticks > 0),
    job_id   bigint,
    letters  bigint       CHECK (letters >= 0),
    CONSTRAINT schedule_ticks_have_a_result CHECK (num_nonnulls(job_id, letters) = (outcome <> 'missed')::integer)
);

COMMENT ON COLUMN redrive.schedule_ticks.tick_at IS 'The time of the tick; of several missed ones, the latest.';
COMMENT ON COLUMN redrive.schedule_ticks.ticks IS 'How many missed ticks the row stands for.';
COMMENT ON COLUMN redrive.schedule_ticks.job_id IS 'The new job, or the live job because of which the tick was skipped.';
COMMENT ON COLUMN redrive.schedule_ticks.letters IS 'How many letters a policy redrove, or counted.';

CREATE INDEX schedule_ticks_by_schedule ON redrive.schedule_ticks (schedule, id);
-- Each tick runs once.
CREATE UNIQUE INDEX schedule_ticks_run_once ON redrive.schedule_ticks (schedule, tick_at) WHERE outcome = 'fired';
