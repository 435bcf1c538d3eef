-- Purpose: Keys of unique jobs: a queue has at most one live job with a given key.

-- Takes a key for a new job and, with a window in milliseconds, opens it. Returns the job that has the key now: the new one,
-- or the live one that `holds` it. Within an open window, it may be the ended job that opened it, which holds no key.
--
-- The job that holds the key is not locked, nor is the key. The worker that ends that job deletes the key, and must not
-- wait until the caller commits. If the key disappears before it is read, it is free again.
CREATE OR REPLACE FUNCTION redrive.take_key(
    queue text, key text, id bigint, window_ms bigint, OUT job_id bigint, OUT holds boolean
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    page bigint;
BEGIN
    LOOP
        IF take_key.window_ms IS NOT NULL THEN
            SELECT coalesce(k.job_id, w.job_id), k.job_id IS NOT NULL INTO take_key.job_id, take_key.holds
            FROM redrive.unique_windows w
            LEFT JOIN redrive.unique_keys k ON k.queue = w.queue AND k.key = w.key
            WHERE w.queue = take_key.queue AND w.key = take_key.key AND w.ends_at > clock_timestamp();
            EXIT WHEN FOUND;
        END IF;
        INSERT INTO redrive.unique_keys AS k (queue, key, job_id)
        VALUES (take_key.queue, take_key.key, take_key.id)
        ON CONFLICT ON CONSTRAINT unique_keys_pkey DO NOTHING
        RETURNING k.job_id, true INTO take_key.job_id, take_key.holds;
        EXIT WHEN FOUND AND take_key.window_ms IS NULL;
        IF FOUND THEN
            INSERT INTO redrive.unique_windows AS w (queue, key, job_id, ends_at)
            VALUES (take_key.queue, take_key.key, take_key.id,
                    clock_timestamp() + take_key.window_ms * interval '1 millisecond')
            ON CONFLICT ON CONSTRAINT unique_windows_pkey DO UPDATE
            SET job_id = excluded.job_id, ends_at = excluded.ends_at
            WHERE w.ends_at <= clock_timestamp();
            EXIT WHEN FOUND;
            -- Another session has opened a window meanwhile.
            DELETE FROM redrive.unique_keys k WHERE k.job_id = take_key.id;
        END IF;
        SELECT k.job_id, true INTO take_key.job_id, take_key.holds
        FROM redrive.unique_keys k
        WHERE k.queue = take_key.queue AND k.key = take_key.key;
        EXIT WHEN FOUND;
    END LOOP;
    -- A new window deletes the expired ones of one page. The job ids choose the pages in turn, so expired windows are a
    -- small part of the table, without an index that dead rows fill and without a chore.
    IF take_key.window_ms IS NOT NULL AND take_key.job_id = take_key.id THEN
        page := take_key.id
            % (pg_relation_size('redrive.unique_windows') / current_setting('block_size')::bigint);
        DELETE FROM redrive.unique_windows w
        WHERE w.ctid = ANY (ARRAY(
            SELECT e.ctid
            FROM redrive.unique_windows e
            WHERE e.ctid >= format('(%s,0)', page)::tid AND e.ctid < format('(%s,0)', page + 1)::tid
                AND e.ends_at <= clock_timestamp()
            FOR UPDATE SKIP LOCKED));
    END IF;
END
$$;

-- Takes the keys of letters that go back, in the order of the arrays. Returns the letters that have theirs.
--
-- A key that another transaction has taken and not committed counts as taken: that of a caller may stay open for long.
CREATE OR REPLACE FUNCTION redrive.retake_keys(queues text[], keys text[], ids bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '100ms'
AS $$
DECLARE
    taken bigint[];
BEGIN
    BEGIN
        WITH inserted AS (
            INSERT INTO redrive.unique_keys AS k (queue, key, job_id)
            SELECT n.queue, n.key, n.id
            FROM unnest(queues, keys, ids) WITH ORDINALITY AS n (queue, key, id, place)
            ORDER BY n.place
            ON CONFLICT DO NOTHING
            RETURNING k.job_id
        )
        SELECT array_agg(i.job_id) INTO taken FROM inserted i;
        RETURN QUERY SELECT unnest(taken);
        RETURN;
    EXCEPTION WHEN lock_not_available THEN
        PERFORM set_config('lock_timeout', '10ms', true);
    END;
    FOR place IN 1..cardinality(ids) LOOP
        BEGIN
            INSERT INTO redrive.unique_keys (queue, key, job_id) VALUES (queues[place], keys[place], ids[place])
            ON CONFLICT DO NOTHING;
            IF FOUND THEN
                RETURN NEXT ids[place];
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;
END
$$;

-- Returns what a waiting job has beyond a plain one after an enqueue with these headers replaced its `payload`, its `time`
-- or `both`. A payload brings its version along, and what the handler stored about the old one ends. A time brings its
-- expiry along, which counts from now.
CREATE OR REPLACE FUNCTION redrive.replaced_meta(
    meta redrive.job_meta, enqueued_at timestamptz, change text, headers jsonb
) RETURNS redrive.job_meta
    LANGUAGE sql VOLATILE
    RETURN jsonb_populate_record(replaced_meta.meta, jsonb_build_object('headers', nullif(
        coalesce((replaced_meta.meta).headers, '{}')
            - CASE WHEN change <> 'time' THEN '{redrive-checkpoint,redrive-progress,redrive-payload-version}'::text[] ELSE '{}' END
            - CASE WHEN change <> 'payload' THEN '{redrive-expires-in-ms}'::text[] ELSE '{}' END
            || jsonb_strip_nulls(jsonb_build_object(
                'redrive-payload-version', CASE WHEN change <> 'time' THEN replaced_meta.headers -> 'redrive-payload-version' END,
                'redrive-expires-in-ms', CASE WHEN change <> 'payload' THEN (
                    (replaced_meta.headers ->> 'redrive-expires-in-ms')::bigint
                    + ceil(1000 * extract(epoch FROM clock_timestamp() - enqueued_at))::bigint)::text END)),
        '{}')));

-- Changes the waiting job that holds a key: its `payload`, its `time` or `both`. Returns `replaced`; `kept` if the job
-- runs or has another kind; `gone` if it has ended, or moved meanwhile, and the caller must ask again. The first look
-- searches only at the priority of the enqueue.
--
-- It waits for a session that holds the row of the job: a claim, a promotion, an operator, an erasure or another replacing
-- enqueue. None of these deadlocks with an enqueue of one job: they skip locked rows, or hold no other.
CREATE OR REPLACE FUNCTION redrive.replace_waiting(
    held bigint, queue text, kind text, change text, payload json, delay_ms bigint, priority integer, headers jsonb,
    is_first boolean
) RETURNS text
    LANGUAGE plpgsql VOLATILE
    -- A search by rank and id, regardless of the planner's estimates.
    SET enable_seqscan = off
AS $$
DECLARE
    moved redrive.job[];
    is_delayed CONSTANT boolean := replace_waiting.change <> 'payload' AND replace_waiting.delay_ms > 0;
    -- Nearly always the job has the priority of the enqueue. An operator may have changed it.
    ranks CONSTANT integer[] := CASE WHEN is_first THEN ARRAY[-2 * replace_waiting.priority, 1 - 2 * replace_waiting.priority]
        ELSE ARRAY(SELECT generate_series(-2000, 2001)) END;
BEGIN
    UPDATE redrive.jobs_delayed d
    SET payload = CASE replace_waiting.change WHEN 'time' THEN d.payload ELSE replace_waiting.payload END,
        meta = redrive.replaced_meta(d.meta, d.enqueued_at, replace_waiting.change, replace_waiting.headers),
        run_at = CASE replace_waiting.change WHEN 'payload' THEN d.run_at
            ELSE clock_timestamp() + replace_waiting.delay_ms * interval '1 millisecond' END
    WHERE d.id = held AND d.kind = replace_waiting.kind;
    IF FOUND THEN
        RETURN 'replaced';
    END IF;
    WITH gone AS (
        DELETE FROM redrive.jobs j
        WHERE j.queue = replace_waiting.queue AND j.rank = ANY (ranks) AND j.id = held AND j.kind = replace_waiting.kind
        RETURNING redrive.altered(
            redrive.ready_job(j),
            meta => redrive.replaced_meta(j.meta, j.enqueued_at, replace_waiting.change, replace_waiting.headers),
            payload => CASE replace_waiting.change WHEN 'time' THEN NULL ELSE replace_waiting.payload END,
            ready_at => CASE WHEN is_delayed THEN clock_timestamp() + replace_waiting.delay_ms * interval '1 millisecond'
                END) AS job
    )
    SELECT array_agg(g.job) INTO moved FROM gone g;
    IF moved IS NOT NULL THEN
        PERFORM redrive.requeue(CASE WHEN NOT is_delayed THEN moved END, CASE WHEN is_delayed THEN moved END, false);
        RETURN 'replaced';
    END IF;
    IF EXISTS (SELECT FROM redrive.leases l WHERE held = ANY (l.ids) AND held <> ALL (l.done))
        OR EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.id = held AND d.kind <> replace_waiting.kind)
        OR EXISTS (
            SELECT FROM redrive.jobs j
            WHERE j.queue = replace_waiting.queue AND j.rank = ANY (ranks)
                AND j.id = held AND j.kind <> replace_waiting.kind)
    THEN
        RETURN 'kept';
    END IF;
    RETURN 'gone';
END
$$;
