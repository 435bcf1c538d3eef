-- Records every change of a letter's row and of the archive: which columns changed, and the counts.
CREATE TABLE chaos.letters (
    seq        bigint  GENERATED ALWAYS AS IDENTITY,
    at         bigint  NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    began      bigint  NOT NULL DEFAULT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,
    tx         bigint  NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    process    text    NOT NULL DEFAULT current_setting('application_name'),
    letter     bigint  NOT NULL,
    place      text  NOT NULL,
    change     text  NOT NULL,
    changed    text[]  NOT NULL DEFAULT '{}',
    state      text,
    cause      text,
    generation integer,
    attempts   integer,
    earlier    integer,
    deaths     integer,
    alike      integer,
    failed     integer,
    edits      integer,
    seen       bigint,
    group_id   bigint,
    policy     bigint,
    class      text,
    message    text,
    changed_at bigint,
    died_at    bigint,
    content    text,
    has_secret boolean NOT NULL DEFAULT false,
    -- The creator of the run that sent it last, and its reason, which names the operation.
    "by"       text,
    reason     text
);

-- Records the removal of a row, a new row, or a change.
CREATE FUNCTION chaos.trace_letter_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    d redrive.dead_letters := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    changed text[] := '{}';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        changed := ARRAY(
            SELECT n.key FROM jsonb_each(to_jsonb(NEW)) n JOIN jsonb_each(to_jsonb(OLD)) o ON o.key = n.key
            WHERE n.value <> o.value ORDER BY n.key);
    END IF;
    INSERT INTO chaos.letters (letter, place, change, changed, state, cause, generation, attempts, earlier, deaths, alike,
                               failed, edits, seen, group_id, policy, class, message, changed_at, died_at, content,
                               has_secret, "by", reason)
    SELECT d.id, 'x', CASE TG_OP WHEN 'DELETE' THEN 'o' WHEN 'INSERT' THEN 'i' ELSE 'u' END, changed, d.state, d.cause,
            d.generation, d.attempts, d.earlier_attempts, d.deaths, d.alike, d.failed_redrives, d.edits, d.seen, d.group_id,
            d.policy_id, d.error_class, d.error_message, chaos.micros(d.changed_at), chaos.micros(d.died_at),
            md5(jsonb_build_array(d.queue, d.kind, d.priority, chaos.without_secret(d.payload::jsonb), d.headers, d.group_key, d.unique_key, d.cause,
                d.error_class, d.error_message, d.attempts, d.earlier_attempts, d.max_attempts, d.generation, d.deaths,
                d.edits, d.crashes, chaos.micros(d.enqueued_at), chaos.micros(d.died_at), d.source, d.position)::text),
            chaos.has_secret(to_jsonb(d)::text), r.person, r.reason
    FROM (SELECT d.run_id) l LEFT JOIN redrive.redrive_runs r ON r.id = l.run_id;
    RETURN NULL;
END
$$;
CREATE FUNCTION chaos.trace_archive() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    a redrive.archived_letters := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    l jsonb := a.letter;
BEGIN
    INSERT INTO chaos.letters (letter, place, change, state, content, has_secret)
    VALUES (a.id, 'a', CASE TG_OP WHEN 'DELETE' THEN 'o' WHEN 'INSERT' THEN 'i' ELSE 'u' END, l ->> 'state',
            md5(jsonb_build_array(a.queue, l -> 'kind', l -> 'priority', chaos.without_secret((l ->> 'payload')::jsonb), l -> 'headers', l -> 'group_key',
                l -> 'unique_key', l -> 'cause', l -> 'error_class', l -> 'error_message', l -> 'attempts',
                l -> 'earlier_attempts', l -> 'max_attempts', l -> 'generation', l -> 'deaths', l -> 'edits', l -> 'crashes',
                chaos.micros((l ->> 'enqueued_at')::timestamptz), chaos.micros((l ->> 'died_at')::timestamptz),
                l -> 'source', l -> 'position')::text),
            chaos.has_secret(l::text));
    RETURN NULL;
END
$$;

-- Whether a text has a value that the redaction rule removes.
CREATE FUNCTION chaos.has_secret(value text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN value ~ 'secret-[0-9]';

-- A restored payload is redacted again, even if an operator had replaced the value.
CREATE FUNCTION chaos.without_secret(payload jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE
    RETURN CASE jsonb_typeof(payload) WHEN 'object' THEN payload - 'secret' ELSE payload END;

-- Fires after redrive's triggers, which may still change the row.
CREATE TRIGGER zz_chaos_row AFTER INSERT OR UPDATE OR DELETE ON redrive.dead_letters
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_letter_row();
CREATE TRIGGER zz_chaos AFTER INSERT OR UPDATE OR DELETE ON redrive.archived_letters
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_archive();
