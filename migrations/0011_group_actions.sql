-- Purpose: What operators do with failure groups.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Sets the state of a failure group: open, acknowledged, resolved or ignored. Letters do not change.
-- Returns whether the group exists.
CREATE FUNCTION redrive.set_group_state(group_id bigint, state text, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF set_group_state.state IS NULL OR set_group_state.state NOT IN ('open', 'acknowledged', 'resolved', 'ignored') THEN
        RAISE EXCEPTION 'redrive: unknown state % of a failure group; expected open, acknowledged, resolved or ignored',
            coalesce(quote_literal(set_group_state.state), 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Store a regression that is not folded yet, or it would be lost.
    UPDATE redrive.groups g
    SET state = set_group_state.state, regressed_at = f.regressed_at, regressions = f.regressions,
        resolved_at = CASE set_group_state.state WHEN 'resolved' THEN clock_timestamp() ELSE g.resolved_at END
    FROM redrive.failure_groups f
    WHERE g.id = set_group_state.group_id AND f.id = g.id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act(
        CASE set_group_state.state WHEN 'open' THEN 'reopen' WHEN 'acknowledged' THEN 'acknowledge'
                              WHEN 'resolved' THEN 'resolve' ELSE 'ignore' END || '_group',
        person, reason, NULL, 0, jsonb_build_object('group', set_group_state.group_id));
    RETURN true;
END
$$;

-- Replaces the note on a failure group; NULL deletes it. Returns whether the group exists.
CREATE FUNCTION redrive.note_group(group_id bigint, note text, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE redrive.groups g
    SET note = left(nullif(btrim(note_group.note), ''), 4096)
    WHERE g.id = note_group.group_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('note_group', person, reason, NULL, 0,
        jsonb_build_object('group', note_group.group_id, 'note', left(note_group.note, 4096)));
    RETURN true;
END
$$;

-- Sets the owner of a failure group; NULL: none. Returns whether the group exists.
CREATE FUNCTION redrive.assign_group(group_id bigint, owner text, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE redrive.groups g
    SET owner = left(nullif(btrim(assign_group.owner), ''), 200)
    WHERE g.id = assign_group.group_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('assign_group', person, reason, NULL, 0,
        jsonb_build_object('group', assign_group.group_id, 'owner', left(assign_group.owner, 200)));
    RETURN true;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
