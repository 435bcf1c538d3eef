-- Purpose: Puts jobs back into the queue, and makes letters of jobs that died. Nothing else does.

-- Returns a job on its way, whose claim charged this many attempts.
CREATE OR REPLACE FUNCTION redrive.job_of(
    id bigint, ready_at timestamptz, enqueued_at timestamptz, segment smallint, queue text, kind text, payload json,
    meta redrive.job_meta, charged integer DEFAULT 0
) RETURNS redrive.job
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ROW(id, ready_at, enqueued_at, coalesce((meta).attempt, 0) + charged, coalesce((meta).max_attempts, 5),
               coalesce((meta).generation, 0), segment, coalesce((meta).priority, 0), coalesce((meta).crashes, 0),
               coalesce((meta).refunds, 0), queue, kind, payload, (meta).history, (meta).unique_key, (meta).outage_since,
               (meta).headers, (meta).group_key)::redrive.job;
END;

-- Returns the place of a job in the order of claims: higher priorities first; within one, new jobs before redriven ones.
CREATE OR REPLACE FUNCTION redrive.rank_of(job redrive.job) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT (job.generation > 0)::integer - 2 * job.priority;
END;

-- Returns what a job has beyond a plain one; NULL: it is plain.
CREATE OR REPLACE FUNCTION redrive.meta_of(job redrive.job, ready_at timestamptz) RETURNS redrive.job_meta
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN job.attempt > 0 OR job.max_attempts <> 5 OR job.generation > 0 OR job.priority <> 0 OR job.crashes > 0
            OR job.refunds > 0 OR num_nonnulls(ready_at, job.history, job.unique_key, job.outage_since, job.headers,
                                               job.group_key) > 0
        THEN ROW(ready_at, nullif(job.attempt, 0), nullif(job.max_attempts, 5), nullif(job.generation, 0),
                 nullif(job.priority, 0::smallint), nullif(job.crashes, 0::smallint), nullif(job.refunds, 0::smallint),
                 job.history, job.unique_key, job.outage_since, job.headers, job.group_key)::redrive.job_meta
    END;
END;

-- Returns what a new job has beyond a plain one; NULL: it is plain.
CREATE OR REPLACE FUNCTION redrive.new_meta(
    priority integer, max_attempts integer, unique_key text DEFAULT NULL, headers jsonb DEFAULT NULL,
    group_key text DEFAULT NULL
) RETURNS redrive.job_meta
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN priority <> 0 OR max_attempts <> 5 OR num_nonnulls(unique_key, headers, group_key) > 0
        THEN ROW(NULL, NULL, nullif(max_attempts, 5), NULL, nullif(priority, 0), NULL, NULL, NULL, unique_key, NULL,
                 headers, group_key)::redrive.job_meta
    END;
END;

-- Returns a row of `jobs` as a job on its way.
CREATE OR REPLACE FUNCTION redrive.ready_job(j redrive.jobs) RETURNS redrive.job
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT redrive.job_of(j.id, coalesce((j.meta).ready_at, j.enqueued_at), j.enqueued_at, j.segment, j.queue, j.kind,
                          j.payload, j.meta);
END;

-- Returns a delayed job as a job on its way.
CREATE OR REPLACE FUNCTION redrive.delayed_job(d redrive.jobs_delayed) RETURNS redrive.job
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT redrive.job_of(d.id, d.run_at, d.enqueued_at, NULL, d.queue, d.kind, d.payload, d.meta);
END;

-- Returns a job with what an attempt changed.
CREATE OR REPLACE FUNCTION redrive.tried(
    job redrive.job, attempt integer, crashes integer, refunds integer, history jsonb, outage_since timestamptz,
    ready_at timestamptz DEFAULT NULL
) RETURNS redrive.job
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ROW(job.id, ready_at, job.enqueued_at, attempt, job.max_attempts, job.generation, NULL, job.priority, crashes,
               refunds, job.queue, job.kind, job.payload, history, job.unique_key, outage_since, job.headers,
               job.group_key)::redrive.job;
END;

-- Returns a waiting job with what an operator or a chore changed. NULL: unchanged.
CREATE OR REPLACE FUNCTION redrive.altered(
    job redrive.job, priority integer DEFAULT NULL, ready_at timestamptz DEFAULT NULL, payload json DEFAULT NULL,
    headers jsonb DEFAULT NULL
) RETURNS redrive.job
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ROW(job.id, coalesce(ready_at, job.ready_at), job.enqueued_at, job.attempt, job.max_attempts, job.generation,
               job.segment, coalesce(priority, job.priority), job.crashes, job.refunds, job.queue, job.kind,
               coalesce(payload, job.payload), job.history, job.unique_key, job.outage_since,
               coalesce(headers, job.headers), job.group_key)::redrive.job;
END;

-- Puts jobs back: `ready` ones into the current segment, or into that of waiting jobs if they must wait for the turn of
-- their group; `delayed` ones until their `ready_at`. A job that has returned from a lease, or is suspect, waits only for
-- a turn. Returns how many.
CREATE OR REPLACE FUNCTION redrive.requeue(ready redrive.job[], delayed redrive.job[], has_returned boolean) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    returned_at CONSTANT timestamptz := clock_timestamp();
BEGIN
    IF cardinality(ready) > 0 THEN
        INSERT INTO redrive.jobs (segment, id, rank, enqueued_at, queue, kind, payload, meta)
        SELECT CASE
                   WHEN j.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                   WHEN has_returned OR j.crashes > 0 THEN redrive.segment_of_returned(j.queue, j.group_key, j.id)
                   ELSE redrive.entry_segment(j.queue, j.group_key, j.id)
               END,
               j.id, redrive.rank_of(j), j.enqueued_at, j.queue, j.kind, j.payload,
               redrive.meta_of(j, nullif(coalesce(j.ready_at, returned_at), j.enqueued_at))
        FROM unnest(ready) j;
    END IF;
    IF cardinality(delayed) > 0 THEN
        INSERT INTO redrive.jobs_delayed (run_at, id, enqueued_at, queue, kind, payload, meta)
        SELECT j.ready_at, j.id, j.enqueued_at, j.queue, j.kind, j.payload, redrive.meta_of(j, NULL)
        FROM unnest(delayed) j;
    END IF;
    RETURN coalesce(cardinality(ready), 0) + coalesce(cardinality(delayed), 0);
END
$$;

-- Makes letters of jobs that died, each of its death, and frees their unique keys. A redriven job already has a letter,
-- which reopens with the next generation. Returns how many.
CREATE OR REPLACE FUNCTION redrive.bury(jobs redrive.job[], deaths redrive.death[], audit bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Locks the letters of redriven jobs in the order of their ids before changing any of them, and before the trigger
    -- of new letters creates a failure group. All statements that lock letters use this order, which prevents deadlocks:
    -- a session that waits for the group of another one may hold a letter that a third one, such as an edit, waits for.
    PERFORM FROM redrive.dead_letters l
    WHERE l.id = ANY (ARRAY(SELECT j.id FROM unnest(jobs) j WHERE j.generation > 0))
    ORDER BY l.id
    FOR NO KEY UPDATE;
    INSERT INTO redrive.dead_letters
        (id, queue, kind, cause, error_class, error_message, error_detail, payload, priority, attempts, max_attempts,
         generation, crashes, history, worker_id, host, version, enqueued_at, unique_key, pid, run_ms, headers, group_key,
         failure_key)
    SELECT c.id, c.queue, c.kind, c.cause, c.error_class, c.error_message, c.error_detail, c.payload, c.priority,
           c.attempt, c.max_attempts, c.generation, c.crashes, coalesce(c.history, '[]'), c.worker_id, c.host, c.version,
           c.enqueued_at, c.unique_key, c.pid, c.run_ms, c.headers, c.group_key, c.failure_key
    FROM unnest(jobs, deaths) c
    -- The oldest first.
    ORDER BY c.id
    ON CONFLICT (id) DO UPDATE
    SET state = 'open', cause = excluded.cause, error_class = excluded.error_class,
        error_message = excluded.error_message, error_detail = excluded.error_detail,
        payload = excluded.payload, priority = excluded.priority, attempts = excluded.attempts,
        max_attempts = excluded.max_attempts, generation = excluded.generation,
        crashes = excluded.crashes, history = excluded.history, worker_id = excluded.worker_id,
        host = excluded.host, version = excluded.version, discard_reason = NULL,
        failure_key = excluded.failure_key, unique_key = excluded.unique_key, headers = excluded.headers,
        group_key = excluded.group_key, pid = excluded.pid, run_ms = excluded.run_ms,
        group_id = excluded.group_id, detail_id = excluded.detail_id,
        died_at = excluded.died_at, changed_at = excluded.changed_at;
    IF audit IS NOT NULL THEN
        UPDATE redrive.dead_letters l SET audit_id = bury.audit
        WHERE l.id = ANY (ARRAY(SELECT j.id FROM unnest(jobs) j));
    END IF;
    -- No other session locks the key of a live job; see redrive.take_keys. The array keeps the planner from reading all
    -- keys.
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(SELECT j.id FROM unnest(jobs) j WHERE j.unique_key IS NOT NULL));
    RETURN cardinality(jobs);
END
$$;

-- Returns where a waiting job is, for a caller that reads pages; see `waiting_query`.
CREATE OR REPLACE FUNCTION redrive.place_of(job redrive.job) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN job.segment IS NULL THEN jsonb_build_object('state', 'delayed', 'id', job.id)
        ELSE jsonb_build_object('state', 'ready', 'queue', job.queue, 'rank', (job.generation > 0)::integer - 2 * job.priority,
                                'id', job.id)
    END;
END;
