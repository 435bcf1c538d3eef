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

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
