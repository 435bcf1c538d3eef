-- Purpose: The view `dlq_events`: every failure in the columns and states of the classic PostgreSQL dead letter table;
--          and its archive.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Returns the open letters that active policies will redrive, and when each policy may redrive them. A letter
-- that matches two policies is returned twice. It returns no content, so every role that reads the view may
-- call it.
CREATE FUNCTION redrive.letters_with_policy() RETURNS TABLE (letter_id bigint, retry_after timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    policy redrive.policies;
BEGIN
    FOR policy IN SELECT p.* FROM redrive.policies p WHERE p.mode = 'active' LOOP
        RETURN QUERY EXECUTE
            'SELECT l.id, greatest($2, l.died_at + redrive.policy_wait($3, $4, $5, l.generation))'
            ' FROM redrive.dead_letters l'
            ' WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.generation < $6'
            '    AND ' || redrive.filter_letters(policy.filter)
            USING policy.filter, policy.next_at, policy.every, policy.growth, policy.max_delay, policy.generations;
    END LOOP;
END
$$;

-- Everything that failed at least once, one row per event. PENDING will be attempted: by a worker, by a policy,
-- or, if it was captured, once a consumer claims or an operator redrives it. PROCESSING is being attempted, SUCCEEDED
-- recovered after a redrive, FAILED_PERMANENTLY waits for an operator, as does a captured body that is not JSON or
-- that was redacted. A letter that is being redriven appears as a live job. Each branch has one status, so that a condition on the status leaves only the branches that it
-- selects, and these use their indexes.
CREATE VIEW redrive.dlq_events AS
    SELECT j.id,
           j.kind AS event_type,
           j.payload,
           coalesce(j.history -> -1 ->> 'error_message', j.history -> -1 ->> 'outcome', l.error_message, '') AS error_reason,
           coalesce(l.error_detail, d.detail) AS error_stacktrace,
           CASE j.state WHEN 'leased' THEN 'PROCESSING' ELSE 'PENDING' END AS status,
           coalesce(l.earlier_attempts + l.attempts, 0)
               + CASE j.state WHEN 'leased' THEN j.attempt - 1 ELSE j.attempt END AS retry_count,
           j.run_at AS retry_after,
           -- A record of an attempt is an object or an array; see `history_before`.
           coalesce((coalesce(e.history -> 0 ->> 'ended_at', e.history -> 0 ->> 2))::timestamptz, l.died_at, j.enqueued_at) AS created_at,
           coalesce((j.history -> -1 ->> 'ended_at')::timestamptz, l.changed_at, j.enqueued_at) AS updated_at
    FROM redrive.live_jobs j
    -- The letter has the attempts before the redrive.
    LEFT JOIN redrive.dead_letters l ON j.generation > 0 AND l.id = j.id
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    CROSS JOIN LATERAL (SELECT CASE WHEN l.id IS NULL THEN j.history ELSE l.history END AS history) e
    WHERE j.history IS NOT NULL OR j.generation > 0
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_json(encode(l.raw, 'base64'))), l.error_message,
           coalesce(l.error_detail, d.detail), 'PENDING', l.earlier_attempts + l.attempts, p.retry_after,
           l.died_at, l.changed_at
    FROM (
        SELECT w.letter_id, min(w.retry_after) AS retry_after
        FROM redrive.letters_with_policy() w
        GROUP BY w.letter_id
    ) p
    JOIN redrive.dead_letters l ON l.id = p.letter_id
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state = 'open'
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_json(encode(l.raw, 'base64'))), l.error_message,
           coalesce(l.error_detail, d.detail), 'PENDING', l.earlier_attempts + l.attempts, l.died_at,
           l.died_at, l.changed_at
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state = 'open' AND l.cause = 'captured' AND l.payload IS NOT NULL AND l.redacted IS NULL
        AND l.id NOT IN (SELECT w.letter_id FROM redrive.letters_with_policy() w)
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_json(encode(l.raw, 'base64'))), l.error_message,
           coalesce(l.error_detail, d.detail), 'FAILED_PERMANENTLY', l.earlier_attempts + l.attempts, l.died_at,
           l.died_at, l.changed_at
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state = 'open' AND (l.cause <> 'captured' OR l.payload IS NULL OR l.redacted IS NOT NULL)
        AND l.id NOT IN (SELECT w.letter_id FROM redrive.letters_with_policy() w)
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_json(encode(l.raw, 'base64'))), l.error_message,
           coalesce(l.error_detail, d.detail), 'FAILED_PERMANENTLY', l.earlier_attempts + l.attempts, l.died_at,
           l.died_at, l.changed_at
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state IN ('quarantined', 'discarded')
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_json(encode(l.raw, 'base64'))), l.error_message,
           coalesce(l.error_detail, d.detail), 'SUCCEEDED', l.earlier_attempts + l.attempts, l.died_at,
           l.died_at, l.changed_at
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state = 'recovered';

COMMENT ON VIEW redrive.dlq_events IS 'Failed events in the columns and states of the classic PostgreSQL dead letter table.';

-- Deletes or archives a closed letter. Returns whether it did.
CREATE FUNCTION redrive.remove_event(event_id bigint, action text) RETURNS boolean
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (
        DELETE FROM redrive.dead_letters l
        WHERE l.id = remove_event.event_id AND l.state IN ('recovered', 'discarded')
        RETURNING l.id, l.queue, l.detail_id, l.run_id, l.run_ordinal, l AS letter
    ),
    kept AS (
        INSERT INTO redrive.archived_letters (id, queue, letter)
        SELECT g.id, g.queue, redrive.archive_json(g.letter, d.detail, (
            SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('version', v.version, 'at', v.at, 'person', v.person,
                       'reason', v.reason, 'payload', v.payload::text,
                       'raw_base64', translate(encode(v.raw, 'base64'), E'\n', ''))) ORDER BY v.version)
            FROM redrive.letter_versions v WHERE v.letter_id = g.id AND (g.letter).edits > 0))
        FROM gone g
        LEFT JOIN redrive.details d ON d.id = g.detail_id
        WHERE remove_event.action = 'archive'
    ),
    left_run AS (
        DELETE FROM redrive.run_letters m
        USING gone g, redrive.redrive_runs r
        WHERE m.run_id = g.run_id AND m.ordinal = g.run_ordinal
            AND r.id = g.run_id AND r.state IN ('finished', 'cancelled')
    ),
    -- The statement's trigger writes one audit row for all events.
    counted AS MATERIALIZED (
        SELECT set_config('redrive.removed_events',
            (coalesce(nullif(current_setting('redrive.removed_events', true), ''), '0')::bigint + 1)::text, true)
        FROM gone
    )
    SELECT count(*) > 0 FROM counted
$$;

CREATE FUNCTION redrive.delete_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF redrive.remove_event(OLD.id, 'delete') THEN
        RETURN OLD;
    ELSIF OLD.status = 'SUCCEEDED' THEN
        -- Another session was faster.
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'redrive: event % is %; only closed events can be deleted', OLD.id, OLD.status
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'redrive.discard closes a letter.';
END
$$;

CREATE FUNCTION redrive.archive_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF redrive.remove_event(NEW.id, 'archive') THEN
        RETURN NEW;
    ELSIF NEW.status = 'SUCCEEDED' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'redrive: event % is %; only closed events can be archived', NEW.id, NEW.status
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'redrive.discard closes a letter.';
END
$$;

-- Writes one audit row for the events that a statement removed.
CREATE FUNCTION redrive.audit_removed_events() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    removed bigint := nullif(current_setting('redrive.removed_events', true), '');
BEGIN
    IF removed > 0 THEN
        PERFORM redrive.record_act('prune', NULL, TG_OP || ' on ' || TG_TABLE_NAME, NULL, removed,
            jsonb_build_object('action', CASE TG_OP WHEN 'DELETE' THEN 'delete' ELSE 'archive' END));
        PERFORM set_config('redrive.removed_events', '', true);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER delete_event INSTEAD OF DELETE ON redrive.dlq_events
    FOR EACH ROW EXECUTE FUNCTION redrive.delete_event();
CREATE TRIGGER audit_deleted AFTER DELETE ON redrive.dlq_events
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_removed_events();

-- The archived letters in the columns of `dlq_events`. An INSERT moves the closed letter with that id to the archive.
CREATE VIEW redrive.dlq_events_archive AS
    SELECT a.id, a.letter ->> 'kind' AS event_type, coalesce((a.letter ->> 'payload')::json, to_json(a.letter ->> 'raw_base64')) AS payload,
           a.letter ->> 'error_message' AS error_reason, a.letter ->> 'error_detail' AS error_stacktrace,
           CASE a.letter ->> 'state' WHEN 'recovered' THEN 'SUCCEEDED' ELSE 'FAILED_PERMANENTLY' END AS status,
           coalesce((a.letter ->> 'earlier_attempts')::integer, 0) + coalesce((a.letter ->> 'attempts')::integer, 0)
               AS retry_count,
           (a.letter ->> 'died_at')::timestamptz AS retry_after, (a.letter ->> 'died_at')::timestamptz AS created_at,
           (a.letter ->> 'changed_at')::timestamptz AS updated_at
    FROM redrive.archived_letters a;

COMMENT ON VIEW redrive.dlq_events_archive IS 'Archived letters in the columns of dlq_events.';

CREATE TRIGGER archive_event INSTEAD OF INSERT ON redrive.dlq_events_archive
    FOR EACH ROW EXECUTE FUNCTION redrive.archive_event();
CREATE TRIGGER audit_archived AFTER INSERT ON redrive.dlq_events_archive
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_removed_events();

REVOKE ALL ON redrive.dlq_events, redrive.dlq_events_archive FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
