-- Purpose: Capturing foreign failures as letters.

-- Returns a text of at most `longest` characters; a longer one is cut and ends with a hash of the whole.
CREATE OR REPLACE FUNCTION redrive.shortened(value text, longest integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN length(value) <= longest THEN value ELSE left(value, longest - 33) || '~' || md5(value) END;

-- Returns what listings show of captured bytes: of more than 16 MiB the first 64 KiB.
CREATE OR REPLACE FUNCTION redrive.shown_bytes(raw bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN octet_length(raw) > 16777216 THEN substring(raw FROM 1 FOR 65536) ELSE raw END;

-- Returns the letter of a foreign failure: an object as in `capture_letters`. `past` has the columns that an
-- exported letter keeps; NULL: it is no exported letter.
CREATE OR REPLACE FUNCTION redrive.captured_letter(failure jsonb, bytes bytea, past jsonb DEFAULT NULL)
    RETURNS redrive.dead_letters
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    source    CONSTANT text := failure ->> 'source';
    place     CONSTANT text := failure ->> 'position';
    long_kind CONSTANT text := failure ->> 'kind';
    kind      CONSTANT text := redrive.shortened(long_kind, 255);
    headers   jsonb := nullif(failure -> 'headers', 'null');
    originals jsonb;
    letter    redrive.dead_letters;
BEGIN
    IF num_nulls(source, place, bytes) > 0 THEN
        RAISE EXCEPTION 'redrive: capture needs a source, a position and the raw bytes'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM redrive.check_name('queue', failure ->> 'queue'), redrive.check_name('kind', kind), redrive.refuse(CASE
        WHEN octet_length(failure ->> 'group_key') NOT BETWEEN 1 AND 200
            THEN format('the group is %s bytes; it must be 1 to 200', octet_length(failure ->> 'group_key'))
        -- A dump could not write much larger ones.
        WHEN octet_length(bytes) > 268435456
            THEN format('the captured bytes are %s bytes; the limit is 268435456', octet_length(bytes))
        WHEN jsonb_typeof(headers) <> 'object' OR octet_length(headers::text) > 65536
            THEN 'the headers must be a JSON object of at most 65536 bytes'
    END);
    IF past IS NOT NULL THEN
        -- Only these columns are of the past, and a newer version may export others. Constraints check the values.
        past := (SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(past) e WHERE e.key = ANY (
            '{state,cause,seen,priority,attempts,earlier_attempts,max_attempts,generation,crashes,deaths,alike,failed_redrives,'
            'enqueued_at,died_at,worker_id,host,version,pid,unique_key,failure_key,redacted,history,events,has_raw}'));
    END IF;
    letter := jsonb_populate_record(NULL::redrive.dead_letters, '{"state": "open", "cause": "captured", "seen": 1,'
        ' "priority": 0, "attempts": 0, "earlier_attempts": 0, "max_attempts": 5, "generation": 0, "crashes": 0,'
        ' "history": [], "deaths": 1, "alike": 0, "edits": 0, "events": [], "failed_redrives": 0}'::jsonb
        || coalesce(past, '{}'));
    letter.id := nextval('redrive.job_id');
    letter.source := redrive.shortened(source, 100);
    letter."position" := redrive.shortened(place, 500);
    letter.queue := failure ->> 'queue';
    letter.kind := kind;
    letter.content_type := coalesce(failure ->> 'content_type', 'application/json');
    -- The start of every value that was shortened.
    originals := coalesce(headers, '{}') || jsonb_strip_nulls(jsonb_build_object(
        'redrive-source', CASE WHEN length(source) > 100 THEN left(source, 4096) END,
        'redrive-position', CASE WHEN length(place) > 500 THEN left(place, 4096) END,
        'redrive-kind', CASE WHEN length(long_kind) > 255 THEN left(long_kind, 4096) END));
    letter.headers := CASE WHEN originals <> '{}' AND octet_length(originals::text) <= 65536 THEN originals ELSE headers END;
    letter.error_class := redrive.clip(coalesce(failure ->> 'error_class', 'captured'), 1024);
    letter.error_message := redrive.clip(coalesce(failure ->> 'error_message', ''), 8192);
    letter.error_detail := redrive.clip(failure ->> 'error_detail', 65536);
    letter.group_key := failure ->> 'group_key';
    letter.failure_key := coalesce(nullif(left(failure ->> 'failure_key', 256), ''), letter.failure_key);
    letter.payload := CASE WHEN octet_length(bytes) <= 16777216 THEN redrive.json_of(bytes) END;
    -- An exported letter may have no bytes beside its payload.
    letter.raw := CASE WHEN past IS NULL OR letter.payload IS NULL OR (past ->> 'has_raw')::boolean THEN bytes END;
    letter.enqueued_at := coalesce(letter.enqueued_at, clock_timestamp());
    letter.died_at := coalesce(letter.died_at, clock_timestamp());
    letter.changed_at := clock_timestamp();
    IF past IS NOT NULL THEN
        -- Neither a sum of two counts nor the deaths to come may exceed a column.
        PERFORM redrive.refuse((
            SELECT format('%s of an exported letter is %s; the limit is %s', n.name, n.value, n.most)
            FROM (
                SELECT e.key, (e.value #>> '{}')::numeric,
                       CASE WHEN e.key IN ('crashes', 'alike', 'failed_redrives') THEN 30000 ELSE 1000000000 END
                FROM jsonb_each(past) e
                WHERE jsonb_typeof(e.value) = 'number'
                UNION ALL
                SELECT 'the past', octet_length(past::text), 1048576
            ) n (name, value, most)
            WHERE n.value > n.most
            LIMIT 1));
        -- A redrive takes letters that died before it.
        letter.died_at := least(letter.died_at, clock_timestamp());
        -- The groups and details of the other database.
        letter.events := (
            SELECT coalesce(jsonb_agg(e.event - '{group,detail}'::text[] ORDER BY e.place), '[]')
            FROM jsonb_array_elements(letter.events) WITH ORDINALITY AS e (event, place));
    END IF;
    RETURN letter;
END
$$;

-- Stores captured letters; see `capture_letters`. A closed one, which was exported, reopens no letter.
CREATE OR REPLACE FUNCTION redrive.store_captured(given redrive.dead_letters[])
    RETURNS TABLE (place bigint, id bigint, is_new boolean, is_reopened boolean, is_other boolean)
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    new_ids     bigint[];
    found_ids   bigint[];
    waiting_ids bigint[];
    closed_ids  bigint[];
BEGIN
    LOOP
        BEGIN
            WITH firsts AS (
                SELECT DISTINCT ON (g.source, g."position") g AS letter
                FROM unnest(given) AS g
                -- An insert would wait for a session that updates the letter, and would find its group first.
                WHERE NOT EXISTS (
                    SELECT FROM redrive.dead_letters k WHERE k.source = g.source AND k."position" = g."position")
                -- No closed one hides a failure that waits.
                ORDER BY g.source, g."position", g.state IN ('recovered', 'discarded'), g.id
            ),
            captured AS (
                INSERT INTO redrive.dead_letters AS l
                SELECT (f.letter).*
                FROM firsts f
                -- In one order, so that two captures cannot deadlock.
                ORDER BY (f.letter).source, (f.letter)."position"
                ON CONFLICT (source, "position") WHERE source IS NOT NULL DO NOTHING
                RETURNING l.id
            )
            SELECT coalesce(array_agg(c.id), '{}') INTO new_ids FROM captured c;
            SELECT coalesce(array_agg(l.id ORDER BY g.id), '{}') INTO found_ids
            FROM unnest(given) AS g
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
            EXIT WHEN cardinality(found_ids) = cardinality(given)
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
    FROM (
        SELECT f.id, count(*) - (f.id = ANY (new_ids))::integer AS times FROM unnest(found_ids) AS f (id) GROUP BY f.id
    ) t
    WHERE l.id = ANY (waiting_ids || new_ids) AND l.id = t.id AND t.times > 0;
    IF cardinality(closed_ids) > 0 THEN
        -- The proposed row passes the triggers of a new letter: redaction, group and detail. It always
        -- conflicts, because the letters are locked. The trigger `reopen` keeps their history.
        WITH reopened AS (
            INSERT INTO redrive.dead_letters AS l
                (id, source, "position", queue, kind, cause, raw, payload, content_type, headers,
                 error_class, error_message, error_detail, group_key, failure_key, enqueued_at, seen)
            SELECT f.known, f.source, f."position", f.queue, f.kind, 'captured', f.raw, f.payload, f.content_type, f.headers,
                   f.error_class, f.error_message, f.error_detail, f.group_key, f.failure_key, clock_timestamp(), f.times
            FROM (
                SELECT DISTINCT ON (k.id) k.id AS known, g.*, count(*) OVER (PARTITION BY k.id) AS times
                FROM unnest(given) WITH ORDINALITY AS g
                JOIN unnest(found_ids) WITH ORDINALITY AS k (id, found_place) ON k.found_place = g.ordinality
                WHERE k.id = ANY (closed_ids) AND g.state NOT IN ('recovered', 'discarded')
                ORDER BY k.id, g.ordinality
            ) f
            ORDER BY f.known
            ON CONFLICT (id) DO UPDATE
            SET state = 'open', discard_reason = NULL, queue = excluded.queue, kind = excluded.kind,
                cause = excluded.cause, error_class = excluded.error_class,
                error_message = excluded.error_message, error_detail = excluded.error_detail,
                detail_id = excluded.detail_id, group_id = excluded.group_id,
                payload = excluded.payload, raw = excluded.raw, redacted = excluded.redacted,
                content_type = excluded.content_type, headers = excluded.headers, group_key = excluded.group_key,
                failure_key = excluded.failure_key, audit_id = NULL,
                generation = l.generation + 1, attempts = 0, crashes = 0, worker_id = NULL, host = NULL,
                version = NULL, pid = NULL, run_ms = NULL, seen = l.seen + excluded.seen,
                died_at = excluded.died_at, changed_at = excluded.changed_at, retry_after = excluded.retry_after
            RETURNING l.id
        )
        SELECT coalesce(array_agg(r.id), '{}') INTO closed_ids FROM reopened r;
    END IF;
    RETURN QUERY
    SELECT f.place, f.id, f.is_first AND f.id = ANY (new_ids), f.is_first AND f.id = ANY (closed_ids),
           NOT (f.is_first AND f.id = ANY (new_ids || closed_ids)) AND EXISTS (
               SELECT FROM redrive.dead_letters l
               WHERE l.id = f.id AND l.edits = 0 AND l.raw <> (given[f.place]).raw
                   AND NOT EXISTS (SELECT FROM redrive.redactions))
    FROM (
        SELECT u.place, u.id, u.place = min(u.place) OVER (PARTITION BY u.id) AS is_first
        FROM unnest(found_ids) WITH ORDINALITY AS u (id, place)
    ) f
    ORDER BY f.place;
END
$$;

-- Stores a foreign failure (a Kafka event, a webhook, an outbox row) as a letter with the cause
-- `captured`, once per position of its source. Any bytes are accepted; those of JSON are also its
-- payload.
--
-- Capturing a position again reopens a recovered or discarded letter with the new failure; see
-- `reopen`. While the letter is open or quarantined, it only counts in `seen`. While the letter is
-- redriving, it changes nothing, because the worker must not wait for the caller's transaction.
--
-- A source of more than 100 characters, a kind of more than 255 and a position of more than 500 are shortened; the headers
-- `redrive-source`, `redrive-kind` and `redrive-position` have the original. Bytes that exceed 16 MiB are not parsed;
-- listings show their first 64 KiB and their number.
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

-- Captures many foreign failures, as `capture` does for one: objects with the members source, position, queue and kind, and
-- optionally content_type, headers, error_class, error_message, error_detail, group_key and failure_key. `raws` has their
-- bytes in the same order. All are captured or none. Returns one row for each, numbered from 1. A position that occurs twice becomes one letter,
-- with the first of its failures. `is_other` says that a known letter has other bytes: another event was captured at the same
-- position, for example because a topic was recreated. It is false once the letter was edited or bytes may have been redacted.
CREATE OR REPLACE FUNCTION redrive.capture_letters(failures jsonb[], raws bytea[])
    RETURNS TABLE (place bigint, id bigint, is_new boolean, is_reopened boolean, is_other boolean)
    LANGUAGE sql VOLATILE SECURITY DEFINER
AS $$
    SELECT c.*
    FROM redrive.store_captured(
        -- Takes ids in the given order, so that paging by id keeps it.
        ARRAY(SELECT redrive.captured_letter(f.failure, f.raw) FROM unnest($1, $2) AS f (failure, raw))) c
$$;
