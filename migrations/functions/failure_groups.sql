-- Purpose: Failure groups: letters that died of the same error.

-- Identifies a failure by queue, kind, error class and title; see `complete_letter`.
CREATE OR REPLACE FUNCTION redrive.fingerprint(queue text, kind text, error_class text, title text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN encode(substring(
        sha256(convert_to(concat_ws(E'\x1f', queue, kind, error_class, title), 'UTF8')) FOR 16), 'hex')::uuid;

-- Finds or creates the group of a failure. After 1,000 groups of an error class, which masking cannot unify, further
-- failures share one last group. A group whose title was erased gets that of its next failure. `identity` decides instead
-- of the title, which a redaction or an erasure may change.
CREATE OR REPLACE FUNCTION redrive.group_of(
    queue text, kind text, error_class text, title text, version text, identity text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    shown text := title;
    print uuid := redrive.fingerprint(queue, kind, error_class, coalesce(identity, title));
    found_id bigint;
    found_title text;
BEGIN
    SELECT g.id, g.title INTO found_id, found_title FROM redrive.groups g WHERE g.fingerprint = print;
    IF found_title = '[erased]' THEN
        -- If another session changes the group, the failure after this one tries again: a statement may write letters of
        -- several groups, in any order.
        UPDATE redrive.groups g SET title = shown
        FROM (SELECT e.id FROM redrive.groups e WHERE e.id = found_id FOR NO KEY UPDATE SKIP LOCKED) e
        WHERE g.id = e.id;
    END IF;
    IF found_id IS NULL AND 1000 <= (
        SELECT count(*) FROM (
            SELECT FROM redrive.groups g
            WHERE g.error_class = group_of.error_class AND g.queue = group_of.queue AND g.kind = group_of.kind
            LIMIT 1000) same_class)
    THEN
        shown := '(any other message)';
        print := redrive.fingerprint(queue, kind, error_class, shown);
        SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
    END IF;
    IF found_id IS NULL THEN
        INSERT INTO redrive.groups AS g (fingerprint, queue, kind, error_class, title, first_version)
        VALUES (print, group_of.queue, group_of.kind, group_of.error_class, shown, group_of.version)
        ON CONFLICT (fingerprint) DO NOTHING
        RETURNING g.id INTO found_id;
        IF found_id IS NULL THEN
            SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
        END IF;
    END IF;
    RETURN found_id;
END
$$;

-- Finds or stores a long detail of a group. Returns NULL when the group has 50 already.
CREATE OR REPLACE FUNCTION redrive.detail_of(group_id bigint, masked text, detail text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    print uuid := redrive.fingerprint('', '', '', masked);
    found_id bigint;
BEGIN
    SELECT d.id INTO found_id FROM redrive.details d
    WHERE d.group_id = detail_of.group_id AND d.digest = print;
    -- Fifty different details describe a failure well enough.
    IF found_id IS NULL AND 50 > (
        SELECT count(*) FROM (
            SELECT FROM redrive.details d WHERE d.group_id = detail_of.group_id LIMIT 50) kept)
    THEN
        INSERT INTO redrive.details AS d (group_id, digest, detail)
        VALUES (detail_of.group_id, print, detail_of.detail)
        ON CONFLICT ON CONSTRAINT details_group_id_digest_key DO UPDATE SET digest = excluded.digest
        RETURNING d.id INTO found_id;
    END IF;
    RETURN found_id;
END
$$;

-- Returns the group into which a group is merged, or itself. Whoever merges a group moves the rules along that lead to it.
CREATE OR REPLACE FUNCTION redrive.merged_group(id bigint) RETURNS bigint
    LANGUAGE sql STABLE
    RETURN coalesce((SELECT r.into_id FROM redrive.group_rules r WHERE r.group_id = $1 AND r.pattern IS NULL), $1);

-- Returns the group of a letter according to the rules: the part of its group, the group into which that is merged, the
-- part of this, and so on, at most ten times.
CREATE OR REPLACE FUNCTION redrive.ruled_group(letter redrive.dead_letters) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    place  bigint := letter.group_id;
    before bigint;
BEGIN
    FOR step IN 1..10 LOOP
        before := place;
        place := redrive.merged_group(coalesce((
            SELECT redrive.group_of(
                    s.queue, s.kind, s.error_class, format('%s [error %s]', s.title, s.pattern), letter.version,
                    concat_ws(E'\x1f', s.fingerprint, s.pattern))
            FROM (
                SELECT g.*, r.pattern
                FROM redrive.group_rules r JOIN redrive.groups g ON g.id = r.group_id
                WHERE r.group_id = place AND letter.error_message ~ r.pattern
                ORDER BY r.id
                LIMIT 1
            ) s), place));
        EXIT WHEN place = before;
    END LOOP;
    RETURN place;
END
$$;
