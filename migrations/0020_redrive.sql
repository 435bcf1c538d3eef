-- Purpose: Redriving and discarding letters by filter.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Sends back up to `max_letters` matching letters, oldest death first, and writes the audit, in the transaction of
-- the caller. `passed` are letters that were tried and refused before. Returns the result for each letter.
CREATE FUNCTION redrive.redrive_letters(
    filter jsonb, as_of timestamptz, max_letters bigint, passed bigint[], reason text, person text,
    to_queue text, priority integer, max_attempts integer, forced boolean
) RETURNS TABLE (id bigint, result text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    chosen bigint[];
    tried  bigint[];
    results text[];
    sent   bigint := 0;
    event  jsonb := jsonb_strip_nulls(jsonb_build_object(
        'at', clock_timestamp(), 'event', CASE WHEN forced THEN 'forced' ELSE 'redriven' END,
        'by', coalesce(person, session_user), 'reason', nullif(reason, ''), 'queue', to_queue));
BEGIN
    PERFORM redrive.check_redrive(to_queue, priority, max_attempts, forced, reason);
    chosen := ARRAY(
        SELECT c FROM redrive.lock_letters(
            redrive_letters.filter, CASE WHEN forced THEN '{open,quarantined}'::text[] ELSE '{open}' END,
            as_of, max_letters + cardinality(passed), true) AS c
        WHERE c <> ALL (passed)
        LIMIT max_letters);
    FOR from_place IN 1..cardinality(chosen) BY 5000 LOOP
        SELECT array_agg(b.id), array_agg(b.result), sent + count(*) FILTER (WHERE b.result = 'sent')
        INTO tried, results, sent
        FROM redrive.send_back(
            chosen[from_place:from_place + 4999], event, to_queue, priority, max_attempts, forced) b;
        RETURN QUERY SELECT * FROM unnest(tried, results);
    END LOOP;
    IF sent > 0 THEN
        PERFORM redrive.record_act('redrive', person, reason, redrive_letters.filter, sent,
            jsonb_strip_nulls(jsonb_build_object('to', to_queue, 'priority', priority,
                'max_attempts', max_attempts, 'forced', nullif(forced, false))));
    END IF;
END
$$;

-- Redrives the open letters that match a filter, in the transaction of the caller, and returns their
-- number. `force` includes quarantined letters and needs a `reason`.
CREATE FUNCTION redrive.redrive(
    filter       jsonb,
    reason          text    DEFAULT NULL,
    person       text    DEFAULT NULL,
    to_queue     text    DEFAULT NULL,
    priority     integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    force        boolean DEFAULT false,
    max_letters         bigint  DEFAULT NULL
) RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*) FILTER (WHERE r.result = 'sent')
    FROM redrive.redrive_letters($1, statement_timestamp(), coalesce($8, 9223372036854775807), '{}',
                                 $2, $3, $4, $5, $6, $7) r
$$;

-- Discards up to `max_letters` open or quarantined letters that match a filter and writes the audit, in the
-- transaction of the caller. Returns their ids.
CREATE FUNCTION redrive.discard_letters(
    filter jsonb, as_of timestamptz, max_letters bigint, reason text, person text
) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    chosen bigint[];
    event  jsonb := jsonb_build_object('at', clock_timestamp(), 'event', 'discarded',
        'by', coalesce(person, session_user), 'reason', reason);
BEGIN
    IF coalesce(btrim(reason, E' \t\r\n'), '') = '' THEN
        RAISE EXCEPTION 'redrive: a discard needs a reason' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    chosen := ARRAY(SELECT c FROM redrive.lock_letters(
        discard_letters.filter, '{open,quarantined}', as_of, max_letters) AS c);
    IF cardinality(chosen) = 0 THEN
        RETURN;
    END IF;
    UPDATE redrive.dead_letters l
    SET state = 'discarded', discard_reason = redrive.clip(discard_letters.reason, 1024),
        changed_at = clock_timestamp(), events = redrive.add_event(l.events, event)
    WHERE l.id = ANY (chosen);
    PERFORM redrive.record_act('discard', person, reason, discard_letters.filter, cardinality(chosen));
    RETURN QUERY SELECT unnest(chosen);
END
$$;

-- Discards the open and quarantined letters that match a filter, in the transaction of the caller, and
-- returns their number.
CREATE FUNCTION redrive.discard(filter jsonb, reason text, person text DEFAULT NULL, max_letters bigint DEFAULT NULL)
    RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*)
    FROM redrive.discard_letters($1, statement_timestamp(), coalesce($4, 9223372036854775807), $2, $3) d
$$;

-- Returns queues and kinds to which a redrive would send letters but that no live worker handles.
CREATE FUNCTION redrive.unserved_letters(filter jsonb, to_queue text DEFAULT NULL, forced boolean DEFAULT false)
    RETURNS TABLE (queue text, kind text, letters bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT g.queue, g.kind, g.letters FROM ('
        ' SELECT coalesce($2, l.queue::text) AS queue, l.kind::text AS kind, count(*) AS letters'
        ' FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $3 AND l.state = ''quarantined'') AND l.payload IS NOT NULL AND '
        || redrive.filter_letters(filter) || ' GROUP BY 1, 2) g'
        ' WHERE NOT EXISTS (SELECT FROM redrive.workers w WHERE w.queue = g.queue'
        '  AND w.expires_at > statement_timestamp() AND (w.kinds IS NULL OR g.kind = ANY (w.kinds)))'
        ' ORDER BY g.letters DESC, g.queue, g.kind'
        USING filter, to_queue, forced;
END
$$;

-- Returns what a redrive would send back, by failure group, largest first.
CREATE FUNCTION redrive.preview_redrive(filter jsonb, forced boolean DEFAULT false)
    RETURNS TABLE (group_id bigint, queue text, kind text, error_class text, title text, letters bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT n.group_id, g.queue::text, g.kind::text, g.error_class, g.title, n.letters FROM ('
        ' SELECT l.group_id, count(*) AS letters FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $2 AND l.state = ''quarantined'') AND l.payload IS NOT NULL AND '
        || redrive.filter_letters(filter) || ' GROUP BY 1) n'
        ' JOIN redrive.groups g ON g.id = n.group_id ORDER BY n.letters DESC, n.group_id'
        USING filter, forced;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
