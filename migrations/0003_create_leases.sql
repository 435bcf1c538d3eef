-- Purpose: `workers` and `leases`: who runs which jobs.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: there is none.
-- breaking: yes

-- One row per worker process. Renewing it keeps all leases of the process alive, so the
-- cost of a heartbeat does not grow with the jobs in flight.
CREATE TABLE redrive.workers (
    worker_id  uuid         NOT NULL PRIMARY KEY,
    queue      redrive.name NOT NULL,
    host       text         NOT NULL,
    pid        integer      NOT NULL,
    version    text         NOT NULL,
    slots      integer      NOT NULL CHECK (slots > 0),
    kinds      text[]       COLLATE "C",
    waiting    boolean      NOT NULL DEFAULT false,
    started_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz  NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

COMMENT ON COLUMN redrive.workers.kinds IS 'The kinds it handles; NULL: all.';
COMMENT ON COLUMN redrive.workers.waiting IS 'It found nothing to do: an enqueue should notify.';

-- A job as it rides in a lease. Attributes can be added at the end, never changed.
-- `attempt` includes the one that this lease was charged for.
CREATE TYPE redrive.leased_job AS (
    id           bigint,
    kind         text,
    priority     smallint,
    payload      jsonb,
    attempt      integer,
    max_attempts integer,
    generation   integer,
    crashes      smallint,
    refunds      smallint,
    enqueued_at  timestamptz,
    history      jsonb
);

-- One row per claim, not per job. Its existence is the fence: a worker that lost its lease
-- finds no row, so whatever it writes about the jobs has no effect.
CREATE TABLE redrive.leases (
    lease_id   uuid                 NOT NULL PRIMARY KEY,
    worker_id  uuid                 NOT NULL,
    queue      redrive.name         NOT NULL,
    claimed_at timestamptz          NOT NULL DEFAULT clock_timestamp(),
    jobs       redrive.leased_job[] NOT NULL CHECK (cardinality(jobs) > 0),
    done       bigint[]             NOT NULL DEFAULT '{}',
    cancelled  bigint[]             NOT NULL DEFAULT '{}',
    CONSTRAINT leases_have_a_job_left CHECK (cardinality(done) < cardinality(jobs))
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON COLUMN redrive.leases.done IS 'Ids of jobs that are settled already.';
COMMENT ON COLUMN redrive.leases.cancelled IS 'Ids of jobs that an operator asked to stop.';

CREATE INDEX leases_for_reap ON redrive.leases (worker_id);

-- lz4 where the server was built with it: a lease is written once and read once or never.
DO $$
BEGIN
    ALTER TABLE redrive.leases ALTER COLUMN jobs SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
