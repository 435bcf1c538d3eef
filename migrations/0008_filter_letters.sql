-- Purpose: one filter for everything that is done with letters: what you list is what you act on.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: yes.
-- breaking: no

-- The condition on `redrive.dead_letters l` that a filter means. The filter is a JSON object, and
-- it is `$1` of the statement that the condition goes into: the text is made of constants, of
-- words that were checked, and of numbers, never of what the caller wrote.
--
-- Keys, each of which narrows it: `ids` [id], `id_from`, `id_to`, `queue`, `kind`, `class`,
-- `group` (an id or several), `reason`, `state` (a word or several), `died_from`, `died_to`
-- (moments), `older_than_ms`, `newer_than_ms` (since the death), `generation_from`,
-- `generation_to`, `payload` (a jsonpath predicate), `message` (a part of it, in any case),
-- `version`, `host`, `source`, `run`.
CREATE FUNCTION redrive.filter_letters(filter jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key        text;
    value      jsonb;
    given      text;
    condition  text;
    words      text[];
    conditions text := 'true';
BEGIN
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        RAISE EXCEPTION 'redrive: a filter is a JSON object; {} means all'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR key, value IN SELECT * FROM jsonb_each(filter) LOOP
        given := jsonb_typeof(value);
        CONTINUE WHEN given = 'null';
        IF given <> 'array' THEN
            words := ARRAY[value #>> '{}'];
        ELSE
            words := ARRAY(SELECT jsonb_array_elements_text(value));
        END IF;
        condition := CASE key
            WHEN 'ids' THEN 'l.id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
            WHEN 'group' THEN 'l.group_id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
            WHEN 'class' THEN 'l.group_id = ANY (' || quote_literal(ARRAY(
                SELECT g.id FROM redrive.groups g WHERE g.error_class = ANY (words))) || '::bigint[])'
            WHEN 'state' THEN 'l.state IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
            WHEN 'reason' THEN 'l.reason IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
            WHEN 'queue' THEN 'l.queue = $1 ->> ''queue'''
            WHEN 'kind' THEN 'l.kind = $1 ->> ''kind'''
            WHEN 'id_from' THEN 'l.id >= ($1 ->> ''id_from'')::bigint'
            WHEN 'id_to' THEN 'l.id <= ($1 ->> ''id_to'')::bigint'
            WHEN 'died_from' THEN 'l.died_at >= ($1 ->> ''died_from'')::timestamptz'
            WHEN 'died_to' THEN 'l.died_at < ($1 ->> ''died_to'')::timestamptz'
            WHEN 'older_than_ms' THEN
                'l.died_at < statement_timestamp() - ($1 ->> ''older_than_ms'')::bigint * interval ''1 millisecond'''
            WHEN 'newer_than_ms' THEN
                'l.died_at >= statement_timestamp() - ($1 ->> ''newer_than_ms'')::bigint * interval ''1 millisecond'''
            WHEN 'generation_from' THEN 'l.generation >= ($1 ->> ''generation_from'')::integer'
            WHEN 'generation_to' THEN 'l.generation <= ($1 ->> ''generation_to'')::integer'
            WHEN 'payload' THEN 'l.payload @@ ($1 ->> ''payload'')::jsonpath'
            WHEN 'message' THEN 'position(lower($1 ->> ''message'') IN lower(l.error_message)) > 0'
            WHEN 'version' THEN 'l.version = $1 ->> ''version'''
            WHEN 'host' THEN 'l.host = $1 ->> ''host'''
            WHEN 'source' THEN 'l.source = $1 ->> ''source'''
            WHEN 'run' THEN 'l.run_id = ($1 ->> ''run'')::bigint'
        END;
        IF condition IS NULL AND key IN ('state', 'reason') THEN
            RAISE EXCEPTION 'redrive: the filter key % has no value', key USING ERRCODE = 'invalid_parameter_value';
        ELSIF condition IS NULL THEN
            RAISE EXCEPTION 'redrive: % is not a key of a filter', key
                USING ERRCODE = 'invalid_parameter_value',
                HINT = 'There are ids, id_from, id_to, queue, kind, class, group, reason, state, died_from,'
                       ' died_to, older_than_ms, newer_than_ms, generation_from, generation_to, payload,'
                       ' message, version, host, source, run.';
        ELSIF given = 'array' AND key NOT IN ('ids', 'group', 'class', 'state', 'reason') THEN
            RAISE EXCEPTION 'redrive: the filter key % takes one value', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        conditions := conditions || E'\n    AND ' || condition;
    END LOOP;
    RETURN conditions;
END
$$;

-- Lists letters, the newest death first; `after` is the last id of the page before.
CREATE FUNCTION redrive.list_letters(filter jsonb, after bigint DEFAULT NULL, most bigint DEFAULT 50)
    RETURNS SETOF redrive.letters
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT v.* FROM ('
        ' SELECT l.id, l.died_at FROM redrive.dead_letters l'
        ' WHERE ($2 IS NULL OR (l.died_at, l.id) <'
        '   (SELECT b.died_at, b.id FROM redrive.dead_letters b WHERE b.id = $2))'
        '    AND ' || redrive.filter_letters(filter) ||
        ' ORDER BY l.died_at DESC, l.id DESC LIMIT $3) page'
        ' JOIN redrive.letters v ON v.id = page.id ORDER BY page.died_at DESC, page.id DESC'
        USING filter, after, most;
END
$$;

-- Counts the letters that a filter means, and those of them that a redrive would send back.
CREATE FUNCTION redrive.count_letters(filter jsonb, OUT letters bigint, OUT redrivable bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE 'SELECT count(*), count(*) FILTER (WHERE l.state = ''open'' AND l.payload IS NOT NULL)'
            ' FROM redrive.dead_letters l WHERE ' || redrive.filter_letters(filter)
        INTO letters, redrivable USING filter;
END
$$;

-- Locks up to `most` letters in one of the states that a filter means, the oldest death first, and
-- answers their ids. Letters that somebody else has locked are left out: they are being acted on.
-- Only letters that had died by `as_of`, so that one that dies again is not taken again; and only
-- letters with JSON when they are to be jobs: a job needs it.
CREATE FUNCTION redrive.lock_letters(
    filter jsonb, states text[], as_of timestamptz, most bigint, needs_json boolean DEFAULT false
) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id FROM redrive.dead_letters l WHERE l.state IN ('
        || (SELECT string_agg(quote_literal(s), ', ') FROM unnest(states) s)
        || ') AND l.died_at <= $2 AND (NOT $4 OR l.payload IS NOT NULL) AND ' || redrive.filter_letters(filter) ||
        ' ORDER BY l.died_at, l.id LIMIT $3 FOR UPDATE SKIP LOCKED'
        USING filter, as_of, most, needs_json;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
