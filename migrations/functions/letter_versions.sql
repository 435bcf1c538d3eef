-- Purpose: Editing letters, with every version kept.

-- Returns the number of the version that keeps the content of a letter with so many edits: this number, unless an archived
-- letter with the same id has it. That happens while the sequence of ids lags behind, for example after a logical restore.
CREATE OR REPLACE FUNCTION redrive.next_version(letter_id bigint, edits integer) RETURNS integer
    LANGUAGE sql STABLE
AS $$
    SELECT coalesce(max(v.version) + 1, $2) FROM redrive.letter_versions v WHERE v.letter_id = $1 AND v.version >= $2
$$;

-- Replaces the payloads of letters and keeps the old ones. Without `payloads`, it restores `to_version` of each letter
-- (NULL: the one before its last edit) as it was redacted; this is an edit too, of the letters that have it. It edits those of the given letters that are
-- open or quarantined and have the expected number of edits (NULL: any), and leaves the others unchanged, and those
-- that another session holds.
-- `audit` is the record of the first batch of the same operation; NULL: this is the first. Returns the edited
-- letters, with the record of the first batch.
--
-- `how` is the kind of edit, for the audit. The content itself is stored in the versions and not in the
-- audit, which is never deleted. An edit that replaces a redacted value removes its pointer from `redacted`.
CREATE OR REPLACE FUNCTION redrive.edit_letters(
    ids bigint[], payloads json[], expected integer[], person text, reason text,
    filter jsonb, how text, audit bigint DEFAULT NULL, to_version integer DEFAULT NULL
) RETURNS TABLE (id bigint, audit_id bigint)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    is_restore CONSTANT boolean := payloads IS NULL;
    editable  bigint[];
    locked    bigint[];
    operation bigint := edit_letters.audit;
BEGIN
    PERFORM redrive.refuse((
        SELECT format('letter %s cannot have a new payload of %s bytes; the limit is 1048576',
            g.id, octet_length(g.payload::text))
        FROM unnest(edit_letters.ids, edit_letters.payloads) AS g (id, payload)
        WHERE octet_length(g.payload::text) > 1048576
        ORDER BY g.id LIMIT 1));
    -- This is a separate statement, so that the next one sees the letters as they are under the lock. A letter that was
    -- never edited has nothing to restore.
    locked := redrive.hold_letters(ARRAY(
        SELECT i FROM unnest(edit_letters.ids) i
        WHERE NOT is_restore OR EXISTS (SELECT FROM redrive.letter_versions v WHERE v.letter_id = i)));
    editable := ARRAY(
        SELECT l.id
        FROM unnest(edit_letters.ids, edit_letters.expected) AS g (id, expected)
        JOIN redrive.dead_letters l ON l.id = g.id
        WHERE l.id = ANY (locked) AND l.state IN ('open', 'quarantined') AND coalesce(g.expected, l.edits) = l.edits
            AND (NOT is_restore OR EXISTS (
                SELECT FROM redrive.letter_versions v
                WHERE v.letter_id = l.id AND v.version = coalesce(to_version, l.edits - 1))));
    IF cardinality(editable) = 0 THEN
        RETURN;
    END IF;
    operation := redrive.record_act(
        'edit', edit_letters.person, edit_letters.reason, edit_letters.filter, cardinality(editable),
        jsonb_strip_nulls(jsonb_build_object('how', edit_letters.how)), operation);
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT g.id, CASE WHEN is_restore THEN v.payload ELSE g.payload END AS payload, v.raw, v.redacted,
               redrive.next_version(l.id, l.edits) AS version
        FROM unnest(edit_letters.ids, edit_letters.payloads) AS g (id, payload)
        JOIN redrive.dead_letters l ON l.id = g.id
        LEFT JOIN redrive.letter_versions v
            ON is_restore AND v.letter_id = g.id AND v.version = coalesce(to_version, l.edits - 1)
        WHERE l.id = ANY (editable)
    ),
    kept AS (
        INSERT INTO redrive.letter_versions (letter_id, version, payload, raw, redacted, person, reason)
        SELECT l.id, g.version, l.payload, l.raw, l.redacted, left(edit_letters.person, 200),
               left(edit_letters.reason, 1024)
        FROM given g
        JOIN redrive.dead_letters l ON l.id = g.id
    ),
    edited AS (
        UPDATE redrive.dead_letters l
        SET payload = g.payload, raw = g.raw, edits = g.version + 1, audit_id = operation,
            redacted = CASE WHEN is_restore THEN g.redacted
                WHEN l.redacted IS NOT NULL THEN redrive.still_redacted(l.redacted, g.payload) END,
            changed_at = clock_timestamp(),
            events = redrive.add_event(l.events, redrive.act_event(
                'edited', edit_letters.person, edit_letters.reason, jsonb_build_object('version', g.version + 1)))
        FROM given g
        WHERE l.id = g.id
        RETURNING l.id
    )
    SELECT e.id, operation FROM edited e ORDER BY e.id;
END
$$;

-- Deletes the versions of removed letters, unless a letter with the id remains or is in the archive. A foreign key would
-- look for them once per letter. It runs with the owner's privileges, because a worker cannot read the archive.
CREATE OR REPLACE FUNCTION redrive.delete_contents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
    DELETE FROM redrive.letter_versions v
    USING removed r
    WHERE v.letter_id = r.id
        AND NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.id = r.id)
        AND NOT EXISTS (SELECT FROM redrive.archived_letters a WHERE a.id = r.id);
    RETURN NULL;
END
$$;
