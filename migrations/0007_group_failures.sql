-- Purpose: failure groups: letters that died of the same thing, counted without a scan; large
--          texts stored once a group; what a letter needs to tell its whole story.
-- Locks: dead_letters exclusively, while the letters that are there are put into their groups.
-- Safe under running workers of the previous version: no, they write letters without a group.
-- breaking: yes

-- A message without what differs from one failure to the next: quoted strings, uuids, and any
-- word with a digit in it (numbers, ids, addresses, timestamps) become `?`, and a list of them
-- one `?`. A thousand messages that differ in an id are one.
CREATE FUNCTION redrive.mask(message text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    -- What makes failures the same is said at the beginning.
    masked text := left(message, 500);
BEGIN
    -- A quotation mark is also an apostrophe, and telling them apart takes ten times as long.
    IF position('''' IN masked) > 0 THEN
        masked := regexp_replace(masked, '(^|\W)''[^'']*''(?!\w)', '\1?', 'g');
    END IF;
    masked := regexp_replace(masked,
        '"[^"]*"|`[^`]*`|[[:xdigit:]]+-[[:xdigit:]]+-[[:xdigit:]]+-[[:xdigit:]]+-[[:xdigit:]]+'
        '|\w*[0-9]\w*(?:[.,:+/-]\w*[0-9]\w*)*',
        '?', 'g');
    IF position('?, ?' IN masked) > 0 THEN
        masked := regexp_replace(masked, '\?(, \?)+', '?', 'g');
    END IF;
    RETURN masked;
END
$$;

-- What makes two failures the same: queue, kind, error class and masked message.
CREATE FUNCTION redrive.fingerprint(queue text, kind text, error_class text, masked text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT encode(substring(
        sha256(convert_to(concat_ws(E'\x1f', queue, kind, error_class, masked), 'UTF8')) FOR 16), 'hex')::uuid
$$;

-- One row a failure group. The numbers are totals of `letter_deltas` that were folded in; read
-- them through the view `failure_groups`, which adds those that were not yet.
CREATE TABLE redrive.groups (
    id            bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint   uuid         NOT NULL UNIQUE,
    queue         redrive.name NOT NULL,
    kind          redrive.name NOT NULL,
    error_class   text         COLLATE "C" NOT NULL,
    title         text         NOT NULL,
    sample        text         NOT NULL,
    state         text         COLLATE "C" NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'acknowledged', 'resolved', 'ignored')),
    note          text,
    owner         text,
    first_seen    timestamptz  NOT NULL DEFAULT clock_timestamp(),
    first_version text,
    last_seen     timestamptz  NOT NULL DEFAULT clock_timestamp(),
    resolved_at   timestamptz,
    regressed_at  timestamptz,
    regressions   integer      NOT NULL DEFAULT 0 CHECK (regressions >= 0),
    deaths        bigint       NOT NULL DEFAULT 0,
    open          bigint       NOT NULL DEFAULT 0,
    redriving     bigint       NOT NULL DEFAULT 0,
    recovered     bigint       NOT NULL DEFAULT 0,
    discarded     bigint       NOT NULL DEFAULT 0,
    quarantined   bigint       NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

COMMENT ON COLUMN redrive.groups.title IS 'The message with what differs masked.';
COMMENT ON COLUMN redrive.groups.sample IS 'The first message, as it came.';
COMMENT ON COLUMN redrive.groups.deaths IS 'Deaths ever, also those of letters that were pruned.';

CREATE INDEX groups_by_class ON redrive.groups (error_class, queue, kind);

-- Deaths by group and hour (UTC): the last days, for sparklines.
CREATE TABLE redrive.failure_hours (
    group_id bigint      NOT NULL,
    hour     timestamptz NOT NULL,
    deaths   bigint      NOT NULL,
    PRIMARY KEY (group_id, hour)
);

-- What changed in the numbers of a group: inserted by a trigger in the same statement as every
-- change of a letter, so that no statement can forget it and no crash can part them; folded into
-- `groups` and `failure_hours` every few seconds. Inserts never wait for one another, as updates
-- of one row for each group would.
CREATE TABLE redrive.letter_deltas (
    group_id    bigint NOT NULL,
    hour        timestamptz,
    died_at     timestamptz,
    deaths      bigint NOT NULL,
    open        bigint NOT NULL,
    redriving   bigint NOT NULL,
    recovered   bigint NOT NULL,
    discarded   bigint NOT NULL,
    quarantined bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

COMMENT ON COLUMN redrive.letter_deltas.hour IS 'Of the deaths; NULL: nothing died, letters only changed their state.';
COMMENT ON COLUMN redrive.letter_deltas.died_at IS 'The last of the deaths.';

-- Details (cause chain, backtrace) that are long: once a group, however many letters have them.
CREATE TABLE redrive.details (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id bigint NOT NULL,
    digest   uuid   NOT NULL,
    detail   text   NOT NULL,
    UNIQUE (group_id, digest)
);

COMMENT ON COLUMN redrive.details.digest IS 'Of the masked detail: ids and addresses do not make it another one.';

-- What must not be kept: at the moment of death, by whichever door, the values at these paths
-- of the payload and what matches these patterns in the texts become `[redacted]`.
CREATE TABLE redrive.redactions (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue    redrive.name,
    kind     redrive.name,
    paths    text[] NOT NULL DEFAULT '{}',
    patterns text[] NOT NULL DEFAULT '{}'
);

COMMENT ON COLUMN redrive.redactions.queue IS 'NULL: every queue.';
COMMENT ON COLUMN redrive.redactions.kind IS 'NULL: every kind.';
COMMENT ON COLUMN redrive.redactions.paths IS 'JSON pointers into the payload, such as /card/number.';
COMMENT ON COLUMN redrive.redactions.patterns IS 'Regular expressions of PostgreSQL, for the texts of errors, headers, and bytes that are not JSON.';

-- A redaction that cannot be applied would be found out at a death.
CREATE FUNCTION redrive.check_redaction() RETURNS trigger
    LANGUAGE plpgsql
AS $$
DECLARE
    pointer text;
    pattern text;
BEGIN
    IF cardinality(NEW.paths) + cardinality(NEW.patterns) = 0 THEN
        RAISE EXCEPTION 'redrive: a redaction needs a path or a pattern' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOREACH pointer IN ARRAY NEW.paths LOOP
        IF coalesce(pointer NOT LIKE '/%' OR pointer ~ '~($|[^01])', true) THEN
            RAISE EXCEPTION 'redrive: % is not a JSON pointer; one looks like /card/number', coalesce(pointer, 'NULL')
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    FOREACH pattern IN ARRAY NEW.patterns LOOP
        IF coalesce(pattern, '') = '' THEN
            RAISE EXCEPTION 'redrive: a pattern of a redaction is empty' USING ERRCODE = 'invalid_parameter_value';
        END IF;
        BEGIN
            PERFORM regexp_replace('', pattern, '', 'g');
        EXCEPTION WHEN OTHERS THEN
            RAISE EXCEPTION 'redrive: the pattern % of a redaction is not good: %', pattern, SQLERRM
                USING ERRCODE = 'invalid_parameter_value';
        END;
    END LOOP;
    RETURN NEW;
END
$$;

CREATE TRIGGER check_redaction BEFORE INSERT OR UPDATE ON redrive.redactions
    FOR EACH ROW EXECUTE FUNCTION redrive.check_redaction();

-- No foreign keys: their checks would lock the row of the group at every death, and a group is
-- deleted only when no letter has it.
ALTER TABLE redrive.dead_letters
    ADD COLUMN group_id    bigint,
    ADD COLUMN detail_id   bigint,
    ADD COLUMN pid         integer,
    ADD COLUMN run_ms      integer CHECK (run_ms >= 0),
    ADD COLUMN deaths      integer  NOT NULL DEFAULT 1 CHECK (deaths > 0),
    ADD COLUMN alike       smallint NOT NULL DEFAULT 0 CHECK (alike >= 0),
    ADD COLUMN edits       integer  NOT NULL DEFAULT 0 CHECK (edits >= 0),
    ADD COLUMN events      jsonb    NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(events) = 'array'),
    ADD COLUMN run_id      bigint,
    ADD COLUMN run_ordinal bigint,
    ADD COLUMN policy_id   bigint;

COMMENT ON COLUMN redrive.dead_letters.detail_id IS 'The long detail, in redrive.details; error_detail is NULL then.';
COMMENT ON COLUMN redrive.dead_letters.history IS 'Attempts over all generations, the oldest and the newest, without the one that run_ms is of.';
COMMENT ON COLUMN redrive.dead_letters.run_ms IS 'How long the attempt ran that it died of, of which the other columns tell the rest; NULL: that is in the history, or there was none.';
COMMENT ON COLUMN redrive.dead_letters.alike IS 'How often in a row it died of the same thing after an operator redrove it; at 3 it is quarantined.';
COMMENT ON COLUMN redrive.dead_letters.events IS 'What happened to it between its deaths: died, edited, redriven, forced; the oldest and the newest.';
COMMENT ON COLUMN redrive.dead_letters.run_id IS 'The redrive run that sent it back last; NULL: none, or none did.';
COMMENT ON COLUMN redrive.dead_letters.policy_id IS 'The policy that sent it back last; NULL: a person did, or nobody.';

-- Adds an event to the story of a letter: the five oldest and the forty-five newest are kept.
CREATE FUNCTION redrive.tell(events jsonb, event jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    -- An object is appended as it is. (jsonb_build_array is only stable, and would keep the planner
    -- from inlining this: measured, a tenth of a redrive.)
    SELECT CASE WHEN jsonb_array_length(events) < 50 THEN events ELSE events - 5 END || event
$$;

-- A record of a history with its names: one that says nothing but its number, how long it ran, when
-- it ended and maybe its outcome is stored as an array of these.
CREATE FUNCTION redrive.spelled(record jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE jsonb_typeof(record)
        WHEN 'array' THEN jsonb_build_object('attempt', record -> 0, 'run_ms', record -> 1, 'ended_at', record -> 2)
            || CASE WHEN record -> 3 IS NULL THEN '{}' ELSE jsonb_build_object('outcome', record -> 3) END
        ELSE record
    END
$$;

-- Cuts a history to so many records: the five oldest stay, and the newest, because the first failure
-- and the last ones are what an engineer asks for. One that falls out of the middle leaves its words
-- to the one before it; see below.
CREATE FUNCTION redrive.cut_history(history jsonb, most integer) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    words CONSTANT text[] := '{generation,outcome,error_class,error_message,worker,host,version,pid}';
    cut   jsonb := history;
    left_over jsonb;
BEGIN
    WHILE jsonb_array_length(cut) > most LOOP
        left_over := (
            SELECT jsonb_object_agg(e.key, e.value)
            FROM jsonb_each(redrive.spelled(cut -> 5)) e
            WHERE e.key = ANY (words));
        IF left_over IS NOT NULL THEN
            cut := jsonb_set(cut, '{4}', left_over || redrive.spelled(cut -> 4));
        END IF;
        cut := cut - 5;
    END LOOP;
    RETURN cut;
END
$$;

-- The history of a job before its last attempt: nineteen records at most, to which that is the next.
--
-- Most attempts of a job fail alike, so a record leaves out what the one after it says as well
-- (of the words below); only the last one is complete. Reading fills them in from the end; see
-- `attempts` in history.rs. A record that has nothing to say where the next one does says null.
CREATE FUNCTION redrive.remember_before(history jsonb, attempt jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    words CONSTANT text[] := '{generation,outcome,error_class,error_message,worker,host,version,pid}';
    facts CONSTANT text[] := '{attempt,run_ms,ended_at}';
    last jsonb := history -> -1;
BEGIN
    IF last IS NULL THEN
        RETURN '[]';
    END IF;
    IF NOT last ?& words THEN
        last := (SELECT coalesce(jsonb_object_agg(w, NULL), '{}') FROM unnest(words) w WHERE attempt ? w) || last;
    END IF;
    last := last - ARRAY[
        CASE WHEN last -> 'generation' = attempt -> 'generation' THEN 'generation' END,
        CASE WHEN last -> 'outcome' = attempt -> 'outcome' THEN 'outcome' END,
        CASE WHEN last -> 'error_class' = attempt -> 'error_class' THEN 'error_class' END,
        CASE WHEN last -> 'error_message' = attempt -> 'error_message' THEN 'error_message' END,
        CASE WHEN last -> 'worker' = attempt -> 'worker' THEN 'worker' END,
        CASE WHEN last -> 'host' = attempt -> 'host' THEN 'host' END,
        CASE WHEN last -> 'version' = attempt -> 'version' THEN 'version' END,
        CASE WHEN last -> 'pid' = attempt -> 'pid' THEN 'pid' END];
    IF last ?& facts AND last - facts - 'outcome' = '{}' THEN
        last := jsonb_build_array(last -> 'attempt', last -> 'run_ms', to_char(
            (last ->> 'ended_at')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
            || CASE WHEN last ? 'outcome' THEN jsonb_build_array(last -> 'outcome') ELSE '[]' END;
    END IF;
    RETURN redrive.cut_history((history - -1) || jsonb_build_array(last), 19);
END
$$;

-- Adds one attempt to a history.
CREATE OR REPLACE FUNCTION redrive.remember(history jsonb, attempt jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT redrive.remember_before(history, attempt) || jsonb_build_array(attempt)
$$;

-- Finds the group of a failure, or makes it. A class of errors with a thousand groups has
-- messages that masking cannot tell apart from text: what follows goes into one last group.
CREATE FUNCTION redrive.group_of(
    queue text, kind text, error_class text, error_message text, version text
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    masked text := redrive.mask(error_message);
    print uuid := redrive.fingerprint(queue, kind, error_class, masked);
    found_id bigint;
BEGIN
    SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
    IF found_id IS NULL AND 1000 <= (
        SELECT count(*) FROM (
            SELECT FROM redrive.groups g
            WHERE g.error_class = group_of.error_class AND g.queue = group_of.queue AND g.kind = group_of.kind
            LIMIT 1000) same_class)
    THEN
        masked := '(any other message)';
        print := redrive.fingerprint(queue, kind, error_class, masked);
        SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
    END IF;
    IF found_id IS NULL THEN
        INSERT INTO redrive.groups AS g (fingerprint, queue, kind, error_class, title, sample, first_version)
        VALUES (print, group_of.queue, group_of.kind, group_of.error_class, masked,
                left(group_of.error_message, 2048), group_of.version)
        ON CONFLICT (fingerprint) DO NOTHING
        RETURNING g.id INTO found_id;
        IF found_id IS NULL THEN
            SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
        END IF;
    END IF;
    RETURN found_id;
END
$$;

-- A text without what matches a pattern. When the server cannot tell (it is too much for a regular
-- expression), nothing of the text is kept: a death is written whatever happens, a secret never.
CREATE FUNCTION redrive.redact_text(plain text, pattern text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    RETURN regexp_replace(plain, pattern, '[redacted]', 'g');
EXCEPTION WHEN OTHERS THEN
    RETURN '[redacted]';
END
$$;

-- Bytes without what matches a pattern. Bytes that are not text are dropped whole when a pattern
-- is found in what is readable of them.
CREATE FUNCTION redrive.redact_bytes(raw bytea, pattern text) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    RETURN convert_to(redrive.redact_text(convert_from(raw, 'UTF8'), pattern), 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN CASE
        WHEN redrive.redact_text(encode(raw, 'escape'), pattern) = encode(raw, 'escape') THEN raw
        ELSE '[redacted]'
    END;
END
$$;

-- Takes out of a letter what must not be kept.
CREATE FUNCTION redrive.redact(letter redrive.dead_letters) RETURNS redrive.dead_letters
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    rule redrive.redactions;
    pointer text;
    path text[];
    pattern text;
BEGIN
    FOR rule IN
        SELECT r.* FROM redrive.redactions r
        WHERE (r.queue IS NULL OR r.queue = letter.queue) AND (r.kind IS NULL OR r.kind = letter.kind)
        ORDER BY r.id
    LOOP
        FOREACH pointer IN ARRAY rule.paths LOOP
            -- An empty text has no parts to split it into, but here it has one: the key `""`.
            path := CASE pointer WHEN '/' THEN ARRAY[''] ELSE ARRAY(
                SELECT replace(replace(p.part, '~1', '/'), '~0', '~')
                FROM unnest(string_to_array(substr(pointer, 2), '/')) WITH ORDINALITY AS p (part, place)
                ORDER BY p.place) END;
            IF letter.payload #> path IS NOT NULL THEN
                letter.payload := jsonb_set(letter.payload, path, '"[redacted]"');
                -- The bytes that were captured hold the same value.
                letter.raw := NULL;
            END IF;
        END LOOP;
        FOREACH pattern IN ARRAY rule.patterns LOOP
            letter.error_message := redrive.redact_text(letter.error_message, pattern);
            letter.error_detail := redrive.redact_text(letter.error_detail, pattern);
            letter.history := (
                SELECT coalesce(jsonb_agg(
                    CASE WHEN a.attempt ? 'error_message' THEN a.attempt || jsonb_build_object(
                        'error_message', redrive.redact_text(a.attempt ->> 'error_message', pattern))
                    ELSE a.attempt END ORDER BY a.place), '[]')
                FROM jsonb_array_elements(letter.history) WITH ORDINALITY AS a (attempt, place));
            IF jsonb_typeof(letter.headers) = 'object' THEN
                letter.headers := (
                    SELECT coalesce(jsonb_object_agg(h.name, redrive.redact_text(h.value, pattern)), '{}')
                    FROM jsonb_each_text(letter.headers) AS h (name, value));
            END IF;
            IF letter.payload IS NULL THEN
                letter.raw := redrive.redact_bytes(letter.raw, pattern);
            END IF;
        END LOOP;
    END LOOP;
    RETURN letter;
END
$$;

-- Finds a long detail of a group, or keeps it; NULL when the group has enough of them.
CREATE FUNCTION redrive.detail_of(group_id bigint, masked text, detail text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    print uuid := redrive.fingerprint('', '', '', masked);
    found_id bigint;
BEGIN
    SELECT d.id INTO found_id FROM redrive.details d
    WHERE d.group_id = detail_of.group_id AND d.digest = print;
    -- Fifty different ones tell enough of one failure.
    IF found_id IS NULL AND 50 > (
        SELECT count(*) FROM (
            SELECT FROM redrive.details d WHERE d.group_id = detail_of.group_id LIMIT 50) kept)
    THEN
        INSERT INTO redrive.details AS d (group_id, digest, detail)
        VALUES (detail_of.group_id, print, detail_of.detail)
        ON CONFLICT ON CONSTRAINT details_group_id_digest_key DO UPDATE SET digest = excluded.digest
        RETURNING d.id INTO found_id;
    END IF;
    RETURN found_id;
END
$$;

-- At each death, whoever writes it: redact, find the group, keep a long detail once.
--
-- A statement writes letters by the hundred, and most of them died of the same things. So what
-- was found out is kept for the rest of the statement in settings of the transaction, each with
-- the time of the statement, which makes it void for the next one: whether there are redactions,
-- and the groups and details of some messages. Measured: a third of the time of a death.
CREATE FUNCTION redrive.bury() RETURNS trigger
    LANGUAGE plpgsql
AS $$
DECLARE
    stamp text := statement_timestamp();
    looked text := current_setting('redrive.looked', true);
    key text;
    slot text;
    kept text;
    head text;
    line text;
    frames text;
BEGIN
    IF looked IS NULL OR NOT starts_with(looked, stamp) THEN
        looked := set_config('redrive.looked', stamp || CASE WHEN EXISTS (SELECT FROM redrive.redactions) THEN '!' ELSE '' END, true);
    END IF;
    IF looked <> stamp THEN
        NEW := redrive.redact(NEW);
    END IF;
    IF octet_length(NEW.error_message) > 2048 THEN
        NEW.error_detail := redrive.clip(concat_ws(E'\n', NEW.error_message, NEW.error_detail), 65536);
        NEW.error_message := redrive.clip(NEW.error_message, 2048);
    END IF;

    key := concat_ws(E'\x1f', stamp, NEW.queue, NEW.kind, NEW.error_class, redrive.mask(NEW.error_message), '');
    slot := 'redrive.group_' || (hashtext(key) & 63);
    kept := current_setting(slot, true);
    IF kept IS NOT NULL AND starts_with(kept, key) THEN
        NEW.group_id := substr(kept, length(key) + 1);
    ELSE
        NEW.group_id := redrive.group_of(NEW.queue, NEW.kind, NEW.error_class, NEW.error_message, NEW.version);
        PERFORM set_config(slot, key || NEW.group_id, true);
    END IF;

    IF octet_length(NEW.error_detail) > 256 THEN
        -- Where details of one failure differ is in their causes, and those come first. Below its
        -- first line a detail is mostly the same to the letter as the one before, and then there is
        -- nothing more to mask. (Measured: a seventh of the time of such a death.)
        head := left(NEW.error_detail, 250);
        line := split_part(head, E'\n', 1);
        frames := substr(head, length(line) + 1);
        line := regexp_replace(line, '\w*[0-9]\w*', '?', 'g');
        key := concat_ws(E'\x1f', stamp, NEW.group_id, line || frames, '');
        slot := 'redrive.detail_' || (hashtext(key) & 63);
        kept := current_setting(slot, true);
        IF kept IS NULL OR NOT starts_with(kept, key) THEN
            line := line || regexp_replace(frames, '\w*[0-9]\w*', '?', 'g');
            kept := key || coalesce(redrive.detail_of(NEW.group_id, line, NEW.error_detail)::text, '');
            PERFORM set_config(slot, kept, true);
        END IF;
        NEW.detail_id := nullif(substr(kept, length(key) + 1), '');
        -- A letter whose detail is not kept for it keeps the ends.
        NEW.error_detail := CASE WHEN NEW.detail_id IS NULL THEN redrive.clip(NEW.error_detail, 1024) END;
    END IF;
    RETURN NEW;
END
$$;

-- Whether two groups are the same failure, only in two queues: a redrive may lead into another.
CREATE FUNCTION redrive.is_alike(one bigint, other bigint) RETURNS boolean
    LANGUAGE sql STABLE
AS $$
    SELECT EXISTS (
        SELECT FROM redrive.groups a
        JOIN redrive.groups b ON b.kind = a.kind AND b.error_class = a.error_class AND b.title = a.title
        WHERE a.id = one AND b.id = other)
$$;

-- The history of a letter with the attempt that it died of.
CREATE FUNCTION redrive.told_history(letter redrive.dead_letters) RETURNS jsonb
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF letter.run_ms IS NULL THEN
        RETURN letter.history;
    END IF;
    RETURN letter.history || jsonb_build_object(
        'generation', letter.generation, 'attempt', letter.attempts, 'outcome', letter.reason,
        'run_ms', letter.run_ms, 'error_class', letter.error_class,
        'error_message', left(letter.error_message, 1000), 'worker', letter.worker_id,
        'host', letter.host, 'version', letter.version, 'pid', letter.pid, 'ended_at', letter.died_at);
END
$$;

-- A redriven job died: the same letter opens again, and remembers how it died before. Its job had
-- the history of its own generation, and the letter kept that of those before. When it
-- is the third time in a row that it died of the same thing after a redrive, it is quarantined.
CREATE FUNCTION redrive.reopen() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    -- What the first death kept, such as captured bytes, may be redacted by now.
    IF EXISTS (SELECT FROM redrive.redactions) THEN
        NEW := redrive.redact(NEW);
    END IF;
    IF NEW.generation > OLD.generation THEN
        NEW.history := redrive.cut_history(
            redrive.told_history(OLD) || NEW.history, CASE WHEN NEW.run_ms IS NULL THEN 20 ELSE 19 END);
    END IF;
    NEW.deaths := OLD.deaths + 1;
    NEW.events := redrive.tell(OLD.events, jsonb_build_object(
        'at', OLD.died_at, 'event', 'died', 'generation', OLD.generation, 'reason', OLD.reason,
        'error_class', OLD.error_class, 'group', OLD.group_id));
    NEW.alike := CASE
        WHEN NEW.group_id IS DISTINCT FROM OLD.group_id AND NOT redrive.is_alike(NEW.group_id, OLD.group_id) THEN 0
        WHEN OLD.policy_id IS NULL THEN OLD.alike + 1
        -- A policy has a limit of its own.
        ELSE OLD.alike
    END;
    IF NEW.alike >= 3 AND OLD.policy_id IS NULL THEN
        NEW.state := 'quarantined';
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION redrive.count_added_letters() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT a.group_id, date_trunc('hour', a.died_at, 'UTC'), max(a.died_at), sum(a.deaths),
           count(*) FILTER (WHERE a.state = 'open'), count(*) FILTER (WHERE a.state = 'redriving'),
           count(*) FILTER (WHERE a.state = 'recovered'), count(*) FILTER (WHERE a.state = 'discarded'),
           count(*) FILTER (WHERE a.state = 'quarantined')
    FROM added a
    GROUP BY 1, 2;
    RETURN NULL;
END
$$;

CREATE FUNCTION redrive.count_changed_letters() RETURNS trigger
    LANGUAGE plpgsql
AS $$
DECLARE
    lowest  text;
    highest text;
BEGIN
    SELECT min(b.state), max(b.state) INTO lowest, highest FROM became b;
    -- A redrive: all are on their way now, and in the groups that they were in.
    IF lowest = 'redriving' AND highest = 'redriving' THEN
        INSERT INTO redrive.letter_deltas
            (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
        SELECT w.group_id, NULL, NULL, 0, -count(*) FILTER (WHERE w.state = 'open'), count(*), 0, 0,
               -count(*) FILTER (WHERE w.state = 'quarantined')
        FROM was w
        WHERE w.state IN ('open', 'quarantined')
        GROUP BY 1;
        RETURN NULL;
    END IF;
    -- Whoever dies is open or quarantined afterwards. Redrive, recovery and discard need no join.
    IF NOT EXISTS (SELECT FROM became b WHERE b.state IN ('open', 'quarantined')) THEN
        INSERT INTO redrive.letter_deltas
            (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
        SELECT c.group_id, NULL, NULL, 0,
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'open'), 0),
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'redriving'), 0),
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'recovered'), 0),
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'discarded'), 0),
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'quarantined'), 0)
        FROM (SELECT w.group_id, w.state, -1 AS sign FROM was w
              UNION ALL
              SELECT b.group_id, b.state, 1 FROM became b) c
        GROUP BY 1
        HAVING sum(c.sign) <> 0 OR min(c.state) <> max(c.state);
        RETURN NULL;
    END IF;
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT c.group_id, date_trunc('hour', c.died_at, 'UTC'), max(c.died_at), sum(c.deaths),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'open'), 0),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'redriving'), 0),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'recovered'), 0),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'discarded'), 0),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'quarantined'), 0)
    FROM was
    -- A full join, because it can only be hashed or merged; see settle.sql. The condition below
    -- must not be strict, or the planner sees an inner join, and nests loops.
    FULL JOIN became ON became.id = was.id
    CROSS JOIN LATERAL (VALUES
        (was.group_id, NULL::timestamptz, 0, was.state, -1),
        (became.group_id,
         CASE WHEN became.deaths > was.deaths THEN became.died_at END,
         became.deaths - was.deaths, became.state, 1)
    ) AS c (group_id, died_at, deaths, state, sign)
    WHERE was.state IS DISTINCT FROM became.state OR was.deaths IS DISTINCT FROM became.deaths
        OR was.group_id IS DISTINCT FROM became.group_id
    GROUP BY 1, 2;
    RETURN NULL;
END
$$;

CREATE FUNCTION redrive.count_removed_letters() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT r.group_id, NULL, NULL, 0,
           -count(*) FILTER (WHERE r.state = 'open'), -count(*) FILTER (WHERE r.state = 'redriving'),
           -count(*) FILTER (WHERE r.state = 'recovered'), -count(*) FILTER (WHERE r.state = 'discarded'),
           -count(*) FILTER (WHERE r.state = 'quarantined')
    FROM removed r
    GROUP BY 1;
    RETURN NULL;
END
$$;

CREATE TRIGGER bury BEFORE INSERT ON redrive.dead_letters
    FOR EACH ROW EXECUTE FUNCTION redrive.bury();
CREATE TRIGGER reopen BEFORE UPDATE OF state ON redrive.dead_letters
    FOR EACH ROW WHEN (OLD.state = 'redriving' AND NEW.state = 'open') EXECUTE FUNCTION redrive.reopen();
CREATE TRIGGER count_added AFTER INSERT ON redrive.dead_letters
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_added_letters();

-- The letters that are there die once more, into their groups.
LOCK TABLE redrive.dead_letters IN ACCESS EXCLUSIVE MODE;
WITH gone AS (DELETE FROM redrive.dead_letters RETURNING *)
INSERT INTO redrive.dead_letters SELECT * FROM gone;
UPDATE redrive.groups g
SET first_seen = l.first_seen, last_seen = l.last_seen
FROM (
    SELECT d.group_id, min(d.died_at) AS first_seen, max(d.died_at) AS last_seen
    FROM redrive.dead_letters d
    GROUP BY d.group_id
) l
WHERE g.id = l.group_id;
ALTER TABLE redrive.dead_letters ALTER COLUMN group_id SET NOT NULL;

CREATE TRIGGER count_changed AFTER UPDATE ON redrive.dead_letters
    REFERENCING OLD TABLE AS was NEW TABLE AS became
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_changed_letters();
CREATE TRIGGER count_removed AFTER DELETE ON redrive.dead_letters
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_removed_letters();

-- The letters of a group in every state but one: a rare failure is found at once among a million letters
-- that recovered. (Measured: 1.5 s without it.)
CREATE INDEX dead_letters_by_group ON redrive.dead_letters (group_id, state, died_at, id)
    WHERE state <> 'redriving';

-- Folds deltas into the totals; one at a time, and whoever comes second has nothing to do.
-- Answers how many deltas were folded.
CREATE FUNCTION redrive.fold_letters() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = on
AS $$
DECLARE
    folded bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('redrive.fold_letters')) THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM redrive.letter_deltas d
        WHERE d.ctid = ANY (ARRAY(SELECT n.ctid FROM redrive.letter_deltas n LIMIT 20000))
        RETURNING d.*
    ),
    hours AS (
        INSERT INTO redrive.failure_hours AS h (group_id, hour, deaths)
        SELECT g.group_id, g.hour, sum(g.deaths)
        FROM gone g
        WHERE g.hour IS NOT NULL
        GROUP BY 1, 2
        ON CONFLICT (group_id, hour) DO UPDATE SET deaths = h.deaths + excluded.deaths
    ),
    totals AS (
        UPDATE redrive.groups g
        SET deaths = g.deaths + n.deaths, open = g.open + n.open,
            redriving = g.redriving + n.redriving, recovered = g.recovered + n.recovered,
            discarded = g.discarded + n.discarded, quarantined = g.quarantined + n.quarantined,
            last_seen = greatest(g.last_seen, n.died_at),
            -- It was resolved, and here it is again.
            state = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN 'open' ELSE g.state END,
            regressed_at = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN n.died_at ELSE g.regressed_at END,
            regressions = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN g.regressions + 1 ELSE g.regressions END
        FROM (
            SELECT o.group_id, sum(o.deaths) AS deaths, sum(o.open) AS open,
                   sum(o.redriving) AS redriving, sum(o.recovered) AS recovered,
                   sum(o.discarded) AS discarded, sum(o.quarantined) AS quarantined,
                   max(o.died_at) AS died_at
            FROM gone o
            GROUP BY o.group_id
        ) n
        WHERE g.id = n.group_id
    )
    SELECT count(*) INTO folded FROM gone;
    IF folded > 0 THEN
        DELETE FROM redrive.failure_hours h WHERE h.hour < statement_timestamp() - interval '8 days';
    END IF;
    RETURN folded;
END
$$;

-- Deletes groups that no letter is in and that nothing has died of for so long, with their
-- details; those that somebody ignored stay, so that they stay ignored. Answers how many.
-- A death finds its group without a lock, so there must be none on its way: the table is locked
-- against writing for the moment that it takes, or nothing is deleted this time.
CREATE FUNCTION redrive.forget_groups(age interval) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '50ms'
AS $$
DECLARE
    unused bigint[];
    forgotten bigint;
BEGIN
    IF age IS NULL OR age < '0' THEN
        RAISE EXCEPTION 'redrive: groups are forgotten by an age that is not negative, and it is %', coalesce(age::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM redrive.fold_letters();
    unused := ARRAY(
        SELECT g.id FROM redrive.failure_groups g
        WHERE g.open + g.redriving + g.recovered + g.discarded + g.quarantined = 0
            AND g.state <> 'ignored' AND g.last_seen < statement_timestamp() - age
        LIMIT 10000);
    IF cardinality(unused) = 0 THEN
        RETURN 0;
    END IF;
    BEGIN
        LOCK TABLE redrive.dead_letters IN SHARE ROW EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RETURN 0;
    END;
    -- Looked at again: now nobody can be putting a letter into one of them.
    WITH gone AS (
        DELETE FROM redrive.groups g
        WHERE g.id = ANY (unused)
            AND g.open + g.redriving + g.recovered + g.discarded + g.quarantined = 0
            AND NOT EXISTS (SELECT FROM redrive.letter_deltas d WHERE d.group_id = g.id)
        RETURNING g.id
    ),
    hours AS (
        DELETE FROM redrive.failure_hours h USING gone WHERE h.group_id = gone.id
    ),
    details AS (
        DELETE FROM redrive.details d USING gone WHERE d.group_id = gone.id
    )
    SELECT count(*) INTO forgotten FROM gone;
    RETURN forgotten;
END
$$;

-- Sums of what is not folded yet, by group; there is little of it.
CREATE VIEW redrive.failure_groups AS
    SELECT g.id, g.fingerprint, g.queue::text AS queue, g.kind::text AS kind, g.error_class, g.title,
           g.sample,
           CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN 'open' ELSE g.state END AS state,
           g.note, g.owner, g.first_seen, g.first_version,
           greatest(g.last_seen, n.died_at) AS last_seen, g.resolved_at,
           CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN n.died_at ELSE g.regressed_at END
               AS regressed_at,
           CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN g.regressions + 1 ELSE g.regressions END
               AS regressions,
           g.deaths + coalesce(n.deaths, 0) AS deaths,
           g.open + coalesce(n.open, 0) AS open,
           g.redriving + coalesce(n.redriving, 0) AS redriving,
           g.recovered + coalesce(n.recovered, 0) AS recovered,
           g.discarded + coalesce(n.discarded, 0) AS discarded,
           g.quarantined + coalesce(n.quarantined, 0) AS quarantined
    FROM redrive.groups g
    LEFT JOIN (
        SELECT d.group_id, sum(d.deaths)::bigint AS deaths, sum(d.open)::bigint AS open,
               sum(d.redriving)::bigint AS redriving, sum(d.recovered)::bigint AS recovered,
               sum(d.discarded)::bigint AS discarded, sum(d.quarantined)::bigint AS quarantined,
               max(d.died_at) AS died_at
        FROM redrive.letter_deltas d
        GROUP BY d.group_id
    ) n ON n.group_id = g.id;

COMMENT ON VIEW redrive.failure_groups IS 'Letters that died of the same thing, with exact numbers.';

CREATE OR REPLACE VIEW redrive.letters AS
    SELECT l.id, l.queue::text AS queue, l.kind::text AS kind, l.state, l.reason, l.error_class,
           l.error_message, coalesce(l.error_detail, d.detail) AS error_detail, l.payload, l.raw,
           l.content_type, l.headers, l.source, l.position, l.seen, l.priority, l.attempts,
           l.max_attempts, l.generation, l.crashes,
           CASE WHEN l.run_ms IS NULL THEN l.history ELSE l.history || jsonb_build_object(
               'generation', l.generation, 'attempt', l.attempts, 'outcome', l.reason, 'run_ms', l.run_ms,
               'error_class', l.error_class, 'error_message', left(l.error_message, 1000),
               'worker', l.worker_id, 'host', l.host, 'version', l.version, 'pid', l.pid,
               'ended_at', l.died_at) END AS history,
           l.worker_id, l.host, l.version,
           l.discard_reason, l.enqueued_at, l.died_at, l.changed_at,
           l.group_id, l.pid, l.deaths, l.alike, l.edits, l.events, l.run_id, l.run_ordinal, l.policy_id,
           l.detail_id
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
