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
