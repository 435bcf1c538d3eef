-- Purpose: Capturing many failures from SQL, and importing exported letters.

-- Captures many foreign failures, as `capture` does for one, given as a JSON array. Each is an object with the
-- members source, position, queue and kind; the bytes as payload (JSON), raw (text) or raw_base64; and optionally
-- content_type, headers, error_class, error_message, error_detail, group_key and failure_key. Returns one row for
-- each, numbered from 1. All are captured or none.
CREATE OR REPLACE FUNCTION redrive.capture_many(failures jsonb)
    RETURNS TABLE (place bigint, id bigint, is_new boolean, is_reopened boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    members CONSTANT text[] := '{source,position,queue,kind,payload,raw,raw_base64,content_type,headers,error_class,'
        'error_message,error_detail,group_key,failure_key}';
BEGIN
    PERFORM redrive.refuse(CASE WHEN jsonb_typeof(capture_many.failures) = 'array' IS NOT TRUE
        THEN 'capture_many needs a JSON array of failures' END);
    PERFORM redrive.refuse((
        SELECT format('failure %s %s; nothing was captured', e.place, c.complaint)
        FROM jsonb_array_elements(capture_many.failures) WITH ORDINALITY AS e (failure, place)
        CROSS JOIN LATERAL (SELECT CASE
            WHEN jsonb_typeof(e.failure) <> 'object' THEN 'is not an object'
            WHEN e.failure - members <> '{}' THEN 'has the unknown member '
                || (SELECT min(k.member) FROM jsonb_object_keys(e.failure - members) AS k (member))
            WHEN e.failure ->> 'source' IS NULL OR e.failure ->> 'position' IS NULL OR e.failure ->> 'queue' IS NULL
                OR e.failure ->> 'kind' IS NULL THEN 'needs a source, a position, a queue and a kind'
            WHEN (e.failure ? 'payload')::integer + (e.failure ? 'raw')::integer + (e.failure ? 'raw_base64')::integer <> 1
                THEN 'needs exactly one of payload, raw and raw_base64'
            END) AS c (complaint)
        WHERE c.complaint IS NOT NULL
        ORDER BY e.place
        LIMIT 1));
    RETURN QUERY
    SELECT c.place, c.id, c.is_new, c.is_reopened
    FROM redrive.capture_letters(
        ARRAY(
            SELECT e.failure FROM jsonb_array_elements(capture_many.failures) WITH ORDINALITY AS e (failure, place)
            ORDER BY e.place),
        ARRAY(
            SELECT coalesce(convert_to(e.failure ->> 'raw', 'UTF8'), decode(e.failure ->> 'raw_base64', 'base64'),
                            convert_to((e.failure -> 'payload')::text, 'UTF8'))
            FROM jsonb_array_elements(capture_many.failures) WITH ORDINALITY AS e (failure, place)
            ORDER BY e.place)) c
    ORDER BY c.place;
END
$$;

-- Returns the row of an exported letter. `letter` holds the columns that are no members of a captured failure.
CREATE OR REPLACE FUNCTION redrive.imported(failure jsonb, bytes bytea) RETURNS redrive.dead_letters
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    stored jsonb := '{"state": "open", "cause": "captured", "seen": 1, "priority": 0, "attempts": 0, "earlier_attempts": 0,'
        ' "max_attempts": 5, "generation": 0, "crashes": 0, "history": [], "deaths": 1, "alike": 0, "edits": 0,'
        ' "events": [], "failed_redrives": 0, "error_class": "captured", "error_message": ""}'::jsonb
        || jsonb_build_object('enqueued_at', clock_timestamp(), 'died_at', clock_timestamp())
        || coalesce(failure -> 'letter', '{}') || (failure - 'letter');
    letter redrive.dead_letters;
BEGIN
    -- So that neither a sum of two nor the deaths to come exceed a column.
    PERFORM redrive.refuse((
        SELECT format('`%s` of an exported letter is %s; it must be a whole number from %s to %s',
            b.name, stored -> b.name, b.lowest, b.highest)
        FROM (VALUES
            ('attempts', 0, 1000000000), ('earlier_attempts', 0, 1000000000), ('generation', 0, 1000000000),
            ('seen', 1, 1000000000), ('deaths', 1, 1000000000), ('edits', 0, 1000000000), ('crashes', 0, 30000),
            ('alike', 0, 30000), ('failed_redrives', 0, 30000), ('max_attempts', 1, 1000), ('priority', -1000, 1000)
        ) AS b (name, lowest, highest)
        WHERE CASE jsonb_typeof(stored -> b.name)
            WHEN 'number' THEN (stored -> b.name)::numeric NOT BETWEEN b.lowest AND b.highest OR scale((stored -> b.name)::numeric) > 0
            ELSE true END
        LIMIT 1));
    letter := redrive.unarchived(stored);
    PERFORM redrive.refuse(CASE WHEN (isfinite(letter.enqueued_at) AND isfinite(letter.died_at)) IS NOT TRUE
        THEN '`enqueued_at` and `died_at` of an exported letter must be finite times' END);
    letter.id := nextval('redrive.job_id');
    -- A redrive takes letters that died before it.
    letter.died_at := least(letter.died_at, clock_timestamp());
    -- The groups and details of the other database.
    letter.events := (
        SELECT coalesce(jsonb_agg(e.event - '{group,detail}'::text[] ORDER BY e.place), '[]')
        FROM jsonb_array_elements(letter.events) WITH ORDINALITY AS e (event, place));
    letter.source := redrive.shortened(letter.source, 100);
    letter."position" := redrive.shortened(letter."position", 500);
    IF octet_length(bytes) > 16777216 THEN
        letter.raw := substring(bytes FROM 1 FOR 65536);
        letter.headers := redrive.headers_with_long(letter.headers, NULL, NULL, NULL, octet_length(bytes));
        RETURN letter;
    END IF;
    letter.payload := redrive.json_of(bytes);
    IF letter.payload IS NULL OR (failure -> 'letter' ->> 'has_raw')::boolean THEN
        letter.raw := bytes;
    END IF;
    RETURN letter;
END
$$;

-- Captures exported letters: objects as in `capture_many`, without their bytes, which `raws` holds in the same
-- order, and with the member `letter`, whose values a new letter keeps: its history, events, generation, counts, times, cause
-- and redacted pointers; one that was recovered or discarded stays so. A position that is known is captured as
-- `capture_many` does it, but a letter that was closed opens none. A letter that this database still has is known, and does
-- not change. Returns the same rows.
CREATE OR REPLACE FUNCTION redrive.import_letters(failures jsonb[], raws bytea[])
    RETURNS TABLE (place bigint, id bigint, is_new boolean, is_reopened boolean, is_other boolean)
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    event  jsonb := jsonb_build_object('at', clock_timestamp(), 'event', 'imported');
    closed CONSTANT text[] := '{recovered,discarded}';
    places bigint[];
    ids    bigint[];
    own    bigint[];
    owners bigint[];
BEGIN
    -- Before any is added, because a new letter may get the id of the one that it was.
    SELECT coalesce(array_agg(e.place), '{}'), coalesce(array_agg(l.id), '{}') INTO own, owners
    FROM unnest(import_letters.failures) WITH ORDINALITY AS e (failure, place)
    JOIN redrive.dead_letters l
        ON l.id = CASE WHEN e.failure ->> 'position' ~ '^[1-9][0-9]{0,17}$' THEN (e.failure ->> 'position')::bigint END
        -- It never changes, so it tells whether this was the same job.
        AND l.enqueued_at = (e.failure #>> '{letter,enqueued_at}')::timestamptz
    WHERE e.failure ->> 'source' = 'redrive:letter';
    WITH given AS MATERIALIZED (
        SELECT e.place, u AS letter
        FROM unnest(import_letters.failures, import_letters.raws) WITH ORDINALITY AS e (failure, raw, place)
        CROSS JOIN LATERAL redrive.imported(e.failure, e.raw) u
        WHERE e.place <> ALL (own)
    ),
    firsts AS MATERIALIZED (
        SELECT DISTINCT ON ((g.letter).source, (g.letter)."position") g.place, g.letter
        FROM given g
        WHERE NOT EXISTS (
            SELECT FROM redrive.dead_letters k
            WHERE k.source = (g.letter).source AND k."position" = (g.letter)."position")
        ORDER BY (g.letter).source, (g.letter)."position", g.place
    ),
    added AS (
        INSERT INTO redrive.dead_letters AS l
        SELECT u.*
        FROM firsts f
        CROSS JOIN LATERAL redrive.readmitted(f.letter, event, NULL, closed) u
        -- In one order, so that two imports cannot deadlock.
        ORDER BY u.source, u."position"
        ON CONFLICT (source, "position") WHERE source IS NOT NULL DO NOTHING
        RETURNING l.id
    )
    SELECT coalesce(array_agg(f.place), '{}'), coalesce(array_agg(a.id), '{}') INTO places, ids
    FROM added a
    JOIN firsts f ON (f.letter).id = a.id;
    PERFORM redrive.keep_pieces(p.id, raws[p.place])
    FROM unnest(places, ids) AS p (place, id)
    WHERE octet_length(raws[p.place]) > 16777216;
    RETURN QUERY
    SELECT p.place, p.id, true, false, false FROM unnest(places, ids) AS p (place, id)
    UNION ALL
    SELECT o.place, o.id, false, false, false FROM unnest(own, owners) AS o (place, id)
    UNION ALL
    SELECT e.place, l.id, false, false, false
    FROM unnest(import_letters.failures) WITH ORDINALITY AS e (failure, place)
    JOIN redrive.dead_letters l ON l.source = redrive.shortened(e.failure ->> 'source', 100)
        AND l."position" = redrive.shortened(e.failure ->> 'position', 500)
    WHERE e.place <> ALL (places || own) AND e.failure #>> '{letter,state}' = ANY (closed)
    UNION ALL
    SELECT r.places[c.place], c.id, c.is_new, c.is_reopened, false
    FROM (
        SELECT array_agg(e.place ORDER BY e.place) AS places, array_agg(e.failure ORDER BY e.place) AS failures,
               array_agg(e.raw ORDER BY e.place) AS raws
        FROM unnest(import_letters.failures, import_letters.raws) WITH ORDINALITY AS e (failure, raw, place)
        WHERE e.place <> ALL (places || own) AND coalesce(e.failure #>> '{letter,state}' <> ALL (closed), true)
    ) r
    CROSS JOIN LATERAL redrive.capture_letters(r.failures, r.raws) c
    ORDER BY 1;
END
$$;
