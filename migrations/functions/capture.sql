-- Purpose: Capturing foreign failures as letters.

-- Returns a text of at most `longest` characters; a longer one is cut and ends with a hash of the whole.
CREATE OR REPLACE FUNCTION redrive.shortened(value text, longest integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN length(value) <= longest THEN value ELSE left(value, longest - 33) || '~' || md5(value) END;
END;

-- Returns the headers of a capture with the start of every value that is shortened, and the number of captured bytes if
-- the letter has only their start, if there is room.
CREATE OR REPLACE FUNCTION redrive.headers_with_long(headers jsonb, source text, "position" text, kind text, bytes integer)
    RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN octet_length(w.headers::text) <= 65536 THEN w.headers ELSE headers_with_long.headers END
    FROM (SELECT coalesce(headers_with_long.headers, '{}') || jsonb_strip_nulls(json_build_object(
        'redrive-source', CASE WHEN length(source) > 100 THEN left(source, 4096) END,
        'redrive-position', CASE WHEN length("position") > 500 THEN left("position", 4096) END,
        'redrive-kind', CASE WHEN length(kind) > 255 THEN left(kind, 4096) END,
        'redrive-body-bytes', CASE WHEN bytes > 16777216 THEN bytes::text END)::jsonb)) AS w (headers);
END;

-- Raises a clear error for what the schema would reject of a captured failure.
CREATE OR REPLACE FUNCTION redrive.check_capture(queue text, kind text, group_key text, headers jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    PERFORM redrive.check_name('queue', queue), redrive.check_name('kind', kind);
    PERFORM redrive.refuse(CASE
        WHEN octet_length(group_key) NOT BETWEEN 1 AND 200
            THEN format('the group is %s bytes; it must be 1 to 200', octet_length(group_key))
        WHEN jsonb_typeof(headers) <> 'object' OR octet_length(headers::text) > 65536
            THEN 'the headers must be a JSON object of at most 65536 bytes'
    END);
END
$$;

-- Stores a foreign failure (a Kafka event, a webhook, an outbox row) as a letter with the cause
-- `captured`, once per position of its source. Any bytes are accepted; those of JSON are also its
-- payload.
--
-- Capturing a position again reopens a recovered or discarded letter with the new failure; see
-- `reopen_captured`. While the letter is open or quarantined, it only counts in `seen`. While the letter is
-- redriving, it changes nothing, because the worker must not wait for the caller's transaction.
--
-- A source of more than 100 characters, a kind of more than 255 and a position of more than 500 are shortened; the headers
-- `redrive-source`, `redrive-kind` and `redrive-position` have the original. Of bytes that exceed 16 MiB, the letter has
-- the first 64 KiB, which are not parsed; `captured_pieces` has all, and the header `redrive-body-bytes` their number.
--
-- `failure_key` decides the failure group instead of the message.
--
-- It runs with the owner's privileges, so that a source can capture without the privilege to read letters.
CREATE OR REPLACE FUNCTION redrive.capture(
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
    failure_key   text  DEFAULT NULL,
    OUT id        bigint,
    OUT is_new    boolean,
    OUT is_reopened boolean
)
    LANGUAGE sql VOLATILE SECURITY DEFINER
AS $$
    SELECT c.id, c.is_new, c.is_reopened
    FROM redrive.capture_letters(ARRAY[jsonb_build_object(
        'source', capture.source, 'position', capture."position", 'queue', capture.queue, 'kind', capture.kind,
        'content_type', capture.content_type, 'headers', capture.headers, 'error_class', capture.error_class,
        'error_message', capture.error_message, 'error_detail', capture.error_detail,
        'group_key', capture.group_key, 'failure_key', capture.failure_key)], ARRAY[capture.raw]) c
$$;

-- Captures many foreign failures, as `capture` does for one: objects as in `capture_many`, without their bytes, which
-- `raws` holds in the same order. Returns one row for each, numbered from 1. A position that occurs twice becomes one letter,
-- with the first of its failures. `is_other` says that a known letter has other bytes: another event was captured at the same
-- position, for example because a topic was recreated. It is false once the letter was edited or bytes may have been redacted.
CREATE OR REPLACE FUNCTION redrive.capture_letters(failures jsonb[], raws bytea[])
    RETURNS TABLE (place bigint, id bigint, is_new boolean, is_reopened boolean, is_other boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    sources text[];
    positions text[];
    queues text[];
    kinds text[];
    content_types text[];
    headers jsonb[];
    error_classes text[];
    error_messages text[];
    error_details text[];
    group_keys text[];
    failure_keys text[];
    whole_raws bytea[];
    large bigint[] := '{}';
    new_ids bigint[];
    found_ids bigint[];
    waiting_ids bigint[];
    closed_ids bigint[];
BEGIN
    IF pg_column_size(raws) > 16777216 THEN
        whole_raws := raws;
        SELECT array_agg(CASE WHEN octet_length(u.raw) > 16777216 THEN substring(u.raw FROM 1 FOR 65536)
                   ELSE u.raw END ORDER BY u.place),
               coalesce(array_agg(u.place) FILTER (WHERE octet_length(u.raw) > 16777216), '{}')
        INTO raws, large
        FROM unnest(raws) WITH ORDINALITY AS u (raw, place);
    END IF;
    SELECT array_agg(redrive.shortened(f.source, 100) ORDER BY e.place),
           array_agg(redrive.shortened(f."position", 500) ORDER BY e.place),
           array_agg(f.queue ORDER BY e.place),
           array_agg(redrive.shortened(f.kind, 255) ORDER BY e.place),
           array_agg(coalesce(f.content_type, 'application/json') ORDER BY e.place),
           array_agg(CASE WHEN length(f.source) > 100 OR length(f."position") > 500 OR length(f.kind) > 255
                   OR e.place = ANY (large)
               THEN redrive.headers_with_long(f.headers, f.source, f."position", f.kind,
                   CASE WHEN e.place = ANY (large) THEN octet_length(whole_raws[e.place]) END)
               ELSE f.headers END ORDER BY e.place),
           array_agg(redrive.clip(coalesce(f.error_class, 'captured'), 1024) ORDER BY e.place),
           array_agg(redrive.clip(coalesce(f.error_message, ''), 8192) ORDER BY e.place),
           array_agg(redrive.clip(f.error_detail, 65536) ORDER BY e.place),
           array_agg(f.group_key ORDER BY e.place),
           array_agg(nullif(left(f.failure_key, 256), '') ORDER BY e.place)
    INTO sources, positions, queues, kinds, content_types, headers, error_classes, error_messages, error_details,
         group_keys, failure_keys
    FROM unnest(failures) WITH ORDINALITY AS e (failure, place)
    CROSS JOIN LATERAL jsonb_to_record(e.failure) AS f (
        source text, "position" text, queue text, kind text, content_type text, headers jsonb, error_class text,
        error_message text, error_detail text, group_key text, failure_key text);
    IF sources IS NULL THEN
        RETURN;
    ELSIF array_position(sources, NULL) IS NOT NULL OR array_position(positions, NULL) IS NOT NULL
        OR array_position(raws, NULL) IS NOT NULL OR cardinality(raws) = cardinality(failures) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'redrive: capture needs a source, a position and the raw bytes'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM redrive.check_capture(f.queue, f.kind, f.group_key, f.headers)
    FROM unnest(queues, kinds, group_keys, headers) AS f (queue, kind, group_key, headers);
    LOOP
        BEGIN
            WITH given AS MATERIALIZED (
                -- Assign ids in the given order, so that paging by id keeps it.
                SELECT g.*, nextval('redrive.job_id') AS id
                FROM unnest(sources, positions, queues, kinds, raws, content_types, headers,
                            error_classes, error_messages, error_details, group_keys, failure_keys) WITH ORDINALITY
                    AS g (source, "position", queue, kind, raw, content_type, headers,
                          error_class, error_message, error_detail, group_key, failure_key, place)
            ),
            firsts AS (
                SELECT DISTINCT ON (g.source, g."position")
                       g.*, count(*) OVER (PARTITION BY g.source, g."position") AS times
                FROM given g
                -- An insert would wait for a session that updates the letter, and would find its group first.
                WHERE NOT EXISTS (
                    SELECT FROM redrive.dead_letters k WHERE k.source = g.source AND k."position" = g."position")
                ORDER BY g.source, g."position", g.place
            ),
            captured AS (
                INSERT INTO redrive.dead_letters AS l
                    (id, source, "position", queue, kind, cause, raw, payload, content_type, headers,
                     error_class, error_message, error_detail, group_key, failure_key, enqueued_at, seen)
                SELECT f.id, f.source, f."position", f.queue, f.kind, 'captured', f.raw,
                       CASE WHEN f.place <> ALL (large) THEN redrive.json_of(f.raw) END,
                       f.content_type, f.headers, f.error_class, f.error_message, f.error_detail, f.group_key,
                       f.failure_key, clock_timestamp(), f.times
                FROM firsts f
                -- In one order, so that two captures cannot deadlock.
                ORDER BY f.source, f."position"
                ON CONFLICT (source, "position") WHERE source IS NOT NULL DO NOTHING
                RETURNING l.id
            )
            SELECT coalesce(array_agg(c.id), '{}') INTO new_ids FROM captured c;
            SELECT coalesce(array_agg(l.id ORDER BY g.place), '{}') INTO found_ids
            FROM unnest(sources, positions) WITH ORDINALITY AS g (source, "position", place)
            JOIN redrive.dead_letters l ON l.source = g.source AND l."position" = g."position";
            -- By id, the lock order of every statement that locks several letters.
            SELECT coalesce(array_agg(k.id) FILTER (WHERE k.state IN ('open', 'quarantined')), '{}'),
                   coalesce(array_agg(k.id) FILTER (WHERE k.state IN ('recovered', 'discarded')), '{}')
            INTO waiting_ids, closed_ids
            FROM (
                SELECT o.id, o.state
                FROM redrive.dead_letters o
                WHERE o.id = ANY (found_ids) AND o.id <> ALL (new_ids) AND o.state <> 'redriving'
                ORDER BY o.id
                FOR NO KEY UPDATE
            ) k;
            EXIT WHEN cardinality(found_ids) = cardinality(sources)
                AND (SELECT count(*) FROM redrive.dead_letters l WHERE l.id = ANY (found_ids))
                    = (SELECT count(DISTINCT f.id) FROM unnest(found_ids) AS f (id));
            -- A closed letter was deleted before it was locked. Its failure needs a new letter. Start again
            -- without locks: an insert waits for other captures, and they may wait for these letters.
            RAISE SQLSTATE 'RD001';
        EXCEPTION WHEN SQLSTATE 'RD001' THEN NULL;
        END;
    END LOOP;
    UPDATE redrive.dead_letters l
    SET seen = l.seen + t.times
    FROM (SELECT f.id, count(*) AS times FROM unnest(found_ids) AS f (id) GROUP BY f.id) t
    WHERE l.id = ANY (waiting_ids) AND l.id = t.id;
    IF cardinality(closed_ids) > 0 THEN
        -- The proposed row passes the triggers of a new letter: redaction, group and detail. It always
        -- conflicts, because the letters are locked. The trigger `reopen_captured` keeps their history.
        INSERT INTO redrive.dead_letters AS l
            (id, source, "position", queue, kind, cause, raw, payload, content_type, headers,
             error_class, error_message, error_detail, group_key, failure_key, enqueued_at, seen, edits)
        SELECT f.id, f.source, f."position", f.queue, f.kind, 'captured', f.raw,
               CASE WHEN f.place <> ALL (large) THEN redrive.json_of(f.raw) END,
               f.content_type, f.headers, f.error_class, f.error_message, f.error_detail, f.group_key,
               f.failure_key, clock_timestamp(), f.times,
               -- A redaction must not look into the earlier bytes.
               (SELECT o.edits + 1 FROM redrive.dead_letters o WHERE o.id = f.id)
        FROM (
            SELECT DISTINCT ON (k.id) k.id, g.*, count(*) OVER (PARTITION BY k.id) AS times
            FROM unnest(sources, positions, queues, kinds, raws, content_types, headers,
                        error_classes, error_messages, error_details, group_keys, failure_keys) WITH ORDINALITY
                AS g (source, "position", queue, kind, raw, content_type, headers,
                      error_class, error_message, error_detail, group_key, failure_key, place)
            JOIN unnest(found_ids) WITH ORDINALITY AS k (id, found_place) ON k.found_place = g.place
            WHERE k.id = ANY (closed_ids)
            ORDER BY k.id, g.place
        ) f
        ORDER BY f.id
        ON CONFLICT (id) DO UPDATE
        SET state = 'open', discard_reason = NULL, queue = excluded.queue, kind = excluded.kind,
            cause = excluded.cause, error_class = excluded.error_class,
            error_message = excluded.error_message, error_detail = excluded.error_detail,
            detail_id = excluded.detail_id, group_id = excluded.group_id,
            payload = excluded.payload, raw = excluded.raw, redacted = excluded.redacted,
            content_type = excluded.content_type, headers = excluded.headers, group_key = excluded.group_key,
            failure_key = excluded.failure_key,
            generation = l.generation + 1, attempts = 0, crashes = 0, worker_id = NULL, host = NULL,
            version = NULL, pid = NULL, run_ms = NULL, seen = l.seen + excluded.seen,
            died_at = excluded.died_at, changed_at = excluded.changed_at, retry_after = excluded.retry_after;
        PERFORM redrive.drop_redacted_pieces(closed_ids);
    END IF;
    PERFORM redrive.keep_pieces(found_ids[g.place], whole_raws[g.place])
    FROM unnest(large) AS g (place)
    WHERE found_ids[g.place] = ANY (new_ids || closed_ids) AND array_position(found_ids, found_ids[g.place]) = g.place;
    RETURN QUERY
    SELECT f.place, f.id, f.is_first AND f.id = ANY (new_ids), f.is_first AND f.id = ANY (closed_ids),
           NOT (f.is_first AND f.id = ANY (new_ids || closed_ids)) AND EXISTS (
               SELECT FROM redrive.dead_letters l
               WHERE l.id = f.id AND l.edits = 0 AND l.raw <> raws[f.place]
                   AND NOT EXISTS (SELECT FROM redrive.redactions))
    FROM (
        SELECT u.place, u.id, u.place = min(u.place) OVER (PARTITION BY u.id) AS is_first
        FROM unnest(found_ids) WITH ORDINALITY AS u (id, place)
    ) f
    ORDER BY f.place;
END
$$;
