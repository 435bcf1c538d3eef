-- Purpose: Lists, counts and locks of letters by filter.

-- Lists letters, newest death first, or oldest death first. `after` is the last id of the previous page; without that letter, there is no next
-- page. Redriving letters have a separate index and are read beside the others. `archived` lists those of the archive
-- instead, in the order of their ids.
-- Index: dead_letters_for_list, the primary key, or an index that fits the filter.
CREATE OR REPLACE FUNCTION redrive.list_letters(
    filter jsonb, after bigint DEFAULT NULL, max_letters bigint DEFAULT 50, archived boolean DEFAULT false,
    oldest boolean DEFAULT false
) RETURNS SETOF redrive.stored_letters
    LANGUAGE plpgsql STABLE
    -- Read the page in index order, regardless of the planner's estimates.
    SET enable_bitmapscan = off
AS $$
DECLARE
    conditions CONSTANT text := redrive.filter_letters(filter);
    way        CONSTANT text := CASE WHEN oldest THEN 'ASC' ELSE 'DESC' END;
    in_order   CONSTANT text := format(' ORDER BY l.died_at %1$s, l.id %1$s LIMIT $3', way);
    states     CONSTANT text[] := redrive.filter_values(filter -> 'state');
    page       CONSTANT text := (
        SELECT string_agg(
            '(SELECT l.id, l.died_at FROM redrive.dead_letters l WHERE l.state ' || s.comparison || ' ''redriving'' AND ('
            '$2 IS NULL OR (l.died_at, l.id) ' || CASE WHEN oldest THEN '>' ELSE '<' END || ' (SELECT b.died_at, b.id FROM redrive.dead_letters b WHERE b.id = $2)) AND '
            || conditions || in_order || ')', ' UNION ALL ')
        FROM (VALUES ('<>'), ('=')) AS s (comparison)
        -- The planner would read all of them to find none in the states of the filter.
        WHERE CASE s.comparison WHEN '=' THEN 'redriving' = ANY (states) ELSE states <> '{redriving}' END IS NOT FALSE);
BEGIN
    IF archived THEN
        RETURN QUERY EXECUTE
            'SELECT l.* FROM redrive.stored_letters l WHERE l.is_archived'
            ' AND ($2 IS NULL OR l.id > $2) AND ' || conditions || ' ORDER BY l.id LIMIT $3'
            USING filter, after, max_letters;
        RETURN;
    END IF;
    IF after IS NOT NULL AND NOT EXISTS (SELECT FROM redrive.dead_letters b WHERE b.id = list_letters.after) THEN
        RAISE EXCEPTION 'redrive: letter % is gone, so there is no page after it', after
            USING ERRCODE = 'invalid_parameter_value', HINT = 'List from the start again.';
    END IF;
    RETURN QUERY EXECUTE
        'SELECT d.* FROM (SELECT l.* FROM (' || page || ') l' || in_order || ') page'
        || format(' JOIN redrive.letters d ON d.id = page.id ORDER BY page.died_at %1$s, page.id %1$s', way)
        USING filter, after, max_letters;
END
$$;

-- Counts the letters, or those of the archive, that match a filter.
-- Index: an index that fits the filter; the count reads every matching letter.
CREATE OR REPLACE FUNCTION redrive.count_letters(filter jsonb, archived boolean DEFAULT false) RETURNS bigint
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    letters bigint;
BEGIN
    EXECUTE 'SELECT count(*) FROM redrive.' || CASE WHEN archived THEN 'archived_letters' ELSE 'dead_letters' END
        || ' l WHERE ' || redrive.filter_letters(filter)
        INTO letters USING filter;
    RETURN letters;
END
$$;

-- Returns a value of a payload as conditions name it. Equal numbers have one text, and a text that looks like another type
-- is in quotes.
CREATE OR REPLACE FUNCTION redrive.payload_value(value jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE jsonb_typeof(value)
        WHEN 'number' THEN trim_scale(value::numeric)::text
        WHEN 'string' THEN CASE
            WHEN value #>> '{}' ~ '^(null|true|false|-?[0-9][0-9.]*([eE][-+]?[0-9]+)?|["{[].*|)$' THEN value::text
            ELSE value #>> '{}'
        END
        ELSE value::text
    END;

-- Counts the letters that match a filter by a property: a key of filters that takes words or numbers, such as `class`, or
-- `payload`, where `path` is the place of the value, as a jsonpath. NULL counts the letters without a value. At most 10,000 values.
-- Index: an index that fits the filter; the count reads every matching letter.
CREATE OR REPLACE FUNCTION redrive.count_letters_by(filter jsonb, property text, path text DEFAULT '$')
    RETURNS TABLE (value text, letters bigint, first_at timestamptz, last_at timestamptz)
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    expression text := (
        SELECT CASE k.takes
            WHEN 'path' THEN format('redrive.payload_value(jsonb_path_query_first(redrive.readable_payload(%s), $2::jsonpath, ''{}'', true))', k.compared)
            ELSE k.compared END
        FROM redrive.filter_keys('letters') k
        WHERE k.key = property AND k.takes IN ('text', 'texts', 'words', 'integers', 'path'));
BEGIN
    IF expression IS NULL THEN
        RAISE EXCEPTION 'redrive: unknown property % of a letter', coalesce(quote_literal(property), 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Expected one of ' || (
                SELECT string_agg(k.key, ', ') FROM redrive.filter_keys('letters') k
                WHERE k.takes IN ('text', 'texts', 'words', 'integers', 'path')) || '.';
    END IF;
    RETURN QUERY EXECUTE
        'SELECT (' || expression || ')::text, count(*), min(l.died_at), max(l.died_at) FROM redrive.dead_letters l WHERE '
        || redrive.filter_letters(filter) || ' GROUP BY 1 ORDER BY 2 DESC, 4 DESC, 1 LIMIT 10000'
        USING filter, path;
END
$$;

-- Locks up to `max_letters` matching letters in the given states, oldest death first, and returns their ids.
-- Letters locked by another session, or claimed by a consumer of `dlq_events`, are skipped. Only letters that died by
-- `as_of` (NULL: now) match, so that a letter that dies again is not taken twice.
CREATE OR REPLACE FUNCTION redrive.lock_letters(filter jsonb, states text[], as_of timestamptz, max_letters bigint)
RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE
    -- Read up to `max_letters` in index order. On a table without statistics the planner would rather read
    -- and sort all of it, or all of a queue.
    SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id FROM redrive.dead_letters l WHERE l.state IN ('
        || (SELECT string_agg(quote_literal(s), ', ') FROM unnest(states) s)
        || ') AND l.died_at <= coalesce($2, statement_timestamp())'
           ' AND (l.claimed_until IS NULL OR l.claimed_until <= statement_timestamp()) AND ' || redrive.filter_letters(filter) || ' ORDER BY l.died_at, l.id LIMIT $3 FOR UPDATE SKIP LOCKED'
        USING filter, as_of, redrive.limit_of('max_letters', max_letters);
END
$$;

-- Locks these letters, in the order of their ids, so that two operators cannot deadlock, and returns the ids. It waits for
-- other sessions, and leaves out what one holds for longer, such as a consumer of `dlq_events`.
CREATE OR REPLACE FUNCTION redrive.hold_letters(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '3s'
AS $$
BEGIN
    RETURN ARRAY(
        SELECT l.id FROM (SELECT u.id FROM unnest(hold_letters.ids) AS u (id) ORDER BY u.id) a
        CROSS JOIN LATERAL (SELECT d.id FROM redrive.dead_letters d WHERE d.id = a.id FOR UPDATE) l);
EXCEPTION WHEN lock_not_available THEN
    RETURN ARRAY(
        SELECT l.id FROM redrive.dead_letters l WHERE l.id = ANY (hold_letters.ids) ORDER BY l.id FOR UPDATE SKIP LOCKED);
END
$$;

-- Returns one page of the ids of matching letters, or those of the archive, in their order, after a given id; NULL: the
-- first page. Unlike the time of death an id never changes, so no letter is missed or met twice while others are redriven
-- or pruned. The page ends after 4 MiB, because its reader holds the letters in memory.
CREATE OR REPLACE FUNCTION redrive.page_letters(filter jsonb, after bigint, max_letters bigint, archived boolean DEFAULT false)
    RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT p.id FROM ('
        ' SELECT e.id, sum(e.bytes) OVER (ORDER BY e.id) - e.bytes AS before FROM ('
        '  SELECT l.id, 1024 + pg_column_size(l.history) + pg_column_size(l.events) + coalesce(pg_column_size(l.payload), 0)'
        '   + coalesce(pg_column_size(l.raw), 0) + coalesce(pg_column_size(l.error_detail), 0)'
        -- Most of the details, which letters share, are shorter.
        '   + CASE WHEN l.detail_id IS NULL THEN 0 ELSE 16384 END AS bytes'
        '  FROM redrive.' || CASE WHEN archived THEN 'archived_letters' ELSE 'dead_letters' END
        || ' l WHERE l.id > $2 AND ' || redrive.filter_letters(filter)
        || ' ORDER BY l.id LIMIT $3) e) p WHERE p.before < 4194304 ORDER BY p.id'
        USING filter, coalesce(after, 0), max_letters;
END
$$;
