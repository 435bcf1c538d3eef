-- Purpose: Views for people and tools, `live_jobs` and `letters`, and the filters of live jobs and erasures.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Every live job, in exactly one of three places; the place is its state. The columns have the same types in each, so
-- that the planner reads only the places that a condition on the state allows.
CREATE VIEW redrive.live_jobs AS
    SELECT j.id, j.queue::text AS queue, j.kind::text AS kind, 'ready'::text AS state, j.priority::smallint AS priority,
           j.payload, j.attempt::integer AS attempt, j.max_attempts::integer AS max_attempts,
           j.generation::integer AS generation, j.crashes::smallint AS crashes, j.ready_at AS run_at,
           j.enqueued_at, j.history, NULL::uuid AS worker_id, NULL::uuid AS lease_id,
           NULL::timestamptz AS claimed_at, j.unique_key, j.outage_since,
           j.headers::jsonb AS headers, j.group_key::text AS group_key
    FROM redrive.jobs j
    UNION ALL
    SELECT d.id, d.queue::text, d.kind::text, 'delayed'::text, d.priority::smallint, d.payload,
           d.attempt::integer, d.max_attempts::integer, d.generation::integer, d.crashes::smallint,
           d.run_at::timestamptz, d.enqueued_at, d.history, NULL::uuid, NULL::uuid, NULL::timestamptz,
           d.unique_key, d.outage_since, d.headers::jsonb, d.group_key::text
    FROM redrive.jobs_delayed d
    UNION ALL
    SELECT j.id, l.queue::text, j.kind, 'leased'::text, j.priority, j.payload,
           j.attempt, j.max_attempts, j.generation, j.crashes, l.claimed_at,
           j.enqueued_at, j.history, l.worker_id, l.lease_id, l.claimed_at, j.unique_key, j.outage_since,
           j.headers, j.group_key
    FROM redrive.leases l
    CROSS JOIN LATERAL redrive.jobs_of(l) j
    WHERE j.id <> ALL (l.done);

COMMENT ON VIEW redrive.live_jobs IS 'Every live job with its state: ready, delayed or leased.';

CREATE VIEW redrive.letters AS
    SELECT l.id, l.queue::text AS queue, l.kind::text AS kind, l.state, l.cause, l.error_class,
           l.error_message, coalesce(l.error_detail, d.detail) AS error_detail, l.payload, l.raw,
           l.content_type, l.headers, l.source, l.position, l.seen, l.priority, l.attempts, l.earlier_attempts,
           l.max_attempts, l.generation, l.crashes,
           CASE WHEN l.run_ms IS NULL THEN l.history ELSE l.history || jsonb_build_object(
               'generation', l.generation, 'attempt', l.attempts, 'outcome', l.cause, 'run_ms', l.run_ms,
               'error_class', l.error_class, 'error_message', left(l.error_message, 1000),
               'worker', l.worker_id, 'host', l.host, 'version', l.version, 'pid', l.pid,
               'ended_at', l.died_at) END AS history,
           l.worker_id, l.host, l.version,
           l.discard_reason, l.enqueued_at, l.died_at, l.changed_at,
           l.group_id, l.pid, l.deaths, l.alike, l.edits, l.events, l.run_id, l.run_ordinal, l.policy_id,
           l.detail_id, l.unique_key, l.group_key, l.audit_id, l.redacted, l.failure_key, l.failed_redrives
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id;

COMMENT ON VIEW redrive.letters IS 'Every dead letter in any state.';

-- Returns the SQL condition on live jobs `j` for a filter. The filter is a JSON object and `$1` of the statement
-- that contains the condition. The text consists of constants, never of text from the caller.
--
-- Each key narrows the selection: `ids` [id], `id_from`, `id_to`, `queue`, `kind`, `state` (one word or several),
-- `priority_from`, `priority_to`, `other_priority` (not this one), `attempts_from`, `attempts_to`,
-- `generation_from`, `generation_to`, `older_than_ms`, `newer_than_ms` (since it was first enqueued), `unique`,
-- `payload` (a jsonpath predicate).
CREATE FUNCTION redrive.filter_jobs(filter jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key        text;
    value      jsonb;
    words      text[];
    condition  text;
    conditions text := 'true';
BEGIN
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        RAISE EXCEPTION 'redrive: a filter must be a JSON object; {} matches every job'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR key, value IN SELECT * FROM jsonb_each(filter - 'payload') LOOP
        words := redrive.filter_values(value);
        CONTINUE WHEN words IS NULL;
        condition := CASE key
            WHEN 'ids' THEN 'j.id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
            WHEN 'state' THEN 'j.state IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
            WHEN 'id_from' THEN 'j.id >= ($1 ->> ''id_from'')::bigint'
            WHEN 'id_to' THEN 'j.id <= ($1 ->> ''id_to'')::bigint'
            WHEN 'queue' THEN 'j.queue = $1 ->> ''queue'''
            WHEN 'kind' THEN 'j.kind = $1 ->> ''kind'''
            WHEN 'priority_from' THEN 'j.priority >= ($1 ->> ''priority_from'')::integer'
            WHEN 'priority_to' THEN 'j.priority <= ($1 ->> ''priority_to'')::integer'
            WHEN 'other_priority' THEN 'j.priority <> ($1 ->> ''other_priority'')::integer'
            WHEN 'attempts_from' THEN 'j.attempt >= ($1 ->> ''attempts_from'')::integer'
            WHEN 'attempts_to' THEN 'j.attempt <= ($1 ->> ''attempts_to'')::integer'
            WHEN 'generation_from' THEN 'j.generation >= ($1 ->> ''generation_from'')::integer'
            WHEN 'generation_to' THEN 'j.generation <= ($1 ->> ''generation_to'')::integer'
            WHEN 'older_than_ms' THEN
                'j.enqueued_at < statement_timestamp() - ($1 ->> ''older_than_ms'')::bigint * interval ''1 millisecond'''
            WHEN 'newer_than_ms' THEN
                'j.enqueued_at >= statement_timestamp() - ($1 ->> ''newer_than_ms'')::bigint * interval ''1 millisecond'''
            WHEN 'unique' THEN 'j.unique_key = $1 ->> ''unique'''
        END;
        IF condition IS NULL AND key = 'state' THEN
            RAISE EXCEPTION 'redrive: the filter key state has no value' USING ERRCODE = 'invalid_parameter_value';
        ELSIF condition IS NULL THEN
            RAISE EXCEPTION 'redrive: unknown filter key %', key
                USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Expected one of ids, id_from, id_to, queue, kind, state, priority_from, priority_to,'
                       ' other_priority, attempts_from, attempts_to, generation_from, generation_to,'
                       ' older_than_ms, newer_than_ms, unique, payload.';
        ELSIF jsonb_typeof(value) = 'array' AND key NOT IN ('ids', 'state') THEN
            RAISE EXCEPTION 'redrive: the filter key % takes one value', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        conditions := conditions || E'\n    AND ' || condition;
    END LOOP;
    IF filter ->> 'payload' IS NULL THEN
        RETURN conditions;
    END IF;
    -- CASE keeps the server from parsing the payloads of other jobs.
    RETURN conditions || E'\n    AND CASE WHEN ' || conditions
        || ' THEN redrive.readable_payload(j.payload) @@ ($1 ->> ''payload'')::jsonpath END';
END
$$;

-- Lists live jobs in the order of their ids. `after` is the last id of the previous page.
CREATE FUNCTION redrive.list_jobs(filter jsonb, after bigint DEFAULT NULL, max_jobs bigint DEFAULT 50)
    RETURNS SETOF redrive.live_jobs
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
BEGIN
    -- No lease_id, which a reader may not see.
    RETURN QUERY EXECUTE
        'SELECT j.id, j.queue, j.kind, j.state, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,'
        ' j.crashes, j.run_at, j.enqueued_at, j.history, j.worker_id, NULL::uuid, j.claimed_at, j.unique_key,'
        ' j.outage_since, j.headers, j.group_key'
        ' FROM redrive.live_jobs j WHERE ($2 IS NULL OR j.id > $2) AND ' || redrive.filter_jobs(filter)
        || ' ORDER BY j.id LIMIT $3'
        USING filter, after, max_jobs;
END
$$;

-- Counts the live jobs that match a filter, by state; `alike` is how many of them have this priority.
CREATE FUNCTION redrive.count_jobs(filter jsonb, priority integer DEFAULT NULL)
    RETURNS TABLE (state text, jobs bigint, alike bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT j.state, count(*), count(*) FILTER (WHERE j.priority = $2) FROM redrive.live_jobs j WHERE '
        || redrive.filter_jobs(filter) || ' GROUP BY j.state'
        USING filter, priority;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
