-- Purpose: Enqueueing jobs from SQL.

-- Enqueues one job in the transaction of the caller and returns its id. If a live job of the queue
-- holds `unique_key`, nothing is stored and the id of that job is returned. The call waits for a
-- transaction that is storing a job with the same key.
--
-- With `until_started`, the job holds the key only until a worker takes it. With `replace`, which is `payload`, `time` or
-- `both`, the call changes the job that holds the key if it still waits and has the same kind. With `unique_window`,
-- the call also stores nothing within that time after the previous job that was stored with a window, even if that
-- job is done.
--
-- `headers` is an object of strings. A job that does not start within `expires_in` of this call becomes a letter of
-- the cause `expired` instead of running. `group_key` names the group of the job; see redrive.set_group_policy.
CREATE OR REPLACE FUNCTION redrive.enqueue(
    queue        text,
    kind         text,
    payload      jsonb,
    delay        interval DEFAULT '0',
    priority     integer  DEFAULT 0,
    max_attempts integer  DEFAULT 5,
    unique_key   text     DEFAULT NULL,
    headers      jsonb    DEFAULT NULL,
    expires_in   interval DEFAULT NULL,
    until_started boolean DEFAULT false,
    replace      text     DEFAULT NULL,
    group_key    text     DEFAULT NULL,
    unique_window interval DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    new_id bigint := nextval('redrive.job_id');
    held_by bigint;
    changed boolean := false;
    -- The stored text.
    body text := enqueue.payload::text;
    meta redrive.job_meta;
    error text;
BEGIN
    PERFORM redrive.check_name('queue', enqueue.queue), redrive.check_name('kind', enqueue.kind);
    IF enqueue.payload IS NULL THEN
        RAISE EXCEPTION 'redrive: the payload is NULL; use ''null''::jsonb for a JSON null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    error := CASE
        WHEN octet_length(body) > 1048576 THEN format('the payload is %s bytes; the limit is 1048576', octet_length(body))
        WHEN enqueue.delay BETWEEN '0' AND '3650 days' IS NOT TRUE
            THEN format('the delay is %s; it must be between 0 and 3650 days', coalesce(enqueue.delay::text, 'NULL'))
        WHEN enqueue.priority BETWEEN -1000 AND 1000 IS NOT TRUE
            THEN format('the priority is %s; it must be between -1000 and 1000', coalesce(enqueue.priority::text, 'NULL'))
        WHEN enqueue.max_attempts BETWEEN 1 AND 1000 IS NOT TRUE
            THEN format('max_attempts is %s; it must be between 1 and 1000', coalesce(enqueue.max_attempts::text, 'NULL'))
        WHEN octet_length(enqueue.unique_key) NOT BETWEEN 1 AND 200
            THEN format('the unique key is %s bytes; it must be 1 to 200', octet_length(enqueue.unique_key))
        WHEN octet_length(enqueue.group_key) NOT BETWEEN 1 AND 200
            THEN format('the group is %s bytes; it must be 1 to 200', octet_length(enqueue.group_key))
        WHEN jsonb_typeof(enqueue.headers) <> 'object' OR octet_length(enqueue.headers::text) > 65536
            THEN 'the headers must be a JSON object of at most 65536 bytes'
        WHEN redrive.have_reserved_header(enqueue.headers)
            THEN 'names of headers that start with redrive- are reserved, except redrive-payload-version with a whole number from 1'
        WHEN enqueue.expires_in <= enqueue.delay OR enqueue.expires_in > '3650 days'
            THEN format('the job expires in %s; it must be longer than its delay and at most 3650 days', enqueue.expires_in)
        WHEN enqueue.unique_key IS NULL
            AND (enqueue.until_started OR enqueue.replace IS NOT NULL OR enqueue.unique_window IS NOT NULL)
            THEN 'until_started, replace and unique_window need a unique key'
        WHEN enqueue.unique_window <= '0' OR enqueue.unique_window > '3650 days'
            THEN format('the unique window is %s; it must be longer than 0 and at most 3650 days', enqueue.unique_window)
        WHEN enqueue.replace <> ALL ('{payload,time,both}')
            THEN format('replace is %s; it must be payload, time or both', enqueue.replace)
    END;
    IF error IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: %', error USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.expires_in IS NOT NULL THEN
        enqueue.headers := coalesce(enqueue.headers, '{}') || jsonb_build_object(
            'redrive-expires-in-ms', ceil(extract(epoch FROM enqueue.expires_in) * 1000)::bigint::text);
    END IF;
    IF enqueue.until_started THEN
        enqueue.headers := coalesce(enqueue.headers, '{}') || '{"redrive-unique-until": "started"}';
    END IF;
    IF enqueue.unique_key IS NOT NULL THEN
        SELECT k.job_id, k.replaced INTO held_by, changed
        FROM redrive.take_keys(
            enqueue.queue, ARRAY[enqueue.unique_key], ARRAY[new_id],
            ARRAY[ceil(extract(epoch FROM enqueue.unique_window) * 1000)::bigint], ARRAY[enqueue.kind],
            ARRAY[enqueue.replace], ARRAY[body::json], ARRAY[(extract(epoch FROM enqueue.delay) * 1000)::bigint],
            ARRAY[enqueue.priority], ARRAY[enqueue.headers]) k;
        IF changed THEN
            PERFORM redrive.wake(enqueue.queue);
        END IF;
        IF held_by <> new_id THEN
            INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
            SELECT m.segment, enqueue.queue, '{duplicates}', '{1}' FROM redrive.metric_ring m;
            RETURN held_by;
        END IF;
    END IF;

    meta := redrive.new_meta(
        enqueue.priority, enqueue.max_attempts, enqueue.unique_key, enqueue.headers, enqueue.group_key);
    IF enqueue.delay > '0' THEN
        INSERT INTO redrive.jobs_delayed (id, queue, kind, payload, run_at, meta)
        VALUES (new_id, enqueue.queue, enqueue.kind, body::json, clock_timestamp() + enqueue.delay, meta);
    ELSE
        INSERT INTO redrive.jobs (segment, id, rank, queue, kind, payload, meta)
        VALUES (CASE WHEN enqueue.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                     ELSE redrive.entry_segment(enqueue.queue, enqueue.group_key, new_id) END,
                new_id, -2 * coalesce(enqueue.priority, 0), enqueue.queue, enqueue.kind, body::json, meta);
    END IF;
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, enqueue.queue, '{enqueued}', '{1}' FROM redrive.metric_ring m;
    PERFORM redrive.wake(enqueue.queue);
    RETURN new_id;
END
$$;
