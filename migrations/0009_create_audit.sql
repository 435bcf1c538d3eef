-- Purpose: `audit`: every act of an operator, written in the transaction of the act.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: yes.
-- breaking: no

CREATE TABLE redrive.audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    verb    text        COLLATE "C" NOT NULL CHECK (verb <> ''),
    role    text        NOT NULL DEFAULT session_user,
    person  text,
    why     text,
    filter  jsonb,
    letters bigint      NOT NULL DEFAULT 0 CHECK (letters >= 0),
    about   jsonb
);

COMMENT ON TABLE redrive.audit IS 'Append-only: who did what to the letters, and why.';
COMMENT ON COLUMN redrive.audit.role IS 'The database role of the session.';
COMMENT ON COLUMN redrive.audit.person IS 'Who the program says it acts for: user@host of the operating system, as a rule.';
COMMENT ON COLUMN redrive.audit.letters IS 'How many letters it changed.';
COMMENT ON COLUMN redrive.audit.about IS 'What else there is to know: the run, the group, the policy, the edit.';

CREATE FUNCTION redrive.keep_audit() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'redrive: the audit is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON redrive.audit
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.keep_audit();

-- Writes an act into the audit; answers its id.
CREATE FUNCTION redrive.record_act(
    verb text, person text, why text, filter jsonb, letters bigint, about jsonb DEFAULT NULL
) RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO redrive.audit (verb, person, why, filter, letters, about)
    VALUES (record_act.verb, left(record_act.person, 200), left(record_act.why, 1024), record_act.filter,
            record_act.letters, record_act.about)
    RETURNING id
$$;

-- Says what a failure group is: open, acknowledged, resolved or ignored. Letters stay as they
-- are. Answers whether there is such a group.
CREATE FUNCTION redrive.mark_group(group_id bigint, state text, person text DEFAULT NULL, why text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF mark_group.state IS NULL OR mark_group.state NOT IN ('open', 'acknowledged', 'resolved', 'ignored') THEN
        RAISE EXCEPTION 'redrive: % is not a state of a failure group; there are open, acknowledged, resolved, ignored',
            coalesce(quote_literal(mark_group.state), 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- A regression that is not folded yet is taken along, or it would be forgotten.
    UPDATE redrive.groups g
    SET state = mark_group.state, regressed_at = f.regressed_at, regressions = f.regressions,
        resolved_at = CASE mark_group.state WHEN 'resolved' THEN clock_timestamp() ELSE g.resolved_at END
    FROM redrive.failure_groups f
    WHERE g.id = mark_group.group_id AND f.id = g.id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act(
        CASE mark_group.state WHEN 'open' THEN 'reopen' WHEN 'acknowledged' THEN 'acknowledge'
                              WHEN 'resolved' THEN 'resolve' ELSE 'ignore' END || '_group',
        person, why, NULL, 0, jsonb_build_object('group', mark_group.group_id));
    RETURN true;
END
$$;

-- Writes a note on a failure group, in place of the one that is there; NULL takes it away.
-- Answers whether there is such a group.
CREATE FUNCTION redrive.note_group(group_id bigint, note text, person text DEFAULT NULL, why text DEFAULT NULL)
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
    PERFORM redrive.record_act('note_group', person, why, NULL, 0,
        jsonb_build_object('group', note_group.group_id, 'note', left(note_group.note, 4096)));
    RETURN true;
END
$$;

-- Says whose a failure group is; NULL: nobody's. Answers whether there is such a group.
CREATE FUNCTION redrive.own_group(group_id bigint, owner text, person text DEFAULT NULL, why text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE redrive.groups g
    SET owner = left(nullif(btrim(own_group.owner), ''), 200)
    WHERE g.id = own_group.group_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('own_group', person, why, NULL, 0,
        jsonb_build_object('group', own_group.group_id, 'owner', left(own_group.owner, 200)));
    RETURN true;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
