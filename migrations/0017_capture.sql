-- Purpose: Capturing foreign failures as letters.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Stores a foreign failure (a Kafka event, a webhook, an outbox row) as a letter with the cause
-- `captured`, once per position of its source. Capturing a position again only counts in `seen`, unless the
-- letter is redriving: its worker must not wait for the caller's transaction. Any bytes are accepted;
-- bytes that are JSON are also stored as jsonb.
CREATE FUNCTION redrive.capture(
    source        text,
    "position"    text,
    queue         text,
    kind          text,
    raw           bytea,
    content_type  text  DEFAULT 'application/json',
    headers       jsonb DEFAULT NULL,
    error_class   text  DEFAULT 'captured',
    error_message text  DEFAULT '',
    error_detail  text  DEFAULT NULL,
    group_key     text  DEFAULT NULL,
    OUT id        bigint,
    OUT is_new    boolean
)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    parsed jsonb;
BEGIN
    PERFORM redrive.check_name('queue', capture.queue), redrive.check_name('kind', capture.kind);
    IF capture.source IS NULL OR capture."position" IS NULL OR capture.raw IS NULL THEN
        RAISE EXCEPTION 'redrive: capture needs a source, a position and the raw bytes'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    BEGIN
        parsed := convert_from(capture.raw, 'UTF8')::jsonb;
    EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
        parsed := NULL;
    END;
    capture.is_new := false;
    LOOP
        SELECT l.id INTO capture.id
        FROM redrive.dead_letters l
        WHERE l.source = capture.source AND l."position" = capture."position";
        EXIT WHEN FOUND;
        INSERT INTO redrive.dead_letters AS l
            (source, "position", queue, kind, cause, raw, payload, content_type, headers,
             error_class, error_message, error_detail, group_key, enqueued_at)
        VALUES
            (capture.source, capture."position", capture.queue, capture.kind, 'captured', capture.raw,
             parsed, capture.content_type, capture.headers,
             redrive.clip(coalesce(capture.error_class, 'captured'), 1024),
             redrive.clip(coalesce(capture.error_message, ''), 8192),
             redrive.clip(capture.error_detail, 65536), capture.group_key, clock_timestamp())
        ON CONFLICT (source, "position") WHERE source IS NOT NULL DO NOTHING
        RETURNING l.id INTO capture.id;
        capture.is_new := FOUND;
        -- Not found: another session stored the letter in between.
        EXIT WHEN FOUND;
    END LOOP;
    UPDATE redrive.dead_letters l
    SET seen = l.seen + 1
    WHERE l.id = capture.id AND NOT capture.is_new AND l.state <> 'redriving';
END
$$;

-- Captures many foreign failures, as `capture` does for one. Returns one row for each, numbered from 1.
-- `parsed` holds the bytes as jsonb if the caller knows that they are JSON; if it is NULL they are parsed
-- here, which is slower. A position that occurs twice becomes one letter.
CREATE FUNCTION redrive.capture_letters(
    sources text[], positions text[], queues text[], kinds text[], raws bytea[], parsed jsonb[],
    content_types text[], headers jsonb[], error_classes text[], error_messages text[], error_details text[],
    group_keys text[]
) RETURNS TABLE (place bigint, id bigint, is_new boolean)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    new_ids bigint[] := '{}';
    inserted bigint[];
    found_ids bigint[];
    known_ids bigint[];
BEGIN
    IF array_position(sources, NULL) IS NOT NULL OR array_position(positions, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: capture needs a source, a position and the raw bytes'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    LOOP
        WITH given AS MATERIALIZED (
            -- Assign ids in the given order, so that paging by id keeps it.
            SELECT g.*, nextval('redrive.job_id') AS id
            FROM unnest(sources, positions, queues, kinds, raws, parsed, content_types, headers,
                        error_classes, error_messages, error_details, group_keys) WITH ORDINALITY
                AS g (source, "position", queue, kind, raw, parsed, content_type, headers,
                      error_class, error_message, error_detail, group_key, place)
        ),
        firsts AS (
            SELECT DISTINCT ON (g.source, g."position") g.*, count(*) OVER (PARTITION BY g.source, g."position") AS times
            FROM given g
            -- An insert would wait for a session that updates the letter, and would find its group first.
            WHERE NOT EXISTS (
                SELECT FROM redrive.dead_letters k WHERE k.source = g.source AND k."position" = g."position")
            ORDER BY g.source, g."position", g.place
        ),
        captured AS (
            INSERT INTO redrive.dead_letters AS l
                (id, source, "position", queue, kind, cause, raw, payload, content_type, headers,
                 error_class, error_message, error_detail, group_key, enqueued_at, seen)
            SELECT f.id, f.source, f."position", f.queue, f.kind, 'captured', f.raw,
                   coalesce(f.parsed, redrive.json_of(f.raw)), f.content_type, f.headers,
                   redrive.clip(coalesce(f.error_class, 'captured'), 1024),
                   redrive.clip(coalesce(f.error_message, ''), 8192),
                   redrive.clip(f.error_detail, 65536), f.group_key, clock_timestamp(), f.times
            FROM firsts f
            -- In one order, so that two captures cannot deadlock.
            ORDER BY f.source, f."position"
            ON CONFLICT (source, "position") WHERE source IS NOT NULL DO NOTHING
            RETURNING l.id
        )
        SELECT coalesce(array_agg(c.id), '{}') INTO inserted FROM captured c;
        new_ids := new_ids || inserted;
        SELECT coalesce(array_agg(l.id ORDER BY g.place), '{}') INTO found_ids
        FROM unnest(sources, positions) WITH ORDINALITY AS g (source, "position", place)
        JOIN redrive.dead_letters l ON l.source = g.source AND l."position" = g."position";
        -- Fewer: a letter was deleted in between.
        EXIT WHEN cardinality(found_ids) = cardinality(sources);
    END LOOP;
    -- By id, the lock order of every statement that locks several letters.
    SELECT coalesce(array_agg(k.id), '{}') INTO known_ids
    FROM (
        SELECT o.id
        FROM redrive.dead_letters o
        WHERE o.id = ANY (found_ids) AND o.id <> ALL (new_ids) AND o.state <> 'redriving'
        ORDER BY o.id
        FOR NO KEY UPDATE
    ) k;
    UPDATE redrive.dead_letters l
    SET seen = l.seen + t.times
    FROM (SELECT f.id, count(*) AS times FROM unnest(found_ids) AS f (id) GROUP BY f.id) t
    WHERE l.id = ANY (known_ids) AND l.id = t.id;
    RETURN QUERY
    SELECT f.place, f.id, f.id = ANY (new_ids) AND f.place = min(f.place) OVER (PARTITION BY f.id)
    FROM unnest(found_ids) WITH ORDINALITY AS f (id, place)
    ORDER BY f.place;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
