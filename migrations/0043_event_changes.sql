-- Purpose: INSERT into and UPDATE of the view `dlq_events`, with the proper transitions.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- A consumer that works through `dlq_events` holds its jobs under leases, as a worker does. Each claimed event has
-- a separate lease, which its id determines, so that `UPDATE ... WHERE id = $1` finds it. Each transaction that
-- claims registers one worker per queue, whose registration lasts `redrive.claim_time` (default 15 minutes). If the
-- consumer crashes, the registration expires, and any worker returns the jobs to their queue.
CREATE FUNCTION redrive.event_lease(event_id bigint) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT md5('dlq_events ' || event_id)::uuid;
END;

-- Claims an event: an open letter, which is redriven, or a waiting job. Charges an attempt. Returns whether the
-- event was claimed; false: another session holds it, or it cannot become a job.
CREATE FUNCTION redrive.claim_event(event_id bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    letter record;
    place  record;
    job    record;
    kept   interval := coalesce(nullif(current_setting('redrive.claim_time', true), ''), '15 minutes');
BEGIN
    SELECT l.state, l.queue INTO letter FROM redrive.dead_letters l WHERE l.id = event_id;
    -- As a delayed job, so that its primary key finds it.
    IF letter.state = 'open' AND NOT EXISTS (
        SELECT FROM redrive.send_back(ARRAY[event_id], jsonb_build_object(
            'at', clock_timestamp(), 'event', 'redriven', 'by', session_user, 'reason', 'claimed through dlq_events'),
            delay_ms => 0) b
        WHERE b.result = 'sent')
    THEN
        RETURN false;
    END IF;
    -- In a group, it waits for its turn.
    SELECT d.queue, d.group_key INTO place
    FROM redrive.jobs_delayed d WHERE d.id = event_id AND d.group_key IS NOT NULL
    FOR UPDATE SKIP LOCKED;
    IF FOUND AND NOT redrive.take_slot(place.queue, place.group_key, event_id) THEN
        RETURN false;
    END IF;
    DELETE FROM redrive.jobs_delayed d
    WHERE d.id = (SELECT w.id FROM redrive.jobs_delayed w WHERE w.id = event_id FOR UPDATE SKIP LOCKED)
    RETURNING d.* INTO job;
    IF NOT FOUND THEN
        SELECT j.segment, j.ctid AS tid, j.queue, j.group_key INTO place
        FROM redrive.jobs j
        WHERE j.id = event_id AND j.queue = coalesce(letter.queue::text, j.queue::text)
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND OR place.segment = 8 AND NOT redrive.take_slot(place.queue, place.group_key, event_id) THEN
            RETURN false;
        END IF;
        SELECT t.* INTO job FROM redrive.take_jobs(place.segment, ARRAY[place.tid]) t;
    END IF;
    INSERT INTO redrive.workers AS w (worker_id, queue, host, pid, version, slots, kinds, expires_at)
    VALUES (md5(concat_ws(' ', 'dlq_events', pg_current_xact_id(), job.queue))::uuid, job.queue,
            coalesce(host(inet_client_addr()), 'local'), pg_backend_pid(), 'dlq_events', 1, ARRAY[job.kind::text],
            clock_timestamp() + kept)
    ON CONFLICT (worker_id) DO UPDATE SET kinds = w.kinds || excluded.kinds WHERE NOT w.kinds @> excluded.kinds;
    INSERT INTO redrive.leases
        (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, priorities, attempts, max_attempts,
         generations, crashes, refunds, histories, unique_keys, outages_since, headers, group_keys)
    VALUES (redrive.event_lease(event_id), md5(concat_ws(' ', 'dlq_events', pg_current_xact_id(), job.queue))::uuid,
            job.queue, ARRAY[job.id], ARRAY[job.kind::text], ARRAY[job.payload], ARRAY[job.enqueued_at],
            ARRAY[job.priority::smallint], ARRAY[job.attempt::integer + 1], ARRAY[job.max_attempts::integer],
            ARRAY[job.generation::integer], ARRAY[job.crashes::smallint], ARRAY[job.refunds::smallint],
            ARRAY[job.history], ARRAY[job.unique_key], ARRAY[job.outage_since], ARRAY[job.headers::jsonb],
            ARRAY[job.group_key::text]);
    IF job.unique_key IS NOT NULL AND job.headers IS NOT NULL THEN
        PERFORM redrive.free_started_keys(ARRAY[job.id], ARRAY[job.unique_key], ARRAY[job.headers::jsonb]);
    END IF;
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, job.queue, '{claimed}', '{1}' FROM redrive.metric_ring m;
    RETURN true;
END
$$;

-- Ends the claim of an event with a verdict: `done`, `retry` and `release` at a time, or `dead`. A release refunds
-- the attempt. Returns false if no consumer holds the event.
CREATE FUNCTION redrive.settle_event(
    event_id bigint, verdict text, run_at timestamptz DEFAULT NULL, error_message text DEFAULT NULL,
    error_detail text DEFAULT NULL
) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held   redrive.leases;
    job    redrive.leased_job;
    worker redrive.workers;
    told   text := settle_event.verdict;
    death  text := 'rejected';
    class  text;
    ran_ms bigint;
    attempt_record jsonb;
BEGIN
    DELETE FROM redrive.leases l WHERE l.lease_id = redrive.event_lease(event_id) RETURNING l.* INTO held;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT j.* INTO job FROM redrive.jobs_of(held) j;
    SELECT w.* INTO worker FROM redrive.workers w WHERE w.worker_id = held.worker_id;
    IF told IN ('retry', 'release') AND event_id = ANY (held.cancelled) THEN
        told := 'dead';
        death := 'manual';
    -- The consumer decides how often it retries, up to the greatest maximum that a job can have.
    ELSIF told = 'retry' AND job.attempt >= 1000 THEN
        told := 'dead';
        death := 'exhausted';
    END IF;
    IF told IN ('done', 'dead') THEN
        DELETE FROM redrive.unique_keys k WHERE k.job_id = event_id;
    END IF;
    IF told = 'done' AND job.group_key IS NOT NULL THEN
        PERFORM redrive.free_slots(ARRAY[event_id], '{}');
    END IF;
    IF told = 'done' THEN
        UPDATE redrive.dead_letters l SET state = 'recovered', changed_at = clock_timestamp()
        WHERE l.id = event_id AND l.state || '' = 'redriving';
        INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, counts)
        SELECT m.segment, held.queue, '{succeeded}', ARRAY[job.kind], '{1}' FROM redrive.metric_ring m;
        RETURN true;
    END IF;
    SELECT l.error_class INTO class FROM redrive.dead_letters l WHERE l.id = event_id;
    class := coalesce(class, job.history -> -1 ->> 'error_class', 'failed');
    ran_ms := greatest(extract(epoch FROM clock_timestamp() - held.claimed_at) * 1000, 0);
    attempt_record := jsonb_build_object(
        'generation', job.generation, 'attempt', job.attempt, 'outcome', CASE told WHEN 'dead' THEN death ELSE 'failed' END,
        'run_ms', ran_ms, 'error_class', class, 'error_message', left(settle_event.error_message, 1000),
        'worker', held.worker_id, 'host', worker.host, 'version', worker.version, 'pid', worker.pid,
        'ended_at', clock_timestamp());
    IF told = 'dead' THEN
        INSERT INTO redrive.dead_letters
            (id, queue, kind, cause, error_class, error_message, error_detail, payload, priority, attempts,
             max_attempts, generation, crashes, history, worker_id, host, version, enqueued_at, unique_key, pid, run_ms,
             headers, group_key)
        SELECT job.id, held.queue, job.kind, death, class, redrive.clip(coalesce(settle_event.error_message, ''), 8192),
               redrive.clip(settle_event.error_detail, 65536), job.payload, job.priority, job.attempt, job.max_attempts,
               job.generation, job.crashes, redrive.history_before(job.history, attempt_record - 'ended_at'), held.worker_id,
               worker.host, worker.version, job.enqueued_at, job.unique_key, worker.pid, least(ran_ms, 2147483647),
               job.headers, job.group_key
        ON CONFLICT (id) DO UPDATE
        SET state = 'open', cause = excluded.cause, error_class = excluded.error_class,
            error_message = excluded.error_message, error_detail = excluded.error_detail,
            payload = excluded.payload,
            priority = excluded.priority, attempts = excluded.attempts,
            max_attempts = excluded.max_attempts, generation = excluded.generation,
            crashes = excluded.crashes, history = excluded.history, worker_id = excluded.worker_id,
            host = excluded.host, version = excluded.version, discard_reason = NULL,
            failure_key = excluded.failure_key, unique_key = excluded.unique_key, headers = excluded.headers,
            group_key = excluded.group_key, pid = excluded.pid, run_ms = excluded.run_ms,
            group_id = excluded.group_id, detail_id = excluded.detail_id,
            died_at = excluded.died_at, changed_at = excluded.changed_at;
    ELSE
        INSERT INTO redrive.jobs_delayed
            (run_at, id, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds, queue, kind, payload,
             history, unique_key, headers, group_key)
        VALUES (coalesce(settle_event.run_at, clock_timestamp()), job.id, job.enqueued_at,
                job.attempt - CASE told WHEN 'release' THEN 1 ELSE 0 END,
                greatest(job.max_attempts, job.attempt + 1), job.generation, job.priority, 0, job.refunds, held.queue,
                job.kind, job.payload,
                CASE told WHEN 'release' THEN job.history ELSE redrive.add_attempt(job.history, attempt_record) END,
                job.unique_key, job.headers, job.group_key);
        IF job.group_key IS NOT NULL THEN
            PERFORM redrive.free_slots('{}', ARRAY[event_id]);
        END IF;
    END IF;
    INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, causes, counts)
    SELECT m.segment, held.queue, array_agg(c.key), array_agg(c.label), array_agg(c.cause), array_agg(1::bigint)
    FROM redrive.metric_ring m
    CROSS JOIN (VALUES
        (CASE told WHEN 'dead' THEN 'ended' WHEN 'release' THEN 'released' ELSE 'retried' END, NULL, NULL),
        ('failed', job.kind, CASE told WHEN 'dead' THEN 'rejected' ELSE 'error' END)
    ) AS c (key, label, cause)
    WHERE c.key <> 'failed' OR told <> 'release' AND death <> 'manual'
    GROUP BY m.segment;
    RETURN true;
END
$$;

-- Applies an UPDATE of `dlq_events`. PROCESSING claims a PENDING event; an event that another session claims first is
-- left out of RETURNING. SUCCEEDED and FAILED_PERMANENTLY end the event. PENDING schedules it at `retry_after`; with a
-- new `retry_count` or `error_reason` it records a failure. An unclaimed event is claimed first.
CREATE FUNCTION redrive.change_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    verdict text := CASE NEW.status
        WHEN 'SUCCEEDED' THEN 'done' WHEN 'FAILED_PERMANENTLY' THEN 'dead'
        WHEN 'PENDING' THEN CASE
            WHEN NEW.retry_count > OLD.retry_count OR NEW.error_reason IS DISTINCT FROM OLD.error_reason THEN 'retry'
            ELSE 'release' END
        END;
BEGIN
    IF NEW.id <> OLD.id OR NEW.event_type IS DISTINCT FROM OLD.event_type
        OR NEW.payload::text IS DISTINCT FROM OLD.payload::text
    THEN
        RAISE EXCEPTION 'redrive: an UPDATE of dlq_events cannot change the id, event_type or payload of event %', OLD.id
            USING ERRCODE = 'feature_not_supported', HINT = 'redrive.edit_letters changes the payload of a letter.';
    END IF;
    IF NEW.status = 'PROCESSING' AND OLD.status IN ('PENDING', 'PROCESSING') THEN
        IF OLD.status = 'PENDING' AND redrive.claim_event(OLD.id) THEN
            RETURN NEW;
        END IF;
        RETURN NULL;
    END IF;
    IF NEW.status = 'PROCESSING' OR NEW.status IS NULL OR verdict IS NULL THEN
        RAISE EXCEPTION 'redrive: event % is % and cannot become %', OLD.id, OLD.status, coalesce(NEW.status, 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'A PENDING event becomes PROCESSING, and then SUCCEEDED, PENDING or FAILED_PERMANENTLY.';
    END IF;
    IF NEW.status = OLD.status AND verdict IN ('done', 'dead') THEN
        RETURN NEW;
    END IF;
    IF NOT redrive.settle_event(OLD.id, verdict, NEW.retry_after, NEW.error_reason, NEW.error_stacktrace) THEN
        IF NOT redrive.claim_event(OLD.id) THEN
            RAISE EXCEPTION 'redrive: event % cannot become %: a worker or another session is processing it, it is closed or quarantined, or its payload is redacted or not JSON', OLD.id, NEW.status
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = format('redrive dlq show %s', OLD.id);
        END IF;
        IF OLD.status = 'FAILED_PERMANENTLY' THEN
            PERFORM redrive.record_act('redrive', NULL, 'UPDATE of dlq_events',
                jsonb_build_object('ids', jsonb_build_array(OLD.id)), 1);
        END IF;
        PERFORM redrive.settle_event(OLD.id, verdict, NEW.retry_after, NEW.error_reason, NEW.error_stacktrace);
    END IF;
    RETURN NEW;
END
$$;

-- Captures an event that is inserted into `dlq_events`, into the queue `dlq_events` with the event type as kind.
-- A PENDING event with a `retry_after` in the future becomes a delayed job.
CREATE FUNCTION redrive.add_to_events() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NEW.id IS NOT NULL OR NEW.status NOT IN ('PENDING', 'PROCESSING', 'SUCCEEDED', 'FAILED_PERMANENTLY') THEN
        RAISE EXCEPTION 'redrive: an INSERT into dlq_events needs a valid status and no id; redrive assigns the id'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The status is PENDING (default), PROCESSING, SUCCEEDED or FAILED_PERMANENTLY.';
    END IF;
    NEW.id := (SELECT c.id FROM redrive.capture(
        'dlq_events', gen_random_uuid()::text, 'dlq_events', NEW.event_type, convert_to(NEW.payload::text, 'UTF8'),
        error_message => NEW.error_reason, error_detail => NEW.error_stacktrace) c);
    UPDATE redrive.dead_letters l
    SET earlier_attempts = coalesce(NEW.retry_count, 0), died_at = least(NEW.created_at, l.died_at)
    WHERE l.id = NEW.id;
    IF NEW.status <> 'PENDING' OR NEW.retry_after > clock_timestamp() THEN
        PERFORM redrive.claim_event(NEW.id);
        IF NEW.status <> 'PROCESSING' THEN
            PERFORM redrive.settle_event(
                NEW.id, CASE NEW.status WHEN 'PENDING' THEN 'release' WHEN 'SUCCEEDED' THEN 'done' ELSE 'dead' END,
                NEW.retry_after, NEW.error_reason, NEW.error_stacktrace);
        END IF;
    END IF;
    RETURN NEW;
END
$$;

ALTER VIEW redrive.dlq_events ALTER COLUMN status SET DEFAULT 'PENDING';
ALTER VIEW redrive.dlq_events ALTER COLUMN retry_count SET DEFAULT 0;
ALTER VIEW redrive.dlq_events ALTER COLUMN retry_after SET DEFAULT now();
ALTER VIEW redrive.dlq_events ALTER COLUMN created_at SET DEFAULT now();
ALTER VIEW redrive.dlq_events ALTER COLUMN updated_at SET DEFAULT now();

CREATE TRIGGER add_to_events INSTEAD OF INSERT ON redrive.dlq_events
    FOR EACH ROW EXECUTE FUNCTION redrive.add_to_events();
CREATE TRIGGER change_event INSTEAD OF UPDATE ON redrive.dlq_events
    FOR EACH ROW EXECUTE FUNCTION redrive.change_event();

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
