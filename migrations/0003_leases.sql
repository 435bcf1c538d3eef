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

-- One row per claim, not per job. The row is the fence: a worker that lost its lease finds no row,
-- so its writes about these jobs have no effect. Element n of each array belongs to job n. The nullable
-- arrays are NULL if all jobs have the default, which is the rule for new jobs. A column can be added while
-- workers run: it is one more nullable array, which workers of the older version leave NULL.
CREATE TABLE redrive.leases (
    lease_id      uuid          NOT NULL PRIMARY KEY,
    worker_id     uuid          NOT NULL,
    queue         redrive.name  NOT NULL,
    claimed_at    timestamptz   NOT NULL DEFAULT clock_timestamp(),
    ids           bigint[]      NOT NULL,
    kinds         text[]        COLLATE "C" NOT NULL,
    payloads      json[]        NOT NULL,
    enqueued_at   timestamptz[] NOT NULL,
    done          bigint[]      NOT NULL DEFAULT '{}',
    cancelled     bigint[]      NOT NULL DEFAULT '{}',
    job_count     integer       NOT NULL GENERATED ALWAYS AS (cardinality(ids)) STORED,
    ready_at      timestamptz[],
    priorities    smallint[],
    attempts      integer[],
    max_attempts  integer[],
    generations   integer[],
    crashes       smallint[],
    refunds       smallint[],
    histories     jsonb[],
    unique_keys   text[]        COLLATE "C",
    outages_since timestamptz[],
    headers       jsonb[],
    group_keys    text[]        COLLATE "C",
    CONSTRAINT leases_have_a_job_left CHECK (cardinality(done) < job_count)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON COLUMN redrive.leases.done IS 'Ids of jobs that are settled.';
COMMENT ON COLUMN redrive.leases.cancelled IS 'Ids of jobs that an operator cancelled while they ran.';
COMMENT ON COLUMN redrive.leases.job_count IS 'The number of jobs, including settled ones. Reading it does not unpack `ids`.';
COMMENT ON COLUMN redrive.leases.ready_at IS 'When each job became ready; NULL: when it was enqueued.';
COMMENT ON COLUMN redrive.leases.attempts IS 'The attempt of each job, which the claim charged; NULL: 1.';
COMMENT ON COLUMN redrive.leases.max_attempts IS 'The maximum attempts of each job; NULL: 5.';

CREATE INDEX leases_for_reap ON redrive.leases (worker_id);

-- lz4 for every array, or no compression if the server lacks it. A lease is written once and usually not read;
-- compressing its arrays with pglz, the default, would cost more than the rest of a claim.
DO $$
DECLARE
    each_array name;
BEGIN
    FOR each_array IN
        SELECT a.attname FROM pg_attribute a
        WHERE a.attrelid = 'redrive.leases'::regclass AND a.attnum > 0 AND a.attstorage = 'x' AND a.attndims > 0
    LOOP
        BEGIN
            EXECUTE format('ALTER TABLE redrive.leases ALTER COLUMN %I SET COMPRESSION lz4', each_array);
        EXCEPTION WHEN feature_not_supported THEN
            EXECUTE format('ALTER TABLE redrive.leases ALTER COLUMN %I SET STORAGE EXTERNAL', each_array);
        END;
    END LOOP;
END
$$;

-- A job of a lease. Attributes can be added at the end.
CREATE TYPE redrive.leased_job AS (
    id           bigint,
    kind         text,
    priority     smallint,
    payload      json,
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

-- Returns the jobs of a lease, including settled ones. A new column gets its place here, so that the statements
-- of older workers need not know it.
CREATE FUNCTION redrive.jobs_of(lease redrive.leases) RETURNS SETOF redrive.leased_job
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT j.id, j.kind, coalesce(j.priority, 0::smallint), j.payload, coalesce(j.attempt, 1),
           coalesce(j.max_attempts, 5), coalesce(j.generation, 0), coalesce(j.crashes, 0::smallint),
           coalesce(j.refunds, 0::smallint), j.enqueued_at, j.history, j.unique_key, j.outage_since, j.headers,
           j.group_key
    FROM unnest(lease.ids, lease.kinds, lease.payloads, lease.enqueued_at, lease.priorities, lease.attempts,
                lease.max_attempts, lease.generations, lease.crashes, lease.refunds, lease.histories,
                lease.unique_keys, lease.outages_since, lease.headers, lease.group_keys)
        AS j (id, kind, payload, enqueued_at, priority, attempt, max_attempts, generation, crashes, refunds, history,
              unique_key, outage_since, headers, group_key);
END;

-- Returns the jobs of a lease with these ids, and perhaps others. For a few of many jobs, it does not unpack
-- the others. A subscript walks over the elements before it, so for many jobs that would take longer.
CREATE FUNCTION redrive.some_jobs_of(lease redrive.leases, wanted bigint[]) RETURNS SETOF redrive.leased_job
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT p.id, lease.kinds[p.n], coalesce(lease.priorities[p.n], 0::smallint), lease.payloads[p.n],
           coalesce(lease.attempts[p.n], 1), coalesce(lease.max_attempts[p.n], 5),
           coalesce(lease.generations[p.n], 0), coalesce(lease.crashes[p.n], 0::smallint),
           coalesce(lease.refunds[p.n], 0::smallint), lease.enqueued_at[p.n], lease.histories[p.n],
           lease.unique_keys[p.n], lease.outages_since[p.n], lease.headers[p.n], lease.group_keys[p.n]
    FROM (SELECT i.id, i.n::integer AS n FROM unnest(lease.ids) WITH ORDINALITY AS i (id, n)) p
    WHERE cardinality(wanted) * 8 < lease.job_count AND p.id = ANY (wanted)
    UNION ALL
    SELECT j.id, j.kind, j.priority, j.payload, j.attempt, j.max_attempts, j.generation, j.crashes, j.refunds,
           j.enqueued_at, j.history, j.unique_key, j.outage_since, j.headers, j.group_key
    FROM redrive.jobs_of(lease) j
    WHERE cardinality(wanted) * 8 >= lease.job_count;
END;

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
-- the snapshot, so that a job whose segment is truncated in between is found in its lease, and a lease that is
-- rewritten in between is found too.
CREATE FUNCTION redrive.is_drained(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    PERFORM redrive.require_read_committed('is_drained');
    LOCK TABLE redrive.jobs, redrive.leases IN ACCESS SHARE MODE;
    RETURN NOT EXISTS (SELECT FROM redrive.jobs j WHERE j.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.queue = is_drained.queue);
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
