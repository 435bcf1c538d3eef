-- Purpose: Bulk operations on waiting jobs: cancel, set the priority, run now, edit; unhandled jobs and ageing.

-- Returns up to `max_jobs` waiting jobs that match a filter, after a place (NULL: the first ones) and up to another (NULL: the
-- last ones): delayed jobs in the order of their ids, and, if there is none, ready jobs in the order of a claim, so that a
-- caller who reads pages also finds a job which becomes ready meanwhile. `locking` is the end of the query.
-- Index: the primary key of jobs_delayed, and jobs_for_claim.
CREATE OR REPLACE FUNCTION redrive.waiting_jobs(filter jsonb, place jsonb, last_place jsonb, max_jobs bigint, locking text)
    RETURNS SETOF redrive.job
    LANGUAGE plpgsql VOLATILE
    -- Read the page in index order, regardless of the planner's estimates.
    SET enable_seqscan = off
AS $$
DECLARE
    states CONSTANT text[] := coalesce(redrive.filter_values(filter -> 'state'), '{ready,delayed}');
    heap   record;
BEGIN
    PERFORM redrive.filter_jobs(filter);
    FOR heap IN
        SELECT t.* FROM (VALUES
            ('delayed', 'jobs_delayed', 'delayed_job', 'w.id', '($2 ->> ''id'')::bigint'),
            ('ready', 'jobs', 'ready_job', 'w.queue, w.rank, w.id',
             '$2 ->> ''queue'', ($2 ->> ''rank'')::integer, ($2 ->> ''id'')::bigint')
        ) AS t (state, name, reader, columns, bound)
    LOOP
        CONTINUE WHEN heap.state <> ALL (states) OR heap.state <> last_place ->> 'state'
            OR heap.state = 'delayed' AND place ->> 'state' = 'ready';
        -- A filter compares the columns of `j`.
        RETURN QUERY EXECUTE format(
            'SELECT (q.job).* FROM (SELECT redrive.%2$s(w) AS job FROM redrive.%1$s w CROSS JOIN LATERAL ('
                'SELECT m.*, (m.meta).unique_key, (m.meta).group_key FROM (SELECT (redrive.%2$s(w)).*) m) j'
                ' WHERE ($2 IS NULL OR (%3$s) > (%4$s)) AND ($3 IS NULL OR (%3$s) <= (%5$s)) AND %6$s'
                ' ORDER BY %3$s LIMIT $4 %7$s) q',
            heap.name, heap.reader, heap.columns, heap.bound, replace(heap.bound, '$2', '$3'),
            redrive.filter_jobs(filter - 'state'), locking)
            USING filter, CASE WHEN place ->> 'state' = heap.state THEN place END, last_place, max_jobs;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- Returns one page of waiting jobs with their payloads, for an edit.
CREATE OR REPLACE FUNCTION redrive.page_waiting(filter jsonb, place jsonb, max_jobs bigint)
    RETURNS TABLE (id bigint, payload json, next_place jsonb)
    LANGUAGE sql VOLATILE
AS $$
    SELECT w.id, w.payload, redrive.place_of(w)
    FROM redrive.waiting_jobs(page_waiting.filter, page_waiting.place, NULL, max_jobs, '') w
$$;

-- Deletes up to `max_jobs` waiting jobs that match a filter, after a place and up to another, and returns them.
-- Jobs that another session has locked are skipped: a worker is claiming them.
CREATE OR REPLACE FUNCTION redrive.take_waiting(filter jsonb, place jsonb, last_place jsonb, max_jobs bigint)
    RETURNS SETOF redrive.job
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off
AS $$
DECLARE
    jobs CONSTANT redrive.job[] := ARRAY(SELECT w FROM redrive.waiting_jobs(
        filter, place, last_place, redrive.limit_of('max_jobs', max_jobs), 'FOR UPDATE OF w SKIP LOCKED') w);
BEGIN
    DELETE FROM redrive.jobs_delayed d USING unnest(jobs) j WHERE j.segment IS NULL AND d.id = j.id;
    DELETE FROM redrive.jobs r USING unnest(jobs) j
    WHERE r.segment = j.segment AND r.queue = j.queue AND r.rank = redrive.rank_of(j) AND r.id = j.id;
    RETURN QUERY SELECT * FROM unnest(jobs);
END
$$;

-- Makes letters of jobs that died while they waited, and counts them. One that was cancelled, even while it waited for a
-- retry with the turn of its group, does not hold the group.
CREATE OR REPLACE FUNCTION redrive.bury_waiting(
    jobs redrive.job[], cause text, error_class text, error_message text, audit bigint DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    INSERT INTO redrive.metric_deltas (queue, keys, counts)
    SELECT j.queue, '{ended}', ARRAY[count(*)] FROM unnest(bury_waiting.jobs) j GROUP BY 1;
    -- The lock order of letters; see `bury`. The turn of a diverted group passes to a later letter.
    PERFORM FROM redrive.dead_letters l
    WHERE l.id = ANY (ARRAY(SELECT j.id FROM unnest(bury_waiting.jobs) j WHERE j.generation > 0))
    ORDER BY l.id
    FOR NO KEY UPDATE;
    IF cause = 'manual' AND redrive.free_slots(ARRAY(
        SELECT j.id FROM unnest(bury_waiting.jobs) j WHERE (j.meta).group_key IS NOT NULL), '{}') > 0
    THEN
        PERFORM redrive.wake(q.queue) FROM (SELECT DISTINCT j.queue FROM unnest(bury_waiting.jobs) j) q;
    END IF;
    RETURN redrive.bury(
        jobs,
        array_fill(ROW(cause, error_class, error_message, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::redrive.death,
                   ARRAY[cardinality(jobs)]),
        audit);
END
$$;

-- Changes up to `max_jobs` waiting jobs that match a filter, after a place and up to another, and writes the audit, in
-- the transaction of the caller. `cancel` makes letters of them, `set_priority` gives them `priority`, `run_now` makes
-- delayed jobs ready, and `edit` gives jobs of `ids` the payload in `edited`, if they still have the one in
-- `unedited`. Returns the changed jobs with their places and the audit record of the first batch.
-- Locks: the jobs; those locked by another session are skipped. Index: the primary key of jobs_delayed, and
-- jobs_for_claim.
CREATE OR REPLACE FUNCTION redrive.change_jobs(
    action text, filter jsonb, place jsonb, last_place jsonb, max_jobs bigint, person text, reason text, audit bigint,
    priority integer DEFAULT NULL, ids bigint[] DEFAULT '{}', unedited text[] DEFAULT '{}', edited text[] DEFAULT '{}'
) RETURNS TABLE (id bigint, audit_id bigint, next_place jsonb)
    LANGUAGE plpgsql VOLATILE
AS $$
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
    jobs      redrive.job[];
    altered   redrive.job[];
    changed   bigint[];
    operation bigint := change_jobs.audit;
BEGIN
    PERFORM redrive.filter_jobs(change_jobs.filter);
    -- Otherwise the jobs would be taken, and none put back.
    PERFORM redrive.refuse(CASE
        WHEN change_jobs.action IN ('cancel', 'set_priority', 'run_now', 'edit') IS NOT TRUE
            THEN format('unknown change %L of jobs; expected cancel, set_priority, run_now or edit', change_jobs.action)
        WHEN change_jobs.action = 'set_priority' AND change_jobs.priority BETWEEN -1000 AND 1000 IS NOT TRUE THEN format(
            'the priority is %s; it must be between -1000 and 1000', coalesce(change_jobs.priority::text, 'NULL'))
        WHEN cardinality(change_jobs.ids) > (SELECT count(DISTINCT i) FROM unnest(change_jobs.ids) i)
            THEN 'a job is given twice, or is NULL; no job was edited'
    END);
    jobs := ARRAY(
        SELECT w FROM redrive.take_waiting(narrowed, change_jobs.place, change_jobs.last_place, max_jobs) w);
    changed := ARRAY(
        SELECT j.id FROM unnest(jobs) j
        LEFT JOIN unnest(change_jobs.ids, unedited) AS e (id, payload) ON e.id = j.id
        WHERE action <> 'edit' OR e.payload = btrim(j.payload::text, E' \t\r\n'));
    IF changed <> '{}' THEN
        operation := redrive.record_act(action || '_jobs', person, reason, change_jobs.filter, cardinality(changed),
            CASE WHEN change_jobs.priority IS NOT NULL THEN jsonb_build_object('priority', change_jobs.priority) END, operation);
    END IF;
    IF action = 'cancel' THEN
        PERFORM redrive.bury_waiting(jobs, 'manual', 'cancelled', 'cancelled by an operator', operation);
    ELSE
        altered := ARRAY(
            SELECT redrive.altered(
                j, priority => CASE action WHEN 'set_priority' THEN change_jobs.priority END,
                ready_at => CASE action WHEN 'run_now' THEN clock_timestamp() END,
                payload => CASE WHEN e.id = ANY (changed) THEN e.payload::json END)
            FROM unnest(jobs) j
            LEFT JOIN unnest(change_jobs.ids, edited) AS e (id, payload) ON e.id = j.id);
        PERFORM redrive.requeue(
            ARRAY(SELECT a FROM unnest(altered) a WHERE a.segment IS NOT NULL OR action = 'run_now'),
            ARRAY(SELECT a FROM unnest(altered) a WHERE a.segment IS NULL AND action <> 'run_now'), false);
    END IF;
    IF action = 'run_now' THEN
        PERFORM redrive.wake(q.queue) FROM (SELECT DISTINCT j.queue FROM unnest(jobs) j) q;
    END IF;
    RETURN QUERY SELECT jobs[n].id, operation, redrive.place_of(jobs[n]) FROM generate_subscripts(jobs, 1) n
        WHERE jobs[n].id = ANY (changed) ORDER BY n;
END
$$;

-- Cancels a job, and writes the audit. Returns `dead` if it waited and is a letter now, with the cause `manual`; `asked` if a
-- worker runs it, or if it died because its handler `was_told`: whoever ends its lease does not return it; or `not_live`.
-- Locks: the row of the job, the letter of a redriven job; the row of the lease. It waits for a session that settles or
-- reaps the lease, because only that one knows where the job is next. Index: the primary keys of jobs_delayed and
-- dead_letters; unique_keys_by_job. It scans jobs and leases.
CREATE OR REPLACE FUNCTION redrive.cancel_job(id bigint, person text, reason text, was_told boolean) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    about CONSTANT jsonb := jsonb_build_object('ids', jsonb_build_array(cancel_job.id));
    jobs  redrive.job[];
BEGIN
    -- It may move between two statements.
    FOR look IN 1..5 LOOP
        WITH ready AS (
            DELETE FROM redrive.jobs j WHERE j.id = cancel_job.id RETURNING redrive.ready_job(j) AS job
        ),
        delayed AS (
            DELETE FROM redrive.jobs_delayed d WHERE d.id = cancel_job.id RETURNING redrive.delayed_job(d) AS job
        )
        SELECT array_agg(w.job) INTO jobs FROM (TABLE ready UNION ALL TABLE delayed) w;
        IF jobs IS NOT NULL THEN
            PERFORM redrive.bury_waiting(jobs, 'manual', 'cancelled', 'cancelled by an operator',
                                         redrive.record_act('cancel_jobs', person, reason, about, 1));
            RETURN 'dead';
        END IF;
        -- Once, however often the job is cancelled.
        UPDATE redrive.leases l
        SET cancelled = array_remove(l.cancelled, cancel_job.id) || cancel_job.id
        WHERE cancel_job.id = ANY (l.ids) AND cancel_job.id <> ALL (l.done);
        -- The job was live when its handler was told, so an open letter is younger.
        IF FOUND OR was_told AND EXISTS (
            SELECT FROM redrive.dead_letters d WHERE d.id = cancel_job.id AND d.state = 'open' AND d.cause = 'manual')
        THEN
            PERFORM redrive.record_act('cancel_running_jobs', person, reason, about, 1);
            RETURN 'asked';
        END IF;
        IF NOT EXISTS (SELECT FROM redrive.live_jobs j WHERE j.id = cancel_job.id) THEN
            RETURN 'not_live';
        END IF;
    END LOOP;
    RAISE EXCEPTION 'redrive: job % keeps moving; try again', cancel_job.id USING ERRCODE = 'lock_not_available';
END
$$;

-- Makes letters of up to `max_jobs` ready jobs of a kind, with the cause `unhandled`, unless a live worker of the
-- queue handles the kind. Returns their number.
CREATE OR REPLACE FUNCTION redrive.bury_unhandled(queue text, kind text, error_message text, max_jobs bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF EXISTS (
        SELECT FROM redrive.workers w WHERE w.queue = bury_unhandled.queue AND w.expires_at > statement_timestamp()
            AND (w.kinds IS NULL OR bury_unhandled.kind = ANY (w.kinds)))
    THEN
        RETURN 0;
    END IF;
    RETURN redrive.bury_waiting(ARRAY(
        SELECT t FROM redrive.take_waiting(
            jsonb_build_object('queue', queue, 'kind', kind, 'state', 'ready'), NULL, NULL, max_jobs) t),
        'unhandled', 'unhandled', error_message);
END
$$;

-- Raises ready jobs of a queue, except those that wait for their group, that have waited for `waited_ms` to a priority, and
-- redriven ones to the next above it, because they rank behind new jobs. Of each rank that a claim reads after new jobs of
-- that priority, it considers the next `max_jobs` jobs; locked ones are skipped. Returns how many it raised; from `max_jobs`
-- on, there may be more. A raised job has left its rank, so a second call does not raise it again.
CREATE OR REPLACE FUNCTION redrive.age_jobs(queue text, waited_ms bigint, priority integer, max_jobs bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off
AS $$
DECLARE
    before  CONSTANT timestamptz := statement_timestamp() - waited_ms * interval '1 millisecond';
    at_rank integer := -2 * age_jobs.priority;
    is_due  boolean;
    last_id bigint;
    jobs    redrive.job[];
    aged    bigint := 0;
BEGIN
    WHILE aged < max_jobs LOOP
        SELECT f.rank, bool_or(f.ready_at < before), max(f.id) INTO at_rank, is_due, last_id
        FROM (
            SELECT j.rank, j.id, coalesce((j.meta).ready_at, j.enqueued_at) AS ready_at FROM redrive.jobs j
            WHERE j.queue = age_jobs.queue AND j.segment < 8 AND j.rank > at_rank
            ORDER BY j.rank, j.id
            LIMIT max_jobs
        ) f
        GROUP BY f.rank ORDER BY f.rank LIMIT 1;
        EXIT WHEN NOT FOUND;
        CONTINUE WHEN NOT is_due;
        WITH due AS MATERIALIZED (
            SELECT k.segment, k.ctid AS tid FROM redrive.jobs k
            WHERE k.queue = age_jobs.queue AND k.segment < 8 AND k.rank = at_rank
                AND k.id <= last_id AND coalesce((k.meta).ready_at, k.enqueued_at) < before
            ORDER BY k.rank, k.id
            FOR UPDATE SKIP LOCKED
        ),
        gone AS (
            DELETE FROM redrive.jobs j USING due d WHERE j.ctid = d.tid AND j.segment = d.segment
            RETURNING redrive.ready_job(j) AS job
        )
        SELECT array_agg(redrive.altered(
                   g.job, priority => age_jobs.priority + ((g.job).generation > 0)::integer))
        INTO jobs FROM gone g;
        aged := aged + redrive.requeue(jobs, '{}', false);
    END LOOP;
    RETURN aged;
END
$$;
