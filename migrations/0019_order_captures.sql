-- Purpose: an order of locks: captures of positions that are letters already take those by their ids.
-- Locks: none that anybody waits for.
-- Safe under running workers of the previous version: yes.
-- breaking: no

-- As in 0013, but for the order.
CREATE OR REPLACE FUNCTION redrive.capture_letters(
    sources text[], positions text[], queues text[], kinds text[], raws bytea[], parsed jsonb[],
    content_types text[], headers jsonb[], error_classes text[], error_messages text[], error_details text[]
) RETURNS TABLE (place bigint, id bigint, is_new boolean)
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH given AS MATERIALIZED (
        -- Ids in the order in which the failures are given: whatever walks by ids keeps it.
        SELECT g.*, nextval('redrive.job_id') AS id
        FROM unnest(sources, positions, queues, kinds, raws, parsed, content_types, headers,
                    error_classes, error_messages, error_details) WITH ORDINALITY
            AS g (source, "position", queue, kind, raw, parsed, content_type, headers,
                  error_class, error_message, error_detail, place)
    ),
    firsts AS (
        SELECT DISTINCT ON (g.source, g."position") g.*, count(*) OVER (PARTITION BY g.source, g."position") AS times
        FROM given g
        ORDER BY g.source, g."position", g.place
    ),
    captured AS (
        INSERT INTO redrive.dead_letters AS l
            (id, source, "position", queue, kind, reason, raw, payload, content_type, headers,
             error_class, error_message, error_detail, enqueued_at, seen)
        SELECT f.id, f.source, f."position", f.queue, f.kind, 'captured', f.raw,
               coalesce(f.parsed, redrive.json_of(f.raw)), f.content_type, f.headers,
               redrive.clip(coalesce(f.error_class, 'captured'), 1024),
               redrive.clip(coalesce(f.error_message, ''), 8192),
               redrive.clip(f.error_detail, 65536), clock_timestamp(), f.times
        FROM firsts f
        -- Letters that are there by their ids, as everybody who waits for several; the others by their
        -- positions. So two captures of the same positions never wait for each other, nor does one for
        -- an edit, or for a worker that settles the jobs of those letters.
        ORDER BY (
            SELECT k.id FROM redrive.dead_letters k
            WHERE k.source = f.source AND k."position" = f."position"
        ) NULLS LAST, f.source, f."position"
        ON CONFLICT (source, "position") WHERE source IS NOT NULL
            DO UPDATE SET seen = l.seen + excluded.seen
        RETURNING l.id, l.source, l."position", l.xmax = 0 AS is_new
    )
    SELECT g.place, c.id, c.is_new AND g.place = min(g.place) OVER (PARTITION BY c.id)
    FROM given g
    JOIN captured c ON c.source = g.source AND c."position" = g."position"
    ORDER BY g.place
$$;

REVOKE ALL ON FUNCTION redrive.capture_letters FROM PUBLIC;
