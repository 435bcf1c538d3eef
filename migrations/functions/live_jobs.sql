-- Purpose: Bulk operations on waiting jobs: cancel, set the priority, run now, edit; unhandled jobs and ageing.

-- Returns a query for up to `$4` waiting jobs in a state that match a filter; NULL: the filter excludes the state.
-- `$2` is the place after which the query starts and `$3` the last place that it reads; NULL: the first job, the
-- last job. Callers read delayed jobs in the order of their ids, and then ready jobs in the order of a claim, so
-- that they also find a job which becomes ready meanwhile.
CREATE OR REPLACE FUNCTION redrive.waiting_query(filter jsonb, state text) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM redrive.filter_jobs(filter);
    IF state <> ALL (coalesce(redrive.filter_values(filter -> 'state'), '{ready,delayed}')) THEN
        RETURN NULL;
    ELSIF state = 'delayed' THEN
        RETURN 'SELECT j.ctid AS tid, NULL::smallint AS segment, j.id, j.payload,'
            ' jsonb_build_object(''state'', ''delayed'', ''id'', j.id) AS place'
            ' FROM redrive.jobs_delayed j WHERE ($2 IS NULL OR j.id > ($2 ->> ''id'')::bigint)'
            ' AND ($3 IS NULL OR j.id <= ($3 ->> ''id'')::bigint)'
            ' AND ' || redrive.filter_jobs(filter - 'state') || ' ORDER BY j.id LIMIT $4';
    END IF;
    RETURN 'SELECT j.ctid AS tid, j.segment, j.id, j.payload, jsonb_build_object('
        '''state'', ''ready'', ''queue'', j.queue, ''rank'', (j.generation > 0)::integer - 2 * j.priority, ''id'', j.id) AS place'
        ' FROM redrive.jobs j WHERE ($2 IS NULL OR (j.queue, (j.generation > 0)::integer - 2 * j.priority, j.id)'
        ' > ($2 ->> ''queue'', ($2 ->> ''rank'')::integer, ($2 ->> ''id'')::bigint))'
        ' AND ($3 IS NULL OR (j.queue, (j.generation > 0)::integer - 2 * j.priority, j.id)'
        ' <= ($3 ->> ''queue'', ($3 ->> ''rank'')::integer, ($3 ->> ''id'')::bigint))'
        ' AND ' || redrive.filter_jobs(filter - 'state') || ' ORDER BY j.queue, (j.generation > 0)::integer - 2 * j.priority, j.id LIMIT $4';
END
$$;

-- Returns one page of waiting jobs with their payloads, for an edit.
CREATE OR REPLACE FUNCTION redrive.page_waiting(filter jsonb, place jsonb, max_jobs bigint)
    RETURNS TABLE (id bigint, payload json, next_place jsonb)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    -- Read the page in index order, regardless of the planner's estimates.
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    each_state text;
    query      text;
BEGIN
    FOREACH each_state IN ARRAY '{delayed,ready}'::text[] LOOP
        query := redrive.waiting_query(filter, each_state);
        CONTINUE WHEN query IS NULL OR each_state = 'delayed' AND place ->> 'state' = 'ready';
        RETURN QUERY EXECUTE 'SELECT w.id, w.payload, w.place FROM (' || query || ') w'
            USING filter, CASE WHEN place ->> 'state' = each_state THEN place END, NULL::jsonb, max_jobs;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- Deletes up to `max_jobs` waiting jobs that match a filter, after a place and up to another, and returns them.
-- Jobs that another session has locked are skipped: a worker is claiming them.
CREATE OR REPLACE FUNCTION redrive.take_waiting(filter jsonb, place jsonb, last_place jsonb, max_jobs bigint)
    RETURNS SETOF redrive.waiting_job
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
DECLARE
    each_state text;
    query      text;
BEGIN
    FOREACH each_state IN ARRAY '{delayed,ready}'::text[] LOOP
        query := redrive.waiting_query(filter, each_state);
        CONTINUE WHEN query IS NULL OR each_state = 'delayed' AND place ->> 'state' = 'ready'
            OR each_state <> last_place ->> 'state';
        RETURN QUERY EXECUTE 'WITH w AS MATERIALIZED (' || query || ' FOR UPDATE SKIP LOCKED), gone AS (DELETE FROM '
            || CASE each_state
                WHEN 'delayed' THEN 'redrive.jobs_delayed j USING w WHERE j.ctid = w.tid'
                    ' RETURNING w.place, j.id, j.run_at::timestamptz, '
                ELSE 'redrive.jobs j USING w WHERE j.ctid = w.tid AND j.segment = w.segment'
                    ' RETURNING w.place, j.id, j.ready_at, ' END
            || 'j.enqueued_at, j.attempt::integer, j.max_attempts::integer, j.generation::integer,'
            ' j.priority::smallint, j.crashes::smallint, j.refunds::smallint, j.queue::text, j.kind::text, j.payload,'
            ' j.history, j.unique_key, j.outage_since, j.headers::jsonb, j.group_key::text)'
            ' SELECT g.* FROM gone g ORDER BY '
            || CASE each_state WHEN 'delayed' THEN 'g.id' ELSE 'g.queue, (g.generation > 0)::integer - 2 * g.priority, g.id' END
            USING filter, CASE WHEN place ->> 'state' = each_state THEN place END, last_place, max_jobs;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- Puts jobs of `take_waiting` back where their places say. A suspect waits only for a turn.
CREATE OR REPLACE FUNCTION redrive.put_back(jobs redrive.waiting_job[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO redrive.jobs
        (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds, queue, kind,
         payload, history, unique_key, outage_since, headers, group_key)
    SELECT CASE WHEN j.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                ELSE redrive.segment_of_waiting(j.queue, j.group_key, j.id, j.crashes) END, j.id, j.run_at, j.enqueued_at, j.attempt,
           j.max_attempts, j.generation, j.priority, j.crashes, j.refunds, j.queue, j.kind, j.payload, j.history,
           j.unique_key, j.outage_since, j.headers, j.group_key
    FROM unnest(put_back.jobs) j WHERE j.place ->> 'state' = 'ready';
    INSERT INTO redrive.jobs_delayed
        (id, run_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
         refunds, queue, kind, payload, history, unique_key, outage_since, headers, group_key)
    SELECT j.id, j.run_at, j.enqueued_at, j.attempt, j.max_attempts, j.generation, j.priority, j.crashes,
           j.refunds, j.queue, j.kind, j.payload, j.history, j.unique_key, j.outage_since, j.headers, j.group_key
    FROM unnest(put_back.jobs) j WHERE j.place ->> 'state' = 'delayed';
END
$$;

-- Makes letters of jobs that died while they waited, and frees their unique keys.
CREATE OR REPLACE FUNCTION redrive.bury_waiting(
    jobs redrive.waiting_job[], cause text, error_class text, error_message text, audit bigint DEFAULT NULL
) RETURNS void
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    -- The lock order of letters and groups; see settle.sql.
    SELECT FROM redrive.dead_letters l
    WHERE l.id = ANY (ARRAY(SELECT j.id FROM unnest(bury_waiting.jobs) j WHERE j.generation > 0))
    ORDER BY l.id
    FOR NO KEY UPDATE;
    INSERT INTO redrive.dead_letters
        (id, queue, kind, cause, error_class, error_message, payload, priority, attempts,
         max_attempts, generation, crashes, history, enqueued_at, unique_key, headers, group_key)
    SELECT j.id, j.queue, j.kind, bury_waiting.cause, bury_waiting.error_class, bury_waiting.error_message,
           j.payload, j.priority, j.attempt, j.max_attempts, j.generation, j.crashes,
           coalesce(j.history, '[]'), j.enqueued_at, j.unique_key, j.headers, j.group_key
    FROM unnest(bury_waiting.jobs) j
    ORDER BY j.id
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
    UPDATE redrive.dead_letters l SET audit_id = bury_waiting.audit
    WHERE bury_waiting.audit IS NOT NULL AND l.id = ANY (ARRAY(SELECT j.id FROM unnest(bury_waiting.jobs) j));
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(
        SELECT j.id FROM unnest(bury_waiting.jobs) j WHERE j.unique_key IS NOT NULL));
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, c.queue, '{ended}', ARRAY[c.jobs]
    FROM (SELECT j.queue, count(*) AS jobs FROM unnest(bury_waiting.jobs) j GROUP BY j.queue) c
    CROSS JOIN redrive.metric_ring m;
$$;

-- Changes up to `max_jobs` waiting jobs that match a filter, after a place and up to another, and writes the audit, in
-- the transaction of the caller. `cancel` makes letters of them, `set_priority` gives them `priority`, `run_now` makes
-- delayed jobs ready, and `edit` gives jobs of `ids` the payload in `edited`, if they still have the one in
-- `unedited`. Returns the changed jobs with their places and the audit record of the first batch.
CREATE OR REPLACE FUNCTION redrive.change_jobs(
    action text, filter jsonb, place jsonb, last_place jsonb, max_jobs bigint, reason text, person text, audit bigint,
    priority integer DEFAULT NULL, ids bigint[] DEFAULT '{}', unedited text[] DEFAULT '{}', edited text[] DEFAULT '{}'
) RETURNS TABLE (id bigint, audit_id bigint, next_place jsonb)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    narrowed  jsonb := change_jobs.filter || CASE action
        -- An empty list still selects nothing.
        WHEN 'set_priority' THEN jsonb_build_object('priority_not', CASE change_jobs.filter -> 'priority_not'
            WHEN '[]' THEN '[]'
            ELSE jsonb_build_array(change_jobs.priority) || coalesce(change_jobs.filter -> 'priority_not', '[]') END)
        WHEN 'edit' THEN jsonb_build_object('ids', ARRAY(
            SELECT i FROM unnest(change_jobs.ids) i
            WHERE coalesce(i::text = ANY (redrive.filter_values(change_jobs.filter -> 'ids')), true)))
        WHEN 'run_now' THEN jsonb_build_object('state', ARRAY(
            SELECT s FROM unnest(coalesce(redrive.filter_values(change_jobs.filter -> 'state'), '{delayed}')) s
            WHERE s = 'delayed'))
        ELSE '{}' END;
    jobs      redrive.waiting_job[];
    changed   bigint[];
    operation bigint := change_jobs.audit;
    act       bigint;
BEGIN
    PERFORM redrive.filter_jobs(change_jobs.filter);
    jobs := ARRAY(
        SELECT w FROM redrive.take_waiting(narrowed, change_jobs.place, change_jobs.last_place, max_jobs) w);
    changed := ARRAY(
        SELECT j.id FROM unnest(jobs) j
        LEFT JOIN unnest(change_jobs.ids, unedited) AS e (id, payload) ON e.id = j.id
        WHERE action <> 'edit' OR e.payload = btrim(j.payload::text, E' \t\r\n'));
    IF changed <> '{}' THEN
        act := redrive.record_act(action || '_jobs', person, reason, change_jobs.filter, cardinality(changed),
            nullif(jsonb_strip_nulls(jsonb_build_object('priority', change_jobs.priority, 'batch_of', operation)), '{}'));
        operation := coalesce(operation, act);
    END IF;
    IF action = 'cancel' THEN
        PERFORM redrive.bury_waiting(jobs, 'manual', 'cancelled', 'cancelled by an operator', operation);
    ELSE
        PERFORM redrive.put_back(ARRAY(
            SELECT ROW(CASE action WHEN 'run_now' THEN '{"state": "ready"}' ELSE j.place END, j.id,
                       CASE action WHEN 'run_now' THEN clock_timestamp() ELSE j.run_at END,
                       j.enqueued_at, j.attempt, j.max_attempts, j.generation,
                       CASE action WHEN 'set_priority' THEN change_jobs.priority ELSE j.priority END,
                       j.crashes, j.refunds, j.queue, j.kind,
                       CASE WHEN e.id = ANY (changed) THEN e.payload::json ELSE j.payload END,
                       j.history, j.unique_key, j.outage_since, j.headers, j.group_key)::redrive.waiting_job
            FROM unnest(jobs) j
            LEFT JOIN unnest(change_jobs.ids, edited) AS e (id, payload) ON e.id = j.id));
    END IF;
    IF action = 'run_now' THEN
        PERFORM redrive.wake(q.queue) FROM (SELECT DISTINCT j.queue FROM unnest(jobs) j) q;
    END IF;
    RETURN QUERY SELECT j.id, operation, j.place FROM unnest(jobs) WITH ORDINALITY j
        WHERE j.id = ANY (changed) ORDER BY j.ordinality;
END
$$;

-- Makes letters of up to `max_jobs` ready jobs of a kind, with the cause `unhandled`, unless a live worker of the
-- queue handles the kind. Returns their number.
CREATE OR REPLACE FUNCTION redrive.bury_unhandled(queue text, kind text, error_message text, max_jobs bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    jobs redrive.waiting_job[];
BEGIN
    IF EXISTS (
        SELECT FROM redrive.workers w WHERE w.queue = bury_unhandled.queue AND w.expires_at > statement_timestamp()
            AND (w.kinds IS NULL OR bury_unhandled.kind = ANY (w.kinds)))
    THEN
        RETURN 0;
    END IF;
    jobs := ARRAY(
        SELECT t FROM redrive.take_waiting(
            jsonb_build_object('queue', queue, 'kind', kind, 'state', 'ready'), NULL, NULL, max_jobs) t);
    PERFORM redrive.bury_waiting(jobs, 'unhandled', 'unhandled', error_message);
    RETURN cardinality(jobs);
END
$$;

-- Raises ready jobs of a queue, except those that wait for their group, that have waited for `waited_ms` to a priority, and redriven ones to the next above it,
-- because they rank behind new jobs. It considers the next `max_jobs` jobs of the first rank after `after_rank` (NULL:
-- any) that a claim reads after new jobs of that priority; locked ones are skipped. Returns how many it raised, and the
-- rank; NULL: there is no such rank. A raised job has left the rank, so a second call does not raise it again. Its
-- header `redrive-priority` has the priority that it had, if there is room.
CREATE OR REPLACE FUNCTION redrive.age_jobs(
    queue text, waited_ms bigint, priority integer, after_rank integer, max_jobs bigint, OUT aged bigint, OUT rank integer
)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
    before  timestamptz := statement_timestamp() - waited_ms * interval '1 millisecond';
    is_due  boolean;
    last_id bigint;
    jobs    redrive.waiting_job[];
BEGIN
    SELECT f.rank, bool_or(f.ready_at < before), max(f.id) INTO rank, is_due, last_id
    FROM (
        SELECT (j.generation > 0)::integer - 2 * j.priority AS rank, j.id, j.ready_at FROM redrive.jobs j
        WHERE j.queue = age_jobs.queue AND j.segment < 8
            AND (j.generation > 0)::integer - 2 * j.priority > greatest(after_rank, -2 * age_jobs.priority)
        ORDER BY (j.generation > 0)::integer - 2 * j.priority, j.id
        LIMIT max_jobs
    ) f
    GROUP BY f.rank ORDER BY f.rank LIMIT 1;
    IF is_due THEN
        SELECT array_agg(ROW('{"state": "ready"}', j.id, j.ready_at, j.enqueued_at, j.attempt, j.max_attempts,
                   j.generation, age_jobs.priority + (j.generation > 0)::integer, j.crashes, j.refunds, j.queue, j.kind,
                   j.payload, j.history, j.unique_key, j.outage_since,
                   CASE WHEN octet_length(h.headers::text) <= 65536 THEN h.headers ELSE j.headers END,
                   j.group_key)::redrive.waiting_job)
        INTO jobs
        FROM (
            SELECT w.segment, array_agg(w.tid) AS tids
            FROM (
                SELECT k.segment, k.ctid AS tid FROM redrive.jobs k
                WHERE k.queue = age_jobs.queue AND k.segment < 8 AND (k.generation > 0)::integer - 2 * k.priority = rank
                    AND k.id <= last_id AND k.ready_at < before
                ORDER BY (k.generation > 0)::integer - 2 * k.priority, k.id
                FOR UPDATE SKIP LOCKED
            ) w GROUP BY w.segment
        ) s
        CROSS JOIN LATERAL redrive.take_jobs(s.segment, s.tids) j
        CROSS JOIN LATERAL (
            SELECT jsonb_build_object('redrive-priority', j.priority::text) || coalesce(j.headers, '{}')) AS h (headers);
        PERFORM redrive.put_back(jobs);
    END IF;
    aged := coalesce(cardinality(jobs), 0);
END
$$;
