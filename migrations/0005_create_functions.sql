-- Purpose: SQL as an API (`enqueue`, `capture`), and what the statements share.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: there is none.
-- breaking: yes

-- Adds one attempt to a history: the five oldest and the fifteen newest are kept, because
-- the first failure and the last ones are what an engineer asks for.
CREATE FUNCTION redrive.remember(history jsonb, attempt jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN history IS NULL THEN jsonb_build_array(attempt)
        WHEN jsonb_array_length(history) < 20 THEN history || jsonb_build_array(attempt)
        ELSE (history - 5) || jsonb_build_array(attempt)
    END
$$;

-- Tells the waiting workers of a queue, if there are any. A hint: polling finds the job too.
-- Nobody waiting, no NOTIFY: its commit takes a lock that all databases of the server share.
CREATE FUNCTION redrive.wake(queue text) RETURNS boolean
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_notify('redrive_ready', wake.queue) IS NOT NULL
    FROM redrive.workers w
    WHERE w.queue = wake.queue AND w.waiting AND w.expires_at > statement_timestamp()
    LIMIT 1
$$;

-- Enqueues one job in the caller's transaction; any language can call it.
-- Returns the id of the job.
CREATE FUNCTION redrive.enqueue(
    queue        text,
    kind         text,
    payload      jsonb,
    delay        interval DEFAULT '0',
    priority     integer  DEFAULT 0,
    max_attempts integer  DEFAULT 5
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    new_id bigint;
BEGIN
    PERFORM redrive.check_name('queue', enqueue.queue), redrive.check_name('kind', enqueue.kind);
    IF enqueue.payload IS NULL THEN
        RAISE EXCEPTION 'redrive: the payload is NULL; use ''null''::jsonb for a JSON null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF enqueue.delay IS NULL OR enqueue.delay < '0' OR enqueue.delay > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the delay % is not between 0 and 3650 days', enqueue.delay
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.priority IS NULL OR enqueue.priority NOT BETWEEN -1000 AND 1000 THEN
        RAISE EXCEPTION 'redrive: the priority % is not between -1000 and 1000', enqueue.priority
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.max_attempts IS NULL OR enqueue.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'redrive: max_attempts % is not between 1 and 1000', enqueue.max_attempts
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF enqueue.delay > '0' THEN
        INSERT INTO redrive.jobs_delayed (queue, kind, payload, priority, max_attempts, run_at)
        VALUES (enqueue.queue, enqueue.kind, enqueue.payload, enqueue.priority,
                enqueue.max_attempts, clock_timestamp() + enqueue.delay)
        RETURNING id INTO new_id;
    ELSE
        INSERT INTO redrive.jobs (segment, queue, kind, payload, priority, max_attempts)
        SELECT r.segment, enqueue.queue, enqueue.kind, enqueue.payload, enqueue.priority,
               enqueue.max_attempts
        FROM redrive.ring r
        RETURNING id INTO new_id;
    END IF;
    PERFORM redrive.wake(enqueue.queue);
    RETURN new_id;
END
$$;

-- Whether a queue holds no live job: none ready, none delayed, none leased.
-- A function for its settings: it is asked again and again while a queue drains, and must not
-- read all of a long queue to find one row of it.
CREATE FUNCTION redrive.is_drained(queue text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM redrive.jobs j WHERE j.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.queue = is_drained.queue);
END
$$;

-- Raises a clear error for a name that the schema would refuse.
CREATE FUNCTION redrive.check_name(what text, name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF name IS NULL OR length(name) NOT BETWEEN 1 AND 100 OR name <> btrim(name)
        OR name ~ '[[:cntrl:]]'
    THEN
        RAISE EXCEPTION 'redrive: the % name is empty, over 100 characters, blank at an edge or has control characters', what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Cuts a text that is over `limit_bytes` to its head and its tail: in a stack trace the
-- raising frame may be at either end.
CREATE FUNCTION redrive.clip(full_text text, limit_bytes integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN octet_length(full_text) <= limit_bytes THEN full_text
        ELSE left(full_text, limit_bytes / 8) || E'\n[... cut ...]\n' || right(full_text, limit_bytes / 8)
    END
$$;

-- Records a foreign failure (an event of Kafka, a webhook, a row of an outbox) as a letter
-- with the reason `captured`, once per position of its source: capturing the same position
-- again counts in `seen` and changes nothing else. Any bytes will do: jsonb is kept beside
-- them when they are JSON that jsonb can hold.
CREATE FUNCTION redrive.capture(
    source        text,
    "position"    text,
    queue         text,
    kind          text,
    raw           bytea,
    content_type  text  DEFAULT 'application/json',
    headers       jsonb DEFAULT NULL,
    error_class   text  DEFAULT 'captured',
    error_message text  DEFAULT '',
    error_detail  text  DEFAULT NULL,
    OUT id        bigint,
    OUT is_new    boolean
)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    parsed jsonb;
BEGIN
    PERFORM redrive.check_name('queue', capture.queue), redrive.check_name('kind', capture.kind);
    IF capture.source IS NULL OR capture."position" IS NULL OR capture.raw IS NULL THEN
        RAISE EXCEPTION 'redrive: capture needs a source, a position and the raw bytes'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    BEGIN
        parsed := convert_from(capture.raw, 'UTF8')::jsonb;
    EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
        parsed := NULL;
    END;
    INSERT INTO redrive.dead_letters AS l
        (source, "position", queue, kind, reason, raw, payload, content_type, headers,
         error_class, error_message, error_detail, enqueued_at)
    VALUES
        (capture.source, capture."position", capture.queue, capture.kind, 'captured', capture.raw,
         parsed, capture.content_type, capture.headers,
         redrive.clip(coalesce(capture.error_class, 'captured'), 1024),
         redrive.clip(coalesce(capture.error_message, ''), 8192),
         redrive.clip(capture.error_detail, 65536), clock_timestamp())
    ON CONFLICT (source, "position") WHERE source IS NOT NULL
        DO UPDATE SET seen = l.seen + 1
    RETURNING l.id, l.seen = 1 INTO capture.id, capture.is_new;
END
$$;

-- Keeps the ring turning; every worker calls it, one at a time gets to work, and it does at
-- most one thing a call:
--   `truncated`  a drained segment was emptied for good: disk space and dead rows are gone;
--   `turned`     the current segment had churned enough, and the next one was clean;
--   `moved`      a few jobs left behind (of a paused queue) moved on, to free their segment;
--   `nothing`    nothing to do, or somebody holds a lock: the next call tries again.
-- SECURITY DEFINER because TRUNCATE belongs to the owner and nobody else should have it.
CREATE FUNCTION redrive.turn_ring(segment_bytes bigint, move_limit integer) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '50ms'
    SET enable_seqscan = on
AS $$
DECLARE
    here       smallint;
    next_one   smallint;
    candidate  smallint;
    occupied   boolean;
    moved_rows bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('redrive.turn_ring')) THEN
        RETURN 'nothing';
    END IF;
    SELECT r.segment INTO here FROM redrive.ring r;
    next_one := (here + 1) % 4;

    -- Truncate: oldest first. The look without the lock keeps the lock short; the look
    -- under it sees every committed row, because nobody can be writing any more.
    FOR step IN 1..3 LOOP
        candidate := (here + step) % 4;
        CONTINUE WHEN pg_relation_size(format('redrive.jobs_%s', candidate)::regclass) = 0;
        EXECUTE format('SELECT EXISTS (SELECT FROM redrive.jobs_%s)', candidate) INTO occupied;
        CONTINUE WHEN occupied;
        BEGIN
            EXECUTE format('LOCK TABLE redrive.jobs_%s IN ACCESS EXCLUSIVE MODE', candidate);
            EXECUTE format('SELECT EXISTS (SELECT FROM redrive.jobs_%s)', candidate) INTO occupied;
            IF NOT occupied THEN
                EXECUTE format('TRUNCATE redrive.jobs_%s', candidate);
                RETURN 'truncated';
            END IF;
            -- Somebody enqueued into it in between: let go of the lock at once.
            RAISE lock_not_available;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;

    IF pg_relation_size(format('redrive.jobs_%s', here)::regclass) < segment_bytes THEN
        RETURN 'nothing';
    END IF;
    IF pg_relation_size(format('redrive.jobs_%s', next_one)::regclass) = 0 THEN
        UPDATE redrive.ring SET segment = next_one, turned_at = clock_timestamp();
        RETURN 'turned';
    END IF;

    -- The ring wants to turn and the next segment is not clean. When only a few jobs keep
    -- it so, they move on; when it is a real backlog, it will be drained instead.
    EXECUTE format('SELECT count(*) FROM (SELECT FROM redrive.jobs_%s LIMIT $1) few', next_one)
        INTO moved_rows USING move_limit + 1;
    IF moved_rows = 0 OR moved_rows > move_limit THEN
        RETURN 'nothing';
    END IF;
    EXECUTE format(
        'WITH left_behind AS MATERIALIZED ('
        '  SELECT ctid FROM redrive.jobs_%1$s FOR UPDATE SKIP LOCKED),'
        ' gone AS ('
        '  DELETE FROM redrive.jobs_%1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM left_behind))'
        '  RETURNING id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '            crashes, refunds, queue, kind, payload, history)'
        ' INSERT INTO redrive.jobs'
        '  (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '   crashes, refunds, queue, kind, payload, history)'
        ' SELECT $1, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '        crashes, refunds, queue, kind, payload, history FROM gone', next_one)
        USING here;
    RETURN 'moved';
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
