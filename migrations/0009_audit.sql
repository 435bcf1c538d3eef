-- Purpose: The audit: every operator action, written in the transaction of the action.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

CREATE TABLE redrive.audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    verb    text        COLLATE "C" NOT NULL CHECK (verb <> ''),
    role    text        NOT NULL DEFAULT session_user,
    person  text,
    reason     text,
    filter  jsonb,
    letters bigint      NOT NULL DEFAULT 0 CHECK (letters >= 0),
    about   jsonb
);

COMMENT ON TABLE redrive.audit IS 'Append-only record of operator actions.';
COMMENT ON COLUMN redrive.audit.role IS 'The database role of the session.';
COMMENT ON COLUMN redrive.audit.person IS 'The operator as named by the program, usually user@host.';
COMMENT ON COLUMN redrive.audit.reason IS 'The explanation that the operator gave.';
COMMENT ON COLUMN redrive.audit.letters IS 'How many letters, or jobs, the action changed.';
COMMENT ON COLUMN redrive.audit.about IS 'Further facts: the run, the group, the policy, the edit.';

CREATE FUNCTION redrive.protect_audit() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'redrive: the audit is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON redrive.audit
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.protect_audit();

-- Writes an action into the audit and returns its id.
CREATE FUNCTION redrive.record_act(
    verb text, person text, reason text, filter jsonb, letters bigint, about jsonb DEFAULT NULL
) RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO redrive.audit (verb, person, reason, filter, letters, about)
    VALUES (record_act.verb, left(record_act.person, 200), left(record_act.reason, 1024), record_act.filter,
            record_act.letters, record_act.about)
    RETURNING id
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
