-- Purpose: The trigger that deletes the contents of letters.

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
