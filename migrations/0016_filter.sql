-- Purpose: One filter for everything that acts on letters: a listing and an action select the same letters.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Returns the SQL condition on `redrive.dead_letters l` for a filter. The filter is a JSON object and
-- `$1` of the statement that contains the condition. The text consists of constants, checked words and
-- numbers, never of text from the caller.
--
-- Each key narrows the selection: `ids` [id], `id_from`, `id_to`, `queue`, `kind`, `class`, `group` (one
-- id or several), `cause`, `state` (one word or several), `died_from`, `died_to` (timestamps),
-- `older_than_ms`, `newer_than_ms` (since the death), `generation_from`, `generation_to`, `payload` (a
-- jsonpath predicate), `message` (a substring, ignoring case), `version`, `host`, `source`, `run`,
-- `audit` (the id of an audit record: the letters that its operation was the last to discard, reopen or edit).
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
    operation  bigint;
    conditions text := 'true';
BEGIN
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        RAISE EXCEPTION 'redrive: a filter must be a JSON object; {} matches every letter'
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
        -- A separate statement, because only operators may read the audit.
        IF key = 'audit' THEN
            operation := (
                SELECT coalesce((a.about ->> 'batch_of')::bigint, a.id)
                FROM redrive.audit a WHERE a.id = (value #>> '{}')::bigint);
        END IF;
        condition := CASE key
            WHEN 'ids' THEN 'l.id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
            WHEN 'group' THEN 'l.group_id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
            WHEN 'class' THEN 'l.group_id = ANY (' || quote_literal(ARRAY(
                SELECT g.id FROM redrive.groups g WHERE g.error_class = ANY (words))) || '::bigint[])'
            WHEN 'state' THEN 'l.state IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
            WHEN 'cause' THEN 'l.cause IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
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
            WHEN 'payload' THEN 'redrive.readable_payload(l.payload) @@ ($1 ->> ''payload'')::jsonpath'
            WHEN 'message' THEN 'position(lower($1 ->> ''message'') IN lower(l.error_message)) > 0'
            WHEN 'version' THEN 'l.version = $1 ->> ''version'''
            WHEN 'host' THEN 'l.host = $1 ->> ''host'''
            WHEN 'source' THEN 'l.source = $1 ->> ''source'''
            WHEN 'run' THEN 'l.run_id = ($1 ->> ''run'')::bigint'
            WHEN 'audit' THEN coalesce('l.audit_id = ' || operation, 'false')
        END;
        IF condition IS NULL AND key IN ('state', 'cause') THEN
            RAISE EXCEPTION 'redrive: the filter key % has no value', key USING ERRCODE = 'invalid_parameter_value';
        ELSIF condition IS NULL THEN
            RAISE EXCEPTION 'redrive: unknown filter key %', key
                USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Expected one of ids, id_from, id_to, queue, kind, class, group, cause, state, died_from,'
                       ' died_to, older_than_ms, newer_than_ms, generation_from, generation_to, payload,'
                       ' message, version, host, source, run, audit.';
        ELSIF given = 'array' AND key NOT IN ('ids', 'group', 'class', 'state', 'cause') THEN
            RAISE EXCEPTION 'redrive: the filter key % takes one value', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        conditions := conditions || E'\n    AND ' || condition;
    END LOOP;
    RETURN conditions;
END
$$;

-- Returns the values of a filter key, which holds one value or a list; NULL: none.
CREATE FUNCTION redrive.filter_values(value jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE coalesce(jsonb_typeof(value), 'null')
        WHEN 'null' THEN NULL
        WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(value))
        ELSE ARRAY[value #>> '{}']
    END
$$;

-- Returns the ids of the groups that a filter selects by id or error class; NULL: it selects none.
CREATE FUNCTION redrive.filter_group_ids(filter jsonb) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ids bigint[] := redrive.filter_values(filter -> 'group')::bigint[];
    classes text[] := redrive.filter_values(filter -> 'class');
BEGIN
    IF classes IS NULL THEN
        RETURN ids;
    END IF;
    RETURN ARRAY(
        SELECT g.id FROM redrive.groups g
        WHERE g.error_class = ANY (classes) AND (ids IS NULL OR g.id = ANY (ids))
            AND g.queue = coalesce(filter ->> 'queue', g.queue) AND g.kind = coalesce(filter ->> 'kind', g.kind));
END
$$;

-- Lists letters, newest death first. `after` is the last id of the previous page.
--
-- Letters of given groups are read group by group, each from its newest death. In one order over all
-- groups, the deaths of a rare group are far apart, and the planner cannot know how far. Redriving
-- letters have a separate index and are read beside the others if the filter includes them.
CREATE FUNCTION redrive.list_letters(filter jsonb, after bigint DEFAULT NULL, max_letters bigint DEFAULT 50)
    RETURNS SETOF redrive.letters
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
    -- Read the page in index order, regardless of the planner's estimates.
    SET enable_bitmapscan = off
AS $$
DECLARE
    conditions text := redrive.filter_letters(filter);
    groups bigint[] := redrive.filter_group_ids(filter);
    states text[] := coalesce(
        redrive.filter_values(filter -> 'state'), '{open,redriving,recovered,discarded,quarantined}');
    matching text :=
        'SELECT l.id, l.died_at FROM redrive.dead_letters l'
        ' WHERE ($2 IS NULL OR (l.died_at, l.id) <'
        '   (SELECT b.died_at, b.id FROM redrive.dead_letters b WHERE b.id = $2))'
        '    AND ' || conditions;
    in_order CONSTANT text := ' ORDER BY l.died_at DESC, l.id DESC LIMIT $3';
    page text := matching || ' AND l.state <> ''redriving''' || in_order;
    on_their_way text := matching || ' AND l.state = ''redriving''' || in_order;
BEGIN
    IF groups IS NOT NULL THEN
        -- Read each group and state in index order.
        page := 'SELECT w.id, w.died_at FROM unnest($4) AS g (id) CROSS JOIN unnest($5) AS s (state) CROSS JOIN LATERAL ('
            || matching || ' AND l.group_id = g.id AND l.state = s.state AND l.state <> ''redriving'''
            || ' ORDER BY l.group_id, l.state, l.died_at DESC, l.id DESC LIMIT $3) w'
            || ' ORDER BY w.died_at DESC, w.id DESC LIMIT $3';
    END IF;
    page := CASE
        WHEN 'redriving' <> ALL (states) THEN page
        WHEN 'redriving' = ALL (states) THEN on_their_way
        ELSE 'SELECT l.id, l.died_at FROM ((' || page || ') UNION ALL (' || on_their_way || ')) l' || in_order
    END;
    RETURN QUERY EXECUTE
        'SELECT v.* FROM (' || page || ') page'
        ' JOIN redrive.letters v ON v.id = page.id ORDER BY page.died_at DESC, page.id DESC'
        USING filter, after, max_letters, groups, states;
END
$$;

-- Counts the letters that match a filter, and how many of them can be redriven. If the filter only uses
-- properties that all letters of a group share, the exact group totals answer; otherwise it counts rows.
CREATE FUNCTION redrive.count_letters(filter jsonb, OUT letters bigint, OUT redrivable bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
DECLARE
    conditions text := redrive.filter_letters(filter);
    states text[] := redrive.filter_values(filter -> 'state');
    groups bigint[] := redrive.filter_group_ids(filter);
    not_redrivable bigint;
BEGIN
    IF states <@ '{open,quarantined}' AND filter - '{queue,kind,class,group,state}'::text[] = '{}' THEN
        SELECT coalesce(sum(CASE WHEN 'open' = ANY (states) THEN f.open ELSE 0 END
                            + CASE WHEN 'quarantined' = ANY (states) THEN f.quarantined ELSE 0 END), 0),
               coalesce(sum(CASE WHEN 'open' = ANY (states) THEN f.open ELSE 0 END), 0)
        INTO letters, redrivable
        FROM redrive.failure_groups f
        WHERE (groups IS NULL OR f.id = ANY (groups))
            AND f.queue = coalesce(filter ->> 'queue', f.queue) AND f.kind = coalesce(filter ->> 'kind', f.kind);
        IF redrivable > 0 THEN
            EXECUTE 'SELECT count(*) FROM redrive.dead_letters l'
                    ' WHERE l.state = ''open'' AND (l.payload IS NULL OR l.redacted IS NOT NULL) AND ' || conditions
                INTO not_redrivable USING filter;
            redrivable := redrivable - not_redrivable;
        END IF;
        RETURN;
    END IF;
    EXECUTE 'SELECT count(*), count(*) FILTER ('
            '  WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.redacted IS NULL)'
            ' FROM redrive.dead_letters l WHERE ' || conditions
        INTO letters, redrivable USING filter;
END
$$;

-- Counts the letters that match a filter by a property: `group`, `queue`, `kind`, `class`, `cause`, `state`,
-- `version`, `host`, `source`, or `payload`, where `path` is the place of the value. NULL counts the letters
-- without a value.
CREATE FUNCTION redrive.count_letters_by(
    filter jsonb, property text, path text[] DEFAULT NULL, max_values bigint DEFAULT 10000
) RETURNS TABLE (value text, letters bigint, first_at timestamptz, last_at timestamptz)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
DECLARE
    expression text := CASE property
        WHEN 'group' THEN 'l.group_id'
        WHEN 'queue' THEN 'l.queue'
        WHEN 'kind' THEN 'l.kind'
        WHEN 'class' THEN 'l.error_class'
        WHEN 'cause' THEN 'l.cause'
        WHEN 'state' THEN 'l.state'
        WHEN 'version' THEN 'l.version'
        WHEN 'host' THEN 'l.host'
        WHEN 'source' THEN 'l.source'
        WHEN 'payload' THEN 'redrive.readable_payload(l.payload) #>> $2'
    END;
BEGIN
    IF expression IS NULL THEN
        RAISE EXCEPTION 'redrive: unknown property % of a letter', coalesce(quote_literal(property), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Expected one of group, queue, kind, class, cause, state, version, host, source, payload.';
    END IF;
    RETURN QUERY EXECUTE
        'SELECT (' || expression || ')::text, count(*), min(l.died_at), max(l.died_at) FROM redrive.dead_letters l WHERE '
        || redrive.filter_letters(filter) || ' GROUP BY 1 ORDER BY 2 DESC, 4 DESC, 1 LIMIT $3'
        USING filter, path, max_values;
END
$$;

-- Locks up to `max_letters` matching letters in the given states, oldest death first, and returns their ids.
-- Letters locked by another session are skipped. Only letters that died by `as_of` match, so that a
-- letter that dies again is not taken twice. `needs_json` skips letters that cannot become jobs, and
-- `needs_original` those whose payload was redacted.
CREATE FUNCTION redrive.lock_letters(
    filter jsonb, states text[], as_of timestamptz, max_letters bigint, needs_json boolean DEFAULT false,
    needs_original boolean DEFAULT false
) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    -- Read up to `max_letters` in index order. On a table without statistics the planner would rather read
    -- and sort all of it, or all of a queue.
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id FROM redrive.dead_letters l WHERE l.state IN ('
        || (SELECT string_agg(quote_literal(s), ', ') FROM unnest(states) s)
        || ') AND l.died_at <= $2 AND (NOT $4 OR l.payload IS NOT NULL) AND (NOT $5 OR l.redacted IS NULL)'
        ' AND ' || redrive.filter_letters(filter) || ' ORDER BY l.died_at, l.id LIMIT $3 FOR UPDATE SKIP LOCKED'
        USING filter, as_of, max_letters, needs_json, needs_original;
END
$$;

-- Returns one page of the ids of matching letters, in their order, after a given id. Unlike the time of
-- death an id never changes, so no letter is missed or met twice while others are redriven or pruned.
CREATE FUNCTION redrive.page_letters(filter jsonb, after bigint, max_letters bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id FROM redrive.dead_letters l WHERE l.id > $2 AND ' || redrive.filter_letters(filter)
        || ' ORDER BY l.id LIMIT $3'
        USING filter, after, max_letters;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
