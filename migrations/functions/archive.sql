-- Purpose: The archive: restoring and deleting its letters.

-- Returns a restored or imported letter, with its history and counts: in its state if it is one of `kept`, otherwise
-- open, or quarantined as before.
CREATE OR REPLACE FUNCTION redrive.readmitted(letter redrive.dead_letters, event jsonb, kept text[] DEFAULT '{}')
    RETURNS redrive.dead_letters
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    is_kept CONSTANT boolean := letter.state = ANY (kept);
BEGIN
    IF letter.state = 'recovered' AND NOT is_kept THEN
        letter.events := redrive.add_event(letter.events, jsonb_build_object(
            'at', letter.changed_at, 'event', 'recovered'));
    END IF;
    letter.discard_reason := CASE WHEN is_kept AND letter.state = 'discarded'
        THEN coalesce(redrive.last_discard(letter.events) ->> 'reason', '') END;
    letter.state := CASE
        WHEN is_kept THEN letter.state
        WHEN letter.state = 'quarantined' OR letter.state = 'discarded' AND redrive.last_discard(letter.events) ->> 'was' = 'quarantined'
        THEN 'quarantined' ELSE 'open' END;
    letter.events := redrive.add_event(letter.events, event);
    letter.run_ordinal := NULL;
    letter.claimed_until := NULL;
    letter.archived_at := NULL;
    letter.audit_id := NULL;
    letter.changed_at := clock_timestamp();
    RETURN letter;
END
$$;

-- Restores one page of archived letters, as `page_letters` finds it, and writes the audit. Returns for each whether it was
-- restored: it stays in the archive if a letter has its id, or its source and position. `audit` is the record of the first
-- batch of the operation. It runs with the owner's privileges, so that no role takes letters out without a record.
CREATE OR REPLACE FUNCTION redrive.restore_archived(
    filter jsonb, after bigint, max_letters bigint, person text, reason text, audit bigint DEFAULT NULL
) RETURNS TABLE (id bigint, is_restored boolean, audit_id bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    page  bigint[] := ARRAY(SELECT redrive.page_letters(
        restore_archived.filter, after, redrive.limit_of('max_letters', max_letters), archived => true));
    taken bigint[];
    event jsonb := redrive.act_event('restored', restore_archived.person, restore_archived.reason);
BEGIN
    IF cardinality(page) = 0 THEN
        RETURN;
    END IF;
    WITH added AS (
        INSERT INTO redrive.dead_letters AS l
        SELECT u.*
        FROM redrive.archived_letters a
        CROSS JOIN LATERAL redrive.readmitted(ROW(a.*)::redrive.dead_letters, event) u
        WHERE a.id = ANY (page)
            -- An insert would first find its group, or create it.
            AND NOT EXISTS (SELECT FROM redrive.dead_letters k WHERE k.id = a.id)
            AND NOT EXISTS (SELECT FROM redrive.dead_letters k WHERE k.source = a.source AND k."position" = a."position")
        ORDER BY a.id
        FOR UPDATE OF a
        ON CONFLICT DO NOTHING
        RETURNING l.id
    )
    SELECT array_agg(n.id) INTO taken FROM added n;
    IF taken IS NOT NULL THEN
        restore_archived.audit := redrive.record_act('restore', restore_archived.person, restore_archived.reason,
            restore_archived.filter, cardinality(taken), batch_of => restore_archived.audit);
        UPDATE redrive.dead_letters l SET audit_id = restore_archived.audit WHERE l.id = ANY (taken);
        DELETE FROM redrive.archived_letters a WHERE a.id = ANY (taken);
    END IF;
    RETURN QUERY
    SELECT u.id, u.id = ANY (coalesce(taken, '{}')), restore_archived.audit FROM unnest(page) AS u (id);
END
$$;

-- Deletes up to `max_letters` archived letters that match a filter, and writes the audit. Returns how many, and the record
-- of the first batch, which is `audit` for later ones. It runs with the owner's privileges; see `restore_archived`.
-- Locks: the archived letters that it deletes. Index: the primary key of archived_letters, or
-- archived_letters_by_queue.
CREATE OR REPLACE FUNCTION redrive.delete_archived(
    filter jsonb, max_letters bigint, person text, reason text, audit bigint DEFAULT NULL,
    OUT letters bigint, OUT audit_id bigint
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
BEGIN
    EXECUTE
        'DELETE FROM redrive.archived_letters d WHERE d.id = ANY (ARRAY('
        ' SELECT a.id FROM redrive.archived_letters a WHERE ' || redrive.filter_letters(filter, 'a')
        || ' ORDER BY a.id LIMIT $2 FOR UPDATE))'
        USING filter, redrive.limit_of('max_letters', max_letters);
    GET DIAGNOSTICS letters = ROW_COUNT;
    IF letters > 0 THEN
        audit_id := redrive.record_act('delete_archived', person, reason, filter, letters, batch_of => audit);
    END IF;
END
$$;
