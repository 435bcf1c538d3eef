-- Records every tick of a policy.
CREATE TABLE chaos.policy_ticks (
    seq     bigint  GENERATED ALWAYS AS IDENTITY,
    began   bigint  NOT NULL DEFAULT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,
    tx      bigint  NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    process text    NOT NULL DEFAULT current_setting('application_name'),
    policy  bigint  NOT NULL,
    -- When the tick was due, and when the next one is.
    due     bigint  NOT NULL,
    next    bigint  NOT NULL,
    letters bigint  NOT NULL,
    error   text,
    -- The oldest letter without a unique key that the tick left although it matched, with the transaction that wrote
    -- its row. No session has locked that row since: a tick skips a locked letter, and locks those that it chooses.
    letter  bigint,
    version bigint,
    died_at bigint
);

CREATE FUNCTION chaos.trace_policy() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    oldest  record;
    redrove bigint := 0;
BEGIN
    -- Each lock of a row leaves its transaction in xmax, even if it changed nothing or was rolled back. The
    -- transaction that wrote the row may have locked it before.
    SELECT l.id, l.xmin::text::bigint AS version, chaos.micros(l.died_at) AS died_at INTO oldest
    FROM redrive.dead_letters l
    WHERE l.state = 'open' AND l.queue = NEW.policy #>> '{letters,queue}'
        AND l.generation < (NEW.policy ->> 'generations')::integer
        AND l.payload IS NOT NULL AND l.redacted IS NULL
        -- A tick leaves a letter whose key is held, and the key may be free by now.
        AND l.unique_key IS NULL AND l.xmax::text IN ('0', l.xmin::text)
    ORDER BY l.died_at, l.id LIMIT 1;
    -- A tick that failed keeps its time.
    IF NEW.next_at <> OLD.next_at THEN
        SELECT t.letters INTO redrove FROM redrive.schedule_ticks t
        WHERE t.schedule = NEW.name AND t.outcome = 'fired' ORDER BY t.id DESC LIMIT 1;
    END IF;
    INSERT INTO chaos.policy_ticks (policy, due, next, letters, error, letter, version, died_at)
    VALUES (NEW.id, chaos.micros(OLD.next_at), chaos.micros(NEW.next_at), redrove, NEW.last_error,
            oldest.id, oldest.version, oldest.died_at);
    RETURN NULL;
END
$$;

CREATE TRIGGER zz_chaos AFTER UPDATE ON redrive.schedules
    FOR EACH ROW WHEN (NEW.policy IS NOT NULL
        AND (NEW.next_at, NEW.retry_at) IS DISTINCT FROM (OLD.next_at, OLD.retry_at)) EXECUTE FUNCTION chaos.trace_policy();
