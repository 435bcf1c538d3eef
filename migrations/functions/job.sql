-- Purpose: A job on its way: read from its place, changed by an attempt or an operator, and written back.

-- Returns a job on its way, whose claim charged this many attempts.
CREATE OR REPLACE FUNCTION redrive.job_of(
    id bigint, ready_at timestamptz, enqueued_at timestamptz, segment smallint, queue text, kind text, payload json,
    meta redrive.job_meta, charged integer DEFAULT 0
) RETURNS redrive.job
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ROW(id, ready_at, enqueued_at, coalesce((meta).attempt, 0) + charged, coalesce((meta).max_attempts, 5),
               coalesce((meta).generation, 0), segment, coalesce((meta).priority, 0::smallint),
               coalesce((meta).crashes, 0::smallint), coalesce((meta).refunds, 0::smallint), queue, kind, payload, (meta).history, (meta).outage_since, meta)::redrive.job;

-- Returns the place of a job in the order of claims: higher priorities first; within one, new jobs before redriven ones.
CREATE OR REPLACE FUNCTION redrive.rank_of(job redrive.job) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (job.generation > 0)::integer - 2 * job.priority;

-- Returns what a job has beyond a plain one; all NULL: it is plain. Only here is a column of `meta` named that no move
-- changes.
CREATE OR REPLACE FUNCTION redrive.meta_of(job redrive.job, ready_at timestamptz) RETURNS redrive.job_meta
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ROW(ready_at, nullif(job.attempt, 0), nullif(job.max_attempts, 5), nullif(job.generation, 0),
               nullif(job.priority, 0::smallint), nullif(job.crashes, 0::smallint), nullif(job.refunds, 0::smallint),
               job.history, (job.meta).unique_key, job.outage_since, (job.meta).headers,
               (job.meta).group_key)::redrive.job_meta;

-- Returns what a new job has beyond a plain one; NULL: it is plain.
CREATE OR REPLACE FUNCTION redrive.new_meta(
    priority integer, max_attempts integer, unique_key text DEFAULT NULL, headers jsonb DEFAULT NULL,
    group_key text DEFAULT NULL
) RETURNS redrive.job_meta
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN priority <> 0 OR max_attempts <> 5 OR num_nonnulls(unique_key, headers, group_key) > 0
        THEN ROW(NULL, NULL, nullif(max_attempts, 5), NULL, nullif(priority, 0), NULL, NULL, NULL, unique_key, NULL,
                 headers, group_key)::redrive.job_meta
    END;

-- Returns a row of `jobs` as a job on its way.
CREATE OR REPLACE FUNCTION redrive.ready_job(j redrive.jobs) RETURNS redrive.job
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN redrive.job_of(j.id, coalesce((j.meta).ready_at, j.enqueued_at), j.enqueued_at, j.segment, j.queue, j.kind,
                          j.payload, j.meta);

-- Returns a delayed job as a job on its way.
CREATE OR REPLACE FUNCTION redrive.delayed_job(d redrive.jobs_delayed) RETURNS redrive.job
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN redrive.job_of(d.id, d.run_at, d.enqueued_at, NULL, d.queue, d.kind, d.payload, d.meta);

-- Returns a job with what an attempt, an operator, an enqueue or a chore changed. NULL: unchanged. The outage of a job starts
-- with the first one in a row.
CREATE OR REPLACE FUNCTION redrive.altered(
    job redrive.job, attempt integer DEFAULT NULL, crashes integer DEFAULT NULL, refunds integer DEFAULT NULL,
    history jsonb DEFAULT NULL, in_outage boolean DEFAULT NULL, ready_at timestamptz DEFAULT NULL,
    priority integer DEFAULT NULL, payload json DEFAULT NULL, meta redrive.job_meta DEFAULT NULL
) RETURNS redrive.job
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN ROW(job.id, coalesce(ready_at, job.ready_at), job.enqueued_at, coalesce(attempt, job.attempt), job.max_attempts,
               job.generation, job.segment, coalesce(priority, job.priority), coalesce(crashes, job.crashes),
               coalesce(refunds, job.refunds), job.queue, job.kind, coalesce(payload, job.payload),
               coalesce(history, job.history),
               CASE WHEN coalesce(in_outage, true) THEN
                   coalesce(job.outage_since, CASE WHEN in_outage THEN clock_timestamp() END) END,
               coalesce(meta, job.meta))::redrive.job;

-- Returns where a waiting job is, for a caller that reads pages; see `waiting_jobs`.
CREATE OR REPLACE FUNCTION redrive.place_of(job redrive.job) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN job.segment IS NULL THEN jsonb_build_object('state', 'delayed', 'id', job.id)
        ELSE jsonb_build_object('state', 'ready', 'queue', job.queue, 'rank', redrive.rank_of(job), 'id', job.id)
    END;
