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
    FROM (
        SELECT array_agg(e.failure ORDER BY e.place) AS failures,
               array_agg(coalesce(convert_to(e.failure ->> 'raw', 'UTF8'), decode(e.failure ->> 'raw_base64', 'base64'),
                                  convert_to((e.failure -> 'payload')::text, 'UTF8')) ORDER BY e.place) AS raws
        FROM jsonb_array_elements(capture_many.failures) WITH ORDINALITY AS e (failure, place)
    ) f
    CROSS JOIN LATERAL redrive.capture_letters(f.failures, f.raws) c
    ORDER BY c.place;
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
    event  CONSTANT jsonb := jsonb_build_object('at', clock_timestamp(), 'event', 'imported');
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
    RETURN QUERY
    SELECT o.place, o.id, false, false, false FROM unnest(own, owners) AS o (place, id)
    UNION ALL
    SELECT f.places[c.place], c.id, c.is_new, c.is_reopened, false
    FROM (
        SELECT array_agg(e.place ORDER BY e.place) AS places, array_agg(redrive.readmitted(
                   redrive.captured_letter(e.failure, e.raw, coalesce(e.failure -> 'letter', '{}')), event,
                   '{recovered,discarded}') ORDER BY e.place) AS letters
        FROM unnest(import_letters.failures, import_letters.raws) WITH ORDINALITY AS e (failure, raw, place)
        WHERE e.place <> ALL (own)
        HAVING count(*) > 0
    ) f
    CROSS JOIN LATERAL redrive.store_captured(f.letters) c
    ORDER BY 1;
END
$$;
