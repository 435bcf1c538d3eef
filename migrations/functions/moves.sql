-- Purpose: Puts jobs back into the queue, and makes letters of jobs that died. Nothing else does.

-- Puts jobs back: `ready` ones into the current segment, or into that of waiting jobs if they must wait for the turn of
-- their group; `delayed` ones until their `ready_at`. A job that has returned from a lease, or is suspect, waits only for
-- a turn. Returns how many.
CREATE OR REPLACE FUNCTION redrive.requeue(ready redrive.job[], delayed redrive.job[], has_returned boolean) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    returned_at CONSTANT timestamptz := clock_timestamp();
BEGIN
    IF cardinality(ready) > 0 THEN
        INSERT INTO redrive.jobs (segment, id, rank, enqueued_at, queue, kind, payload, meta)
        SELECT CASE WHEN (j.meta).group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                    ELSE redrive.entry_segment(j.queue, j.id, has_returned OR j.crashes > 0) END,
               j.id, redrive.rank_of(j), j.enqueued_at, j.queue, j.kind, j.payload,
               CASE WHEN NOT m.meta IS NULL THEN m.meta END
        FROM unnest(ready) j
        CROSS JOIN LATERAL (
            SELECT redrive.meta_of(j, nullif(coalesce(j.ready_at, returned_at), j.enqueued_at)) AS meta) m;
    END IF;
    IF cardinality(delayed) > 0 THEN
        INSERT INTO redrive.jobs_delayed (run_at, id, enqueued_at, queue, kind, payload, meta)
        SELECT j.ready_at, j.id, j.enqueued_at, j.queue, j.kind, j.payload,
               CASE WHEN NOT m.meta IS NULL THEN m.meta END
        FROM unnest(delayed) j
        CROSS JOIN LATERAL (SELECT redrive.meta_of(j, NULL) AS meta) m;
    END IF;
    RETURN coalesce(cardinality(ready), 0) + coalesce(cardinality(delayed), 0);
END
$$;

-- Makes letters of jobs that died, each of its death, and frees their unique keys. A redriven job already has a letter,
-- which reopens with the next generation. Returns how many.
CREATE OR REPLACE FUNCTION redrive.bury(jobs redrive.job[], deaths redrive.death[], audit bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    redriven CONSTANT bigint[] := ARRAY(SELECT j.id FROM unnest(jobs) j WHERE j.generation > 0);
    reopened bigint[] := '{}';
BEGIN
    IF redriven <> '{}' THEN
        -- Locks the letters of redriven jobs in the order of their ids before changing any of them, and before the
        -- trigger of new letters creates a failure group. All statements that lock letters use this order, which prevents
        -- deadlocks: a session that waits for the group of another one may hold a letter that a third one, such as an
        -- edit, waits for.
        reopened := ARRAY(
            SELECT l.id FROM redrive.dead_letters l WHERE l.id = ANY (redriven) ORDER BY l.id FOR NO KEY UPDATE);
    END IF;
    INSERT INTO redrive.dead_letters AS l
        (id, queue, kind, cause, error_class, error_message, error_detail, payload, priority, attempts, max_attempts,
         generation, crashes, history, worker_id, host, version, enqueued_at, unique_key, pid, run_ms, headers, group_key,
         failure_key, audit_id)
    SELECT c.id, redrive.cleaned_name(c.queue), redrive.cleaned_name(c.kind), c.cause, c.error_class, c.error_message,
           c.error_detail, c.payload, c.priority, c.attempt, c.max_attempts,
           -- Whoever may insert jobs can claim any generation. A letter counts its own.
           CASE WHEN c.id = ANY (reopened) THEN c.generation ELSE 0 END,
           c.crashes, coalesce(c.history, '[]'), c.worker_id, c.host, c.version, c.enqueued_at,
           (c.meta).unique_key, c.pid, c.run_ms, (c.meta).headers, (c.meta).group_key, c.failure_key, bury.audit
    FROM unnest(jobs, deaths) c
    -- The oldest first.
    ORDER BY c.id
    ON CONFLICT (id) DO UPDATE
    SET state = 'open', cause = excluded.cause, error_class = excluded.error_class,
        error_message = excluded.error_message, error_detail = excluded.error_detail,
        -- A payload that cannot be read may have been redacted as a whole. Captured bytes are those of their payload: a rule,
        -- an edit of the job or an enqueue may have changed it.
        payload = excluded.payload,
        raw = coalesce(excluded.raw, CASE WHEN excluded.payload::text = l.payload::text THEN l.raw END),
        -- A rule that redacted the letter before may be gone, and an edit of the job may have replaced its values.
        redacted = CASE WHEN l.redacted IS NULL THEN excluded.redacted ELSE (
            SELECT array_agg(DISTINCT r.pointer)
            FROM unnest(redrive.still_redacted(l.redacted, excluded.payload) || excluded.redacted) AS r (pointer)) END,
        priority = excluded.priority, attempts = excluded.attempts,
        max_attempts = excluded.max_attempts, generation = excluded.generation,
        crashes = excluded.crashes, history = excluded.history, worker_id = excluded.worker_id,
        host = excluded.host, version = excluded.version, failure_key = excluded.failure_key,
        audit_id = excluded.audit_id, unique_key = excluded.unique_key, headers = excluded.headers,
        group_key = excluded.group_key, pid = excluded.pid, run_ms = excluded.run_ms,
        group_id = excluded.group_id, detail_id = excluded.detail_id,
        died_at = excluded.died_at, changed_at = excluded.changed_at;
    -- No other session locks the key of a live job; see redrive.take_key. The array keeps the planner from reading all
    -- keys.
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(SELECT j.id FROM unnest(jobs) j WHERE (j.meta).unique_key IS NOT NULL));
    RETURN cardinality(jobs);
END
$$;
