-- Purpose: Enqueueing jobs from SQL, and storing those with a key, headers or a group for the library.

-- Stores jobs in one queue, in the transaction of the caller. A job with a key is stored only if no live job of the queue
-- holds that key and no window of the key is open. Otherwise it may change the payload, the time or both of the job that
-- holds the key, if that waits and has the same kind; a running job is never changed. Returns per job, in the order of the
-- arrays: its id, or the id of the job that holds its key or opened its window, whether the job is new, and whether the
-- live job was changed.
--
-- Delays and windows are in milliseconds; `budgets` are the maximum attempts, and `changes` what to replace: payload, time
-- or both. Callers have checked everything, and store jobs without a key, headers and a group by enqueue.sql. It runs with
-- the rights of the owner, because an enqueuer may neither take or delete keys nor change jobs in any other way.
-- Locks: the rows, keys and windows it inserts, the expired windows of one page, and the rows of the waiting jobs it
-- changes, in the order of their keys. It waits for a session that holds such a row, and for a transaction that is writing
-- the same key, but locks no key of another job: a worker settles without waiting for it, and claims skip the rows.
-- NOTIFY takes the server's notification lock at commit, but only if a worker is waiting.
-- Index: the primary keys of unique_keys and unique_windows; to replace, also that of jobs_delayed, and jobs_for_claim. It
-- scans leases if the job to replace does not wait.
CREATE OR REPLACE FUNCTION redrive.store_jobs(
    queue text, kinds text[], payloads json[], delays bigint[], priorities smallint[], budgets integer[], keys text[],
    headers jsonb[], groups text[], changes text[], windows bigint[]
) RETURNS TABLE (id bigint, is_new boolean, replaced boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    ids     CONSTANT bigint[] := ARRAY(SELECT nextval('redrive.job_id') FROM generate_subscripts(store_jobs.kinds, 1));
    wanted  record;
    holder  record;
    answer  text;
    -- Of each key: the job that has it, and the place of the job that changed that one.
    taken   text[] := '{}';
    holders bigint[] := '{}';
    changed bigint[] := '{}';
BEGIN
    -- In the order of the keys, so that two callers cannot deadlock. Of several jobs with the same key, the first one decides.
    FOR wanted IN
        SELECT DISTINCT ON (n.key COLLATE "C") n.*
        FROM unnest(ids, store_jobs.keys, store_jobs.windows, store_jobs.kinds, store_jobs.changes, store_jobs.payloads,
                    store_jobs.delays, store_jobs.priorities, store_jobs.headers) WITH ORDINALITY
            AS n (id, key, window_ms, kind, change, payload, delay_ms, priority, headers, place)
        WHERE n.key IS NOT NULL
        ORDER BY n.key COLLATE "C", n.place
    LOOP
        answer := NULL;
        -- A job may move or end between two looks. One that moves a hundred times counts as running.
        FOR look IN 1..100 LOOP
            SELECT k.* INTO holder FROM redrive.take_key(store_jobs.queue, wanted.key, wanted.id, wanted.window_ms) k;
            EXIT WHEN holder.job_id = wanted.id OR NOT holder.holds OR wanted.change IS NULL;
            answer := redrive.replace_waiting(holder.job_id, store_jobs.queue, wanted.kind, wanted.change, wanted.payload,
                                              wanted.delay_ms, wanted.priority, wanted.headers, look = 1);
            EXIT WHEN answer <> 'gone';
        END LOOP;
        taken := array_append(taken, wanted.key);
        holders := array_append(holders, holder.job_id);
        changed := array_append(changed, CASE answer WHEN 'replaced' THEN wanted.place END);
    END LOOP;
    RETURN QUERY
    WITH placed AS MATERIALIZED (
        SELECT coalesce(h.job_id, i.id) AS id, i.kind, i.payload, i.delay_ms, i.priority, i.group_key, i.place,
               redrive.new_meta(i.priority, i.max_attempts, i.unique_key, i.headers, i.group_key) AS meta,
               coalesce(h.job_id = i.id, true) AS is_new, coalesce(h.changed_by = i.place, false) AS replaced
        FROM unnest(ids, store_jobs.kinds, store_jobs.payloads, store_jobs.delays, store_jobs.priorities,
                    store_jobs.budgets, store_jobs.keys, store_jobs.headers, store_jobs.groups) WITH ORDINALITY
            AS i (id, kind, payload, delay_ms, priority, max_attempts, unique_key, headers, group_key, place)
        LEFT JOIN unnest(taken, holders, changed) AS h (key, job_id, changed_by) ON h.key = i.unique_key
    ),
    ready AS (
        INSERT INTO redrive.jobs (segment, id, rank, queue, kind, payload, meta)
        SELECT CASE WHEN p.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                    ELSE redrive.entry_segment(store_jobs.queue, p.id, false) END,
               p.id, -2 * p.priority, store_jobs.queue, p.kind, p.payload, p.meta
        FROM placed p
        WHERE p.is_new AND p.delay_ms = 0
    ),
    delayed AS (
        INSERT INTO redrive.jobs_delayed (id, run_at, queue, kind, payload, meta)
        SELECT p.id, clock_timestamp() + p.delay_ms * interval '1 millisecond', store_jobs.queue, p.kind, p.payload, p.meta
        FROM placed p
        WHERE p.is_new AND p.delay_ms > 0
    ),
    counted AS (
        INSERT INTO redrive.metric_deltas (queue, keys, counts)
        SELECT store_jobs.queue, '{enqueued,duplicates}',
               ARRAY[count(*) FILTER (WHERE p.is_new), count(*) FILTER (WHERE NOT p.is_new)]
        FROM placed p
        HAVING count(*) > 0
    ),
    woken AS MATERIALIZED (
        SELECT redrive.wake(store_jobs.queue) WHERE EXISTS (SELECT FROM placed p WHERE p.is_new OR p.replaced)
    )
    SELECT p.id, p.is_new, p.replaced
    FROM placed p
    WHERE (SELECT count(*) FROM woken) >= 0
    ORDER BY p.place;
END
$$;

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
    -- The stored text.
    body text := enqueue.payload::text;
BEGIN
    PERFORM redrive.check_name('queue', enqueue.queue), redrive.check_name('kind', enqueue.kind);
    PERFORM redrive.refuse(CASE
        WHEN body IS NULL THEN 'the payload is NULL; use ''null''::jsonb for a JSON null'
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
        WHEN jsonb_typeof(enqueue.headers) <> 'object' THEN 'the headers must be a JSON object'
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
    END);
    enqueue.headers := nullif(coalesce(enqueue.headers, '{}') || jsonb_strip_nulls(jsonb_build_object(
        'redrive-expires-in-ms', ceil(extract(epoch FROM enqueue.expires_in) * 1000)::bigint::text,
        'redrive-unique-until', CASE WHEN enqueue.until_started THEN 'started' END)), '{}');
    PERFORM redrive.refuse(CASE WHEN octet_length(enqueue.headers::text) > 65536 THEN format(
        'the headers, with those that redrive adds, are %s bytes; the limit is 65536 bytes', octet_length(enqueue.headers::text)) END);
    RETURN (
        SELECT s.id
        FROM redrive.store_jobs(
            enqueue.queue, ARRAY[enqueue.kind], ARRAY[body::json],
            ARRAY[ceil(extract(epoch FROM enqueue.delay) * 1000)::bigint], ARRAY[enqueue.priority::smallint],
            ARRAY[enqueue.max_attempts], ARRAY[enqueue.unique_key], ARRAY[enqueue.headers], ARRAY[enqueue.group_key],
            ARRAY[enqueue.replace], ARRAY[ceil(extract(epoch FROM enqueue.unique_window) * 1000)::bigint]) s);
END
$$;
