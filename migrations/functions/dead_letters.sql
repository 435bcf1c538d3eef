-- Purpose: Dead letters, from death through redrive to recovery or discard.

-- A letter that is closed, quarantined or redriven no longer waits for a consumer, whichever statement changes it.
CREATE OR REPLACE FUNCTION redrive.end_waiting() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    NEW.retry_after := NULL;
    NEW.claimed_until := NULL;
    RETURN NEW;
END
$$;

-- Stores the bytes of a letter that has only their start. If a redaction rule applies to them, drops all of them.
CREATE OR REPLACE FUNCTION redrive.keep_pieces(id bigint, raw bytea) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    INSERT INTO redrive.captured_pieces (letter_id, version, place, bytes)
    SELECT l.id, l.edits, p.place, substring(keep_pieces.raw FROM (p.place - 1) * 1048576 + 1 FOR 1048576)
    FROM redrive.dead_letters l
    CROSS JOIN generate_series(1, (octet_length(keep_pieces.raw) - 1) / 1048576 + 1) AS p (place)
    WHERE l.id = keep_pieces.id;
    IF EXISTS (SELECT FROM redrive.redactions) THEN
        UPDATE redrive.dead_letters l
        SET raw = '[redacted]', redacted = (r.new).redacted
        FROM (SELECT redrive.redact(k) AS new FROM redrive.dead_letters k WHERE k.id = keep_pieces.id) r
        WHERE l.id = keep_pieces.id AND '' = ANY ((r.new).redacted);
        PERFORM redrive.drop_redacted_pieces(ARRAY[keep_pieces.id]);
    END IF;
END
$$;

-- Deletes the pieces of those letters and versions whose captured bytes are redacted.
CREATE OR REPLACE FUNCTION redrive.drop_redacted_pieces(ids bigint[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    DELETE FROM redrive.captured_pieces p
    WHERE p.letter_id = ANY (ids) AND (
        EXISTS (SELECT FROM redrive.dead_letters l
            WHERE l.id = p.letter_id AND l.edits = p.version AND '' = ANY (l.redacted))
        OR EXISTS (SELECT FROM redrive.letter_versions v
            WHERE v.letter_id = p.letter_id AND v.version = p.version AND '' = ANY (v.redacted)));
END
$$;

-- Deletes the versions and pieces of removed letters, unless a letter with the id remains or is in the archive. A foreign
-- key would look for them once per letter. It runs with the owner's privileges, because a worker cannot read the archive.
CREATE OR REPLACE FUNCTION redrive.delete_contents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    gone bigint[];
BEGIN
    IF EXISTS (SELECT FROM redrive.letter_versions) OR EXISTS (SELECT FROM redrive.captured_pieces) THEN
        gone := ARRAY(
            SELECT r.id FROM removed r
            WHERE NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.id = r.id)
                AND NOT EXISTS (SELECT FROM redrive.archived_letters a WHERE a.id = r.id));
        DELETE FROM redrive.letter_versions v WHERE v.letter_id = ANY (gone);
        DELETE FROM redrive.captured_pieces p WHERE p.letter_id = ANY (gone);
    END IF;
    RETURN NULL;
END
$$;
