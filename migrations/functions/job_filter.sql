-- Purpose: Filters of live jobs.

-- Raises an error for a filter that is not an object, or has an unknown key or a value that its key does not take. Each
-- of `keys` has the kind of its values: `text`, `integer`, `duration` (milliseconds), `time`, `path` (a jsonpath
-- predicate), and `texts` or `integers` for one value or a list. Null is no value: a query over no rows returns it, and
-- an absent key selects everything.
CREATE OR REPLACE FUNCTION redrive.check_filter(filter jsonb, subject text, keys text[]) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key   text;
    value jsonb;
    kind  text;
    fault text;
BEGIN
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        RAISE EXCEPTION 'redrive: a filter must be a JSON object; {} matches every %', subject
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR key, value IN SELECT * FROM jsonb_each(filter) LOOP
        kind := (SELECT split_part(k.pair, ' ', 2) FROM unnest(keys) AS k (pair) WHERE split_part(k.pair, ' ', 1) = key);
        IF kind IS NULL THEN
            RAISE EXCEPTION 'redrive: unknown filter key %', key USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Expected one of ' || (
                    SELECT string_agg(split_part(k.pair, ' ', 1), ', ') FROM unnest(keys) AS k (pair)) || '.';
        END IF;
        fault := CASE
            WHEN value = 'null' THEN 'is null'
            WHEN jsonb_typeof(value) = 'array' AND kind NOT IN ('texts', 'integers') THEN 'takes one value'
        END;
        IF fault IS NULL THEN
            SELECT CASE
                WHEN jsonb_typeof(e.item) <> w.type THEN
                    format('takes values of type %s, not %s', w.type, jsonb_typeof(e.item))
                WHEN w.type = 'string' THEN 'is empty'
                ELSE 'takes whole numbers of 64 bits'
                    || CASE kind WHEN 'duration' THEN ', from 0 to 100 years in milliseconds' ELSE '' END
            END INTO fault
            FROM jsonb_array_elements(
                CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE jsonb_build_array(value) END) AS e (item)
            CROSS JOIN (
                SELECT CASE WHEN kind IN ('integer', 'integers', 'duration') THEN 'number' ELSE 'string' END AS type) w
            WHERE CASE
                WHEN jsonb_typeof(e.item) <> w.type THEN true
                -- An empty text is part of every message.
                WHEN w.type = 'string' THEN e.item = '""' AND key = 'message'
                ELSE scale(e.item::numeric) > 0 OR e.item::numeric NOT BETWEEN
                    CASE kind WHEN 'duration' THEN 0 ELSE -9223372036854775808 END
                    AND CASE kind WHEN 'duration' THEN 3155760000000 ELSE 9223372036854775807 END
            END
            LIMIT 1;
        END IF;
        IF fault IS NULL AND kind IN ('time', 'path') THEN
            BEGIN
                fault := CASE WHEN kind = 'time' AND (value #>> '{}')::timestamptz IS NULL
                    OR kind = 'path' AND (value #>> '{}')::jsonpath IS NULL THEN 'is null' END;
            EXCEPTION WHEN data_exception OR syntax_error THEN
                fault := 'is refused: ' || SQLERRM;
            END;
        END IF;
        IF fault IS NOT NULL THEN
            RAISE EXCEPTION 'redrive: the filter key % %', key, fault USING ERRCODE = 'invalid_parameter_value',
                HINT = CASE WHEN kind IN ('texts', 'integers') THEN 'An empty list selects nothing.'
                    ELSE 'Without the key, the others decide.' END;
        END IF;
    END LOOP;
END
$$;

-- Returns the values of a filter key, which holds one value or a list; NULL: the filter does not have it.
CREATE OR REPLACE FUNCTION redrive.filter_values(value jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE jsonb_typeof(value)
        WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(value))
        ELSE ARRAY[value #>> '{}']
    END
    WHERE value IS NOT NULL
$$;

-- Returns the SQL condition on live jobs `j` for a filter. The filter is a JSON object and `$1` of the statement
-- that contains the condition. The text consists of constants, never of text from the caller.
--
-- Each key narrows the selection: `ids` [id], `id_from`, `id_to`, `queue`, `kind`, `state` (one word or several),
-- `priority_from`, `priority_to`, `other_priority` (not this one), `attempts_from`, `attempts_to`,
-- `generation_from`, `generation_to`, `older_than_ms`, `newer_than_ms` (since it was first enqueued), `unique`,
-- `payload` (a jsonpath predicate, which no unreadable payload meets).
CREATE OR REPLACE FUNCTION redrive.filter_jobs(filter jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key        text;
    words      text[];
    conditions text := 'true';
BEGIN
    PERFORM redrive.check_filter(filter, 'job', '{ids integers,id_from integer,id_to integer,queue text,kind text,'
        'state texts,priority_from integer,priority_to integer,other_priority integer,attempts_from integer,'
        'attempts_to integer,generation_from integer,generation_to integer,older_than_ms duration,'
        'newer_than_ms duration,unique text,payload path}');
    FOR key IN SELECT jsonb_object_keys(filter - 'payload') LOOP
        words := redrive.filter_values(filter -> key);
        conditions := conditions || E'\n    AND ' || CASE
            WHEN words = '{}' THEN 'false'
            ELSE CASE key
                WHEN 'ids' THEN 'j.id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
                WHEN 'state' THEN 'j.state IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
                WHEN 'id_from' THEN 'j.id >= ($1 ->> ''id_from'')::bigint'
                WHEN 'id_to' THEN 'j.id <= ($1 ->> ''id_to'')::bigint'
                WHEN 'queue' THEN 'j.queue = $1 ->> ''queue'''
                WHEN 'kind' THEN 'j.kind = $1 ->> ''kind'''
                WHEN 'priority_from' THEN 'j.priority >= ($1 ->> ''priority_from'')::bigint'
                WHEN 'priority_to' THEN 'j.priority <= ($1 ->> ''priority_to'')::bigint'
                WHEN 'other_priority' THEN 'j.priority <> ($1 ->> ''other_priority'')::bigint'
                WHEN 'attempts_from' THEN 'j.attempt >= ($1 ->> ''attempts_from'')::bigint'
                WHEN 'attempts_to' THEN 'j.attempt <= ($1 ->> ''attempts_to'')::bigint'
                WHEN 'generation_from' THEN 'j.generation >= ($1 ->> ''generation_from'')::bigint'
                WHEN 'generation_to' THEN 'j.generation <= ($1 ->> ''generation_to'')::bigint'
                WHEN 'older_than_ms' THEN
                    'j.enqueued_at < statement_timestamp() - ($1 ->> ''older_than_ms'')::bigint * interval ''1 millisecond'''
                WHEN 'newer_than_ms' THEN
                    'j.enqueued_at >= statement_timestamp() - ($1 ->> ''newer_than_ms'')::bigint * interval ''1 millisecond'''
                WHEN 'unique' THEN 'j.unique_key = $1 ->> ''unique'''
            END
        END;
    END LOOP;
    -- CASE keeps the server from parsing the payloads of other jobs.
    RETURN conditions || CASE WHEN filter ? 'payload' THEN E'\n    AND CASE WHEN ' || conditions
        || ' THEN redrive.readable_payload(j.payload) @@ ($1 ->> ''payload'')::jsonpath END' ELSE '' END;
END
$$;

-- Lists live jobs in the order of their ids. `after` is the last id of the previous page.
CREATE OR REPLACE FUNCTION redrive.list_jobs(filter jsonb, after bigint DEFAULT NULL, max_jobs bigint DEFAULT 50)
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
CREATE OR REPLACE FUNCTION redrive.count_jobs(filter jsonb, priority integer DEFAULT NULL)
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
