-- Purpose: One filter for everything that acts on letters: a listing and an action select the same letters.

-- Returns the SQL condition on `redrive.dead_letters l` for a filter. The filter is a JSON object and
-- `$1` of the statement that contains the condition. The text consists of constants, checked words and
-- numbers, never of text from the caller.
--
-- Each key narrows the selection: `ids` [id], `id_from`, `id_to`, `queue`, `kind`, `class`, `group` (one
-- id or several), `cause`, `state` (one word or several), `died_from`, `died_to` (timestamps),
-- `older_than_ms`, `newer_than_ms` (since the death), `generation_from`, `generation_to`, `payload` (a
-- jsonpath predicate, which no unreadable payload meets), `message` (a substring, ignoring case), `version`, `host`,
-- `source`, `run`, `audit` (the id of an audit record: the letters that its operation was the last to discard, reopen or
-- edit). Only `group` reads the failure group of a letter; its queue, kind and class are those of its last death.
CREATE OR REPLACE FUNCTION redrive.filter_letters(filter jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key        text;
    words      text[];
    operation  bigint;
    conditions text := 'true';
BEGIN
    PERFORM redrive.check_filter(filter, 'letter', '{ids integers,id_from integer,id_to integer,queue text,kind text,'
        'class texts,group integers,cause texts,state texts,died_from time,died_to time,older_than_ms duration,'
        'newer_than_ms duration,generation_from integer,generation_to integer,payload path,message text,version text,'
        'host text,source text,run integer,audit integer}');
    FOR key IN SELECT jsonb_object_keys(filter) LOOP
        words := redrive.filter_values(filter -> key);
        -- A separate statement, because only operators may read the audit.
        IF key = 'audit' THEN
            operation := (
                SELECT coalesce((a.about ->> 'batch_of')::bigint, a.id)
                FROM redrive.audit a WHERE a.id = (filter_letters.filter ->> 'audit')::bigint);
        END IF;
        conditions := conditions || E'\n    AND ' || CASE
            WHEN words = '{}' THEN 'false'
            ELSE CASE key
                WHEN 'ids' THEN 'l.id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
                WHEN 'group' THEN 'l.group_id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
                WHEN 'class' THEN 'l.error_class = ANY (' || quote_literal(words) || '::text[])'
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
                WHEN 'generation_from' THEN 'l.generation >= ($1 ->> ''generation_from'')::bigint'
                WHEN 'generation_to' THEN 'l.generation <= ($1 ->> ''generation_to'')::bigint'
                WHEN 'payload' THEN 'redrive.readable_payload(l.payload) @@ ($1 ->> ''payload'')::jsonpath'
                WHEN 'message' THEN 'position(lower($1 ->> ''message'') IN lower(l.error_message)) > 0'
                WHEN 'version' THEN 'l.version = $1 ->> ''version'''
                WHEN 'host' THEN 'l.host = $1 ->> ''host'''
                WHEN 'source' THEN 'l.source = $1 ->> ''source'''
                WHEN 'run' THEN 'l.run_id = ($1 ->> ''run'')::bigint'
                WHEN 'audit' THEN coalesce('l.audit_id = ' || operation, 'false')
            END
        END;
    END LOOP;
    RETURN conditions;
END
$$;

-- Lists letters, newest death first. `after` is the last id of the previous page.
--
-- Letters of given groups or classes are read one group or class after the other, each from its newest death. In one
-- order over all of them, the deaths of a rare one are far apart, and the planner cannot know how far. Redriving
-- letters have a separate index and are read beside the others if the filter includes them.
CREATE OR REPLACE FUNCTION redrive.list_letters(filter jsonb, after bigint DEFAULT NULL, max_letters bigint DEFAULT 50)
    RETURNS SETOF redrive.letters
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
    -- Read the page in index order, regardless of the planner's estimates.
    SET enable_bitmapscan = off
AS $$
DECLARE
    conditions text := redrive.filter_letters(filter);
    part text := CASE WHEN filter ? 'group' THEN 'group' WHEN filter ? 'class' THEN 'class' END;
    part_column text := CASE part WHEN 'group' THEN 'group_id' ELSE 'error_class' END;
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
    IF part IS NOT NULL THEN
        -- Read each group or class and state in index order.
        page := format('SELECT w.id, w.died_at FROM (SELECT DISTINCT unnest($4::%s[])) AS g (part)'
            ' CROSS JOIN (SELECT DISTINCT unnest($5)) AS s (state) CROSS JOIN LATERAL ('
            '%s AND l.%I = g.part AND l.state = s.state AND l.state <> ''redriving'''
            ' ORDER BY l.%3$I, l.state, l.died_at DESC, l.id DESC LIMIT $3) w'
            ' ORDER BY w.died_at DESC, w.id DESC LIMIT $3',
            CASE part WHEN 'group' THEN 'bigint' ELSE 'text' END, matching, part_column);
    END IF;
    page := CASE
        WHEN 'redriving' <> ALL (states) THEN page
        WHEN 'redriving' = ALL (states) THEN on_their_way
        ELSE 'SELECT l.id, l.died_at FROM ((' || page || ') UNION ALL (' || on_their_way || ')) l' || in_order
    END;
    RETURN QUERY EXECUTE
        'SELECT v.* FROM (' || page || ') page'
        ' JOIN redrive.letters v ON v.id = page.id ORDER BY page.died_at DESC, page.id DESC'
        USING filter, after, max_letters, redrive.filter_values(filter -> part), states;
END
$$;

-- Counts the letters that match a filter, and how many of them can be redriven. The exact group totals answer for groups
-- and states; otherwise it counts rows.
CREATE OR REPLACE FUNCTION redrive.count_letters(filter jsonb, OUT letters bigint, OUT redrivable bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
DECLARE
    conditions text := redrive.filter_letters(filter);
    states text[] := redrive.filter_values(filter -> 'state');
    groups bigint[] := redrive.filter_values(filter -> 'group')::bigint[];
    not_redrivable bigint;
BEGIN
    IF states <@ '{open,quarantined}' AND filter - '{group,state}'::text[] = '{}' THEN
        SELECT coalesce(sum(CASE WHEN 'open' = ANY (states) THEN f.open ELSE 0 END
                            + CASE WHEN 'quarantined' = ANY (states) THEN f.quarantined ELSE 0 END), 0),
               coalesce(sum(CASE WHEN 'open' = ANY (states) THEN f.open ELSE 0 END), 0)
        INTO letters, redrivable
        FROM redrive.failure_groups f
        WHERE groups IS NULL OR f.id = ANY (groups);
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
CREATE OR REPLACE FUNCTION redrive.count_letters_by(
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
-- Letters locked by another session, or claimed by a consumer of `dlq_events`, are skipped. Only letters that died by
-- `as_of` match, so that a letter that dies again is not taken twice, and only after the letter with the death
-- `after_death` and the id `after_id`. `needs_json` skips letters that cannot become jobs, and
-- `needs_original` those whose payload was redacted.
CREATE OR REPLACE FUNCTION redrive.lock_letters(
    filter jsonb, states text[], as_of timestamptz, max_letters bigint, needs_json boolean DEFAULT false,
    needs_original boolean DEFAULT false, after_death timestamptz DEFAULT NULL, after_id bigint DEFAULT NULL
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
        || ') AND l.died_at <= $2 AND (l.claimed_until IS NULL OR l.claimed_until <= statement_timestamp())'
           ' AND (NOT $4 OR l.payload IS NOT NULL) AND (NOT $5 OR l.redacted IS NULL)'
        || CASE WHEN after_death IS NULL THEN '' ELSE ' AND (l.died_at, l.id) > ($6, $7)' END ||
        ' AND ' || redrive.filter_letters(filter) || ' ORDER BY l.died_at, l.id LIMIT $3 FOR UPDATE SKIP LOCKED'
        USING filter, as_of, max_letters, needs_json, needs_original, after_death, after_id;
END
$$;

-- Returns one page of the ids of matching letters, in their order, after a given id. Unlike the time of
-- death an id never changes, so no letter is missed or met twice while others are redriven or pruned.
CREATE OR REPLACE FUNCTION redrive.page_letters(filter jsonb, after bigint, max_letters bigint) RETURNS SETOF bigint
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
