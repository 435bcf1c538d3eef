-- Purpose: Importing exported letters.

-- Captures exported letters: objects and bytes as in `capture_letters`, with the member `letter`, whose values a new letter
-- keeps: its history, events, generation, counts, times, cause and redacted pointers; one that was recovered or discarded
-- stays so. A position that is known is captured as `capture_letters` does it, but a letter that was closed opens none. A
-- letter that this database still has is known, and does not change. Returns the same rows.
CREATE OR REPLACE FUNCTION redrive.import_letters(failures jsonb[], raws bytea[])
    RETURNS TABLE (place bigint, id bigint, is_new boolean, is_reopened boolean, is_other boolean)
    LANGUAGE plpgsql VOLATILE
AS $$
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
