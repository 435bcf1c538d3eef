-- Purpose: The audit: every operator action, written in the transaction of the action.

CREATE OR REPLACE FUNCTION redrive.protect_audit() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    -- Set only by `prune_audit` and `erase_batch`, around one statement.
    IF TG_OP IN ('UPDATE', 'DELETE') AND current_setting('redrive.audit_change', true) = TG_OP THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'redrive: the audit is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

-- Writes an action into the audit. Returns the id of the record, or, for a later batch of an operation, that of the first.
CREATE OR REPLACE FUNCTION redrive.record_act(
    verb text, person text, reason text, filter jsonb, letters bigint, about jsonb DEFAULT NULL, batch_of bigint DEFAULT NULL
) RETURNS bigint
    LANGUAGE sql VOLATILE
AS $$
    INSERT INTO redrive.audit (verb, person, reason, filter, letters, about, batch_of)
    VALUES (record_act.verb, left(record_act.person, 200), left(record_act.reason, 1024), record_act.filter,
            record_act.letters, record_act.about, record_act.batch_of)
    RETURNING coalesce(record_act.batch_of, id)
$$;

-- Writes an action on a breaker, a pause, a limit or a policy into the audit, and tells the workers. `about` names the breaker
-- or the queue. Returns the id of the record.
CREATE OR REPLACE FUNCTION redrive.record_gate(verb text, person text, reason text, about jsonb) RETURNS bigint
    LANGUAGE sql VOLATILE
AS $$
    SELECT pg_notify('redrive_breaker', coalesce(about ->> 'breaker', 'queue:' || (about ->> 'queue')));
    SELECT redrive.record_act(verb, person, reason, NULL, 0, about);
$$;

-- Returns the event of an action for the letters that it changes. It keeps as much of the name and the reason as the audit.
CREATE OR REPLACE FUNCTION redrive.act_event(event text, person text, reason text, about jsonb DEFAULT '{}') RETURNS jsonb
    LANGUAGE sql VOLATILE
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'at', clock_timestamp(), 'event', act_event.event, 'by', coalesce(left(act_event.person, 200), session_user),
        'reason', left(nullif(act_event.reason, ''), 1024)) || act_event.about);

-- Returns the time before which records are older than `older_than`, at least 30 days, and can be pruned.
CREATE OR REPLACE FUNCTION redrive.audit_horizon(older_than interval) RETURNS timestamptz
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    PERFORM redrive.refuse(CASE WHEN older_than >= '30 days' IS NOT TRUE THEN format(
        'audit records can be pruned after 30 days, not after %s',
        coalesce(round(extract(epoch FROM older_than) / 86400, 1)::text, 'NULL')) END);
    -- Months compare as 30 days, and are subtracted as they are, so an older time may lie in the future.
    RETURN least(statement_timestamp() - least(older_than, interval '36600 days'), statement_timestamp() - interval '30 days');
END
$$;

-- Deletes up to `max_records` records that are old enough, oldest first, and records that. Returns the number deleted.
-- It runs with the owner's privileges: no other role may delete a record, so that a recent action cannot be hidden.
CREATE OR REPLACE FUNCTION redrive.prune_audit(
    older_than interval, max_records bigint DEFAULT 5000, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    horizon CONSTANT timestamptz := redrive.audit_horizon(older_than);
    deleted bigint;
    newest  timestamptz;
BEGIN
    PERFORM set_config('redrive.audit_change', 'DELETE', true);
    WITH gone AS (
        DELETE FROM redrive.audit a
        WHERE a.id = ANY (ARRAY(
            SELECT o.id FROM redrive.audit o
            WHERE o.at < horizon
            ORDER BY o.id
            LIMIT redrive.limit_of('max_records', max_records)
            -- An erasure may be changing some of them.
            FOR UPDATE SKIP LOCKED))
        RETURNING a.at
    )
    SELECT count(*), max(g.at) INTO deleted, newest FROM gone g;
    PERFORM set_config('redrive.audit_change', '', true);
    IF deleted > 0 THEN
        PERFORM redrive.record_act('prune_audit', person, reason, NULL, 0, jsonb_build_object(
            'older_than', older_than, 'records', deleted, 'newest', newest));
    END IF;
    RETURN deleted;
END
$$;

-- Returns whether a payload condition of a stored filter contains all conditions of `predicate`, each in its
-- parentheses.
CREATE OR REPLACE FUNCTION redrive.names_payload(stored text, predicate text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN stored = predicate OR (
        SELECT bool_and(strpos(stored, '(' || c.condition || ')') > 0)
        FROM unnest(string_to_array(
            CASE WHEN predicate LIKE '(%)' THEN substr(predicate, 2, length(predicate) - 2) ELSE predicate END,
            ') && (')) AS c (condition));
