-- Purpose: letters are repaired: edited with every version kept, captured by the thousand, walked
--          through in pages.
-- Locks: dead_letters against writers, for the moment that adding a trigger takes.
-- Safe under running workers of the previous version: yes.
-- breaking: no

-- What a letter held before each of its edits. Version 0 is what died or was captured; what the
-- letter holds now is in the letter, and has the number in its `edits`.
CREATE TABLE redrive.letter_versions (
    letter_id bigint      NOT NULL,
    version   integer     NOT NULL CHECK (version >= 0),
    payload   jsonb,
    raw       bytea,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    role      text        NOT NULL DEFAULT session_user,
    person    text,
    why       text,
    PRIMARY KEY (letter_id, version),
    CONSTRAINT letter_versions_keep_something CHECK (payload IS NOT NULL OR raw IS NOT NULL)
);

COMMENT ON TABLE redrive.letter_versions IS 'What letters held before they were edited.';
COMMENT ON COLUMN redrive.letter_versions.at IS 'When the edit took its place.';
COMMENT ON COLUMN redrive.letter_versions.person IS 'Who edited, as the program says; role is the database role of the session.';

-- Versions go with their letter. Not a foreign key: that would look for versions once a letter,
-- and a prune deletes a thousand at a time of which few were edited.
CREATE FUNCTION redrive.forget_versions() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM redrive.letter_versions v
    WHERE v.letter_id = ANY (ARRAY(SELECT r.id FROM removed r WHERE r.edits > 0));
    RETURN NULL;
END
$$;

CREATE TRIGGER forget_versions AFTER DELETE ON redrive.dead_letters
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.forget_versions();

-- Gives letters new payloads, and keeps what they held. Of the letters that are named those are
-- edited that are open or quarantined, and that have as many edits as was expected (NULL: any);
-- the others are left as they are. Answers the letters that were edited, and their versions now.
--
-- `how` is the kind of edit, for the audit. What was edited is in the versions and not in the
-- audit, which keeps for ever what it is told.
CREATE FUNCTION redrive.edit_letters(
    ids bigint[], payloads jsonb[], raws bytea[], expected integer[], why text, person text,
    filter jsonb, how text
) RETURNS TABLE (id bigint, version integer)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    edited bigint;
BEGIN
    -- In one order, so that two editors never wait for each other; and a statement of its own,
    -- so that the next one sees what the letters are under the lock.
    PERFORM FROM redrive.dead_letters l WHERE l.id = ANY (edit_letters.ids) ORDER BY l.id FOR UPDATE;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT g.id, g.payload, g.raw, l.edits AS version
        FROM unnest(edit_letters.ids, edit_letters.payloads, edit_letters.raws, edit_letters.expected)
            AS g (id, payload, raw, expected)
        JOIN redrive.dead_letters l ON l.id = g.id
        WHERE l.state IN ('open', 'quarantined') AND coalesce(g.expected, l.edits) = l.edits
    ),
    kept AS (
        INSERT INTO redrive.letter_versions (letter_id, version, payload, raw, person, why)
        SELECT l.id, l.edits, l.payload, l.raw, left(edit_letters.person, 200), left(edit_letters.why, 1024)
        FROM given g
        JOIN redrive.dead_letters l ON l.id = g.id
    )
    UPDATE redrive.dead_letters l
    SET payload = g.payload, raw = g.raw, edits = g.version + 1, changed_at = clock_timestamp(),
        events = redrive.tell(l.events, jsonb_strip_nulls(jsonb_build_object(
            'at', clock_timestamp(), 'event', 'edited', 'by', left(edit_letters.person, 200),
            'why', left(edit_letters.why, 1024), 'version', g.version + 1)))
    FROM given g
    WHERE l.id = g.id
    RETURNING l.id, l.edits;
    GET DIAGNOSTICS edited = ROW_COUNT;
    IF edited > 0 THEN
        PERFORM redrive.record_act('edit', edit_letters.person, edit_letters.why, edit_letters.filter,
                                   edited, jsonb_build_object('how', edit_letters.how));
    END IF;
END
$$;

-- Gives one letter a new payload, and keeps what it held; answers its version. With
-- `expected_edits`, only when nobody edited it since it had that many.
CREATE FUNCTION redrive.edit_letter(
    id             bigint,
    payload        jsonb,
    why            text    DEFAULT NULL,
    person         text    DEFAULT NULL,
    expected_edits integer DEFAULT NULL
) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    found_edits integer;
    new_version integer;
BEGIN
    IF edit_letter.payload IS NULL THEN
        RAISE EXCEPTION 'redrive: the payload is NULL; use ''null''::jsonb for a JSON null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    found_edits := redrive.lock_for_edit(edit_letter.id);
    IF found_edits <> edit_letter.expected_edits THEN
        RAISE EXCEPTION 'redrive: letter % was edited meanwhile: it has % edits, not %',
            edit_letter.id, found_edits, edit_letter.expected_edits
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT e.version INTO new_version
    FROM redrive.edit_letters(
        ARRAY[edit_letter.id], ARRAY[edit_letter.payload], NULL, NULL, edit_letter.why, edit_letter.person,
        jsonb_build_object('ids', jsonb_build_array(edit_letter.id)), 'set') e;
    RETURN new_version;
END
$$;

-- Gives a letter back what it held as of a version; NULL: before its last edit. That is an edit
-- too, and is kept as one. Answers its version.
CREATE FUNCTION redrive.restore_letter(
    id bigint, version integer DEFAULT NULL, why text DEFAULT NULL, person text DEFAULT NULL
) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    found_edits integer := redrive.lock_for_edit(restore_letter.id);
    wanted integer := coalesce(restore_letter.version, found_edits - 1);
    kept redrive.letter_versions;
    new_version integer;
BEGIN
    SELECT v.* INTO kept FROM redrive.letter_versions v
    WHERE v.letter_id = restore_letter.id AND v.version = wanted;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'redrive: letter % has % edits, and no version % before them',
            restore_letter.id, found_edits, wanted
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT e.version INTO new_version
    FROM redrive.edit_letters(
        ARRAY[restore_letter.id], ARRAY[kept.payload], ARRAY[kept.raw], NULL, restore_letter.why,
        restore_letter.person, jsonb_build_object('ids', jsonb_build_array(restore_letter.id)), 'restore') e;
    RETURN new_version;
END
$$;

-- Locks a letter that can be edited, and answers how often it was; a clear error when it cannot.
CREATE FUNCTION redrive.lock_for_edit(id bigint) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    found_state text;
    found_edits integer;
BEGIN
    SELECT l.state, l.edits INTO found_state, found_edits
    FROM redrive.dead_letters l WHERE l.id = lock_for_edit.id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'redrive: there is no letter %', lock_for_edit.id USING ERRCODE = 'invalid_parameter_value';
    ELSIF found_state NOT IN ('open', 'quarantined') THEN
        RAISE EXCEPTION 'redrive: letter % is %; only open and quarantined letters can be edited',
            lock_for_edit.id, found_state
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN found_edits;
END
$$;

-- Bytes as jsonb; NULL when they are not JSON, or not JSON that jsonb can hold.
CREATE FUNCTION redrive.json_of(raw bytea) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN convert_from(raw, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;

-- Captures many foreign failures, as `capture` does one; answers a row each, by their places from
-- 1. `parsed` holds the bytes as jsonb where the caller knows that they are JSON; where it is NULL
-- they are looked at here, which takes longer. A position that comes twice is one letter.
CREATE FUNCTION redrive.capture_letters(
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
        -- In one order, so that two captures of the same positions never wait for each other.
        ORDER BY f.source, f."position"
        ON CONFLICT (source, "position") WHERE source IS NOT NULL
            DO UPDATE SET seen = l.seen + excluded.seen
        RETURNING l.id, l.source, l."position", l.xmax = 0 AS is_new
    )
    SELECT g.place, c.id, c.is_new AND g.place = min(g.place) OVER (PARTITION BY c.id)
    FROM given g
    JOIN captured c ON c.source = g.source AND c."position" = g."position"
    ORDER BY g.place
$$;

-- The ids of the letters that a filter means, in their order, after one of them: a page. Unlike
-- the moment of a death, an id never changes, so no letter is passed over or met twice while
-- others are redriven, die and are pruned.
CREATE FUNCTION redrive.page_letters(filter jsonb, after bigint, most bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id FROM redrive.dead_letters l WHERE l.id > $2 AND ' || redrive.filter_letters(filter)
        || ' ORDER BY l.id LIMIT $3'
        USING filter, after, most;
END
$$;

-- A page of what can be edited: the payload, NULL when there is none, and how often it was edited.
CREATE FUNCTION redrive.page_editable(
    filter jsonb, after bigint, most bigint, OUT id bigint, OUT payload jsonb, OUT edits integer
) RETURNS SETOF record
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id, l.payload, l.edits FROM redrive.dead_letters l'
        ' WHERE l.id > $2 AND l.state IN (''open'', ''quarantined'') AND ' || redrive.filter_letters(filter)
        || ' ORDER BY l.id LIMIT $3'
        USING filter, after, most;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
