-- Purpose: Workers, and the leases under which they hold jobs.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- One row per worker process. Renewing it renews all leases of the process, so the cost of a
-- heartbeat does not depend on the number of jobs in flight.
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
COMMENT ON COLUMN redrive.workers.waiting IS 'The worker is idle: an enqueue should notify it.';

-- A job inside a lease. Attributes can be added at the end, but not changed.
-- `attempt` includes the attempt that this claim charged.
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
    history      jsonb,
    unique_key   text,
    outage_since timestamptz,
    headers      jsonb,
    group_key    text
);

-- One row per claim, not per job. The row is the fence: a worker that lost its lease finds no row,
-- so its writes about these jobs have no effect.
CREATE TABLE redrive.leases (
    lease_id   uuid                 NOT NULL PRIMARY KEY,
    worker_id  uuid                 NOT NULL,
    queue      redrive.name         NOT NULL,
    claimed_at timestamptz          NOT NULL DEFAULT clock_timestamp(),
    jobs       redrive.leased_job[] NOT NULL CHECK (cardinality(jobs) > 0),
    done       bigint[]             NOT NULL DEFAULT '{}',
    cancelled  bigint[]             NOT NULL DEFAULT '{}',
    job_count  integer              NOT NULL GENERATED ALWAYS AS (cardinality(jobs)) STORED,
    CONSTRAINT leases_have_a_job_left CHECK (cardinality(done) < cardinality(jobs))
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON COLUMN redrive.leases.done IS 'Ids of jobs that are settled.';
COMMENT ON COLUMN redrive.leases.cancelled IS 'Ids of jobs that an operator cancelled while they ran.';
COMMENT ON COLUMN redrive.leases.job_count IS 'The number of jobs, including settled ones. Reading it does not unpack `jobs`.';

CREATE INDEX leases_for_reap ON redrive.leases (worker_id);

-- lz4 if the server supports it, because a lease is written once and read at most once.
DO $$
BEGIN
    ALTER TABLE redrive.leases ALTER COLUMN jobs SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;

-- Notifies the idle workers of a queue. This is a hint: polling finds the job too. Without an idle
-- worker it sends nothing, because committing a NOTIFY takes a lock shared by all databases.
CREATE FUNCTION redrive.wake(queue text) RETURNS boolean
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_notify('redrive_ready', wake.queue) IS NOT NULL
    FROM redrive.workers w
    WHERE w.queue = wake.queue AND w.waiting AND w.expires_at > statement_timestamp()
    LIMIT 1
$$;

-- Returns whether a queue holds no live job: none ready, delayed or leased. Callers poll this while a
-- queue drains, so the settings below keep it from reading a long queue to find one row. The lock comes before
-- the snapshot, so that a job whose segment is truncated in between is found in its lease.
CREATE FUNCTION redrive.is_drained(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    PERFORM redrive.require_read_committed('is_drained');
    LOCK TABLE redrive.jobs IN ACCESS SHARE MODE;
    RETURN NOT EXISTS (SELECT FROM redrive.jobs j WHERE j.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.queue = is_drained.queue);
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
