-- Purpose: Failure groups: letters that died of the same error.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Identifies a failure by queue, kind, error class and title; see `complete_letter`.
CREATE FUNCTION redrive.fingerprint(queue text, kind text, error_class text, title text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT encode(substring(
        sha256(convert_to(concat_ws(E'\x1f', queue, kind, error_class, title), 'UTF8')) FOR 16), 'hex')::uuid;
END;

-- One row per failure group. The numbers are totals of folded `letter_deltas`. Read them through the
-- view `failure_groups`, which adds the deltas that are not folded yet.
CREATE TABLE redrive.groups (
    id            bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint   uuid         NOT NULL UNIQUE,
    queue         redrive.name NOT NULL,
    kind          redrive.kind NOT NULL,
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

COMMENT ON COLUMN redrive.groups.title IS 'The masked message with the top frame of its stack trace, or the key of the handler.';
COMMENT ON COLUMN redrive.groups.sample IS 'The first message, unmasked.';
COMMENT ON COLUMN redrive.groups.deaths IS 'All deaths, including those of pruned letters.';

CREATE INDEX groups_by_class ON redrive.groups (error_class, queue, kind);
-- These two contain nothing that changes when deaths are folded into a group.
CREATE INDEX groups_by_queue ON redrive.groups (queue, state);
CREATE INDEX groups_regressed ON redrive.groups (queue) INCLUDE (regressions) WHERE regressions > 0;

-- Deaths of the last days by group and hour (UTC), for sparklines.
CREATE TABLE redrive.failure_hours (
    group_id bigint      NOT NULL,
    hour     timestamptz NOT NULL,
    deaths   bigint      NOT NULL,
    PRIMARY KEY (group_id, hour)
);

-- Changes of group totals. A trigger inserts them in the statement that changes the letters, so no
-- statement can skip them and no crash can separate them. They are folded into `groups` and
-- `failure_hours` every few seconds. Inserts never wait for each other, as updates of a group's row would.
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

-- Without a key, a publication of all tables would reject the DELETE of a fold.
ALTER TABLE redrive.letter_deltas REPLICA IDENTITY FULL;

COMMENT ON COLUMN redrive.letter_deltas.hour IS 'Hour of the deaths; NULL: no death, only changes of state.';
COMMENT ON COLUMN redrive.letter_deltas.died_at IS 'Time of the last death.';

-- Long error details (cause chain, backtrace), stored once per group and not once per letter.
CREATE TABLE redrive.details (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id bigint NOT NULL,
    digest   uuid   NOT NULL,
    detail   text   NOT NULL,
    UNIQUE (group_id, digest)
);

COMMENT ON COLUMN redrive.details.digest IS 'Digest of the masked detail, so that ids and addresses make no difference.';

-- Finds or creates the group of a failure. An error class with 1,000 groups has messages that masking
-- cannot unify; its further failures share one last group. A group whose texts were erased gets those of its next
-- failure.
CREATE FUNCTION redrive.group_of(
    queue text, kind text, error_class text, title text, error_message text, version text
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    shown text := title;
    print uuid := redrive.fingerprint(queue, kind, error_class, title);
    found_id bigint;
    found_sample text;
BEGIN
    SELECT g.id, g.sample INTO found_id, found_sample FROM redrive.groups g WHERE g.fingerprint = print;
    IF found_sample = '[erased]' THEN
        UPDATE redrive.groups g SET title = shown, sample = left(group_of.error_message, 2048) WHERE g.id = found_id;
    END IF;
    IF found_id IS NULL AND 1000 <= (
        SELECT count(*) FROM (
            SELECT FROM redrive.groups g
            WHERE g.error_class = group_of.error_class AND g.queue = group_of.queue AND g.kind = group_of.kind
            LIMIT 1000) same_class)
    THEN
        shown := '(any other message)';
        print := redrive.fingerprint(queue, kind, error_class, shown);
        SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
    END IF;
    IF found_id IS NULL THEN
        INSERT INTO redrive.groups AS g (fingerprint, queue, kind, error_class, title, sample, first_version)
        VALUES (print, group_of.queue, group_of.kind, group_of.error_class, shown,
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

-- Finds or stores a long detail of a group. Returns NULL when the group has 50 already.
CREATE FUNCTION redrive.detail_of(group_id bigint, masked text, detail text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    print uuid := redrive.fingerprint('', '', '', masked);
    found_id bigint;
BEGIN
    SELECT d.id INTO found_id FROM redrive.details d
    WHERE d.group_id = detail_of.group_id AND d.digest = print;
    -- Fifty different details describe a failure well enough.
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

-- Returns whether two groups are the same failure, apart from the queue. A redrive may change the queue.
CREATE FUNCTION redrive.is_same_failure(one bigint, other bigint) RETURNS boolean
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM redrive.groups a
        JOIN redrive.groups b ON b.kind = a.kind AND b.error_class = a.error_class AND b.title = a.title
        WHERE a.id = one AND b.id = other);
END;

-- Rules by which operators merge and split groups. The fingerprint decides first; then the rules of the group that it
-- chose apply, in the order of their ids, then those of the group that they lead to. An empty table costs a
-- statement that writes letters one lookup; see `complete_letter`.
CREATE TABLE redrive.group_rules (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id  bigint      NOT NULL,
    action    text        COLLATE "C" NOT NULL CHECK (action IN ('merge', 'error', 'class', 'kind', 'payload')),
    into_id   bigint,
    pattern   text        CHECK (octet_length(pattern) BETWEEN 1 AND 1024),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    person    text,
    reason    text,
    CONSTRAINT group_rules_merge_into_a_group CHECK ((action = 'merge') = (into_id IS NOT NULL)),
    CONSTRAINT group_rules_split_by_a_pattern CHECK ((action IN ('error', 'payload')) = (pattern IS NOT NULL))
);

COMMENT ON COLUMN redrive.group_rules.action IS 'merge: into another group. Otherwise a split: by a pattern of the error message, by error class, by kind, or by a payload value.';
COMMENT ON COLUMN redrive.group_rules.pattern IS 'error: a regular expression. payload: the path of a value, such as tenant.id.';

CREATE UNIQUE INDEX group_rules_by_group ON redrive.group_rules (group_id, action, coalesce(pattern, ''));

-- Returns the part of its group that a rule moves a letter to; NULL: the rule leaves it where it is.
CREATE FUNCTION redrive.rule_part(letter redrive.dead_letters, action text, pattern text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE action
        WHEN 'error' THEN CASE WHEN letter.error_message ~ pattern THEN pattern END
        WHEN 'class' THEN letter.error_class
        WHEN 'kind' THEN letter.kind::text
        WHEN 'payload' THEN left(nullif(redrive.readable_payload(letter.payload) #>> string_to_array(pattern, '.'), ''), 100)
    END
$$;

-- Returns the group of a letter according to the rules, starting at its group. Follows at most ten rules.
CREATE FUNCTION redrive.ruled_group(letter redrive.dead_letters) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    place  bigint := letter.group_id;
    rule   redrive.group_rules;
    part   text;
    parted bigint;
BEGIN
    <<steps>>
    FOR step IN 1..10 LOOP
        FOR rule IN SELECT r.* FROM redrive.group_rules r WHERE r.group_id = place ORDER BY r.id LOOP
            IF rule.action = 'merge' THEN
                place := rule.into_id;
                CONTINUE steps;
            END IF;
            part := redrive.rule_part(letter, rule.action, rule.pattern);
            CONTINUE WHEN part IS NULL;
            SELECT redrive.group_of(
                    g.queue, CASE rule.action WHEN 'kind' THEN part ELSE g.kind::text END,
                    CASE rule.action WHEN 'class' THEN part ELSE g.error_class END,
                    format('%s [%s]', g.title, concat_ws(' ', rule.action, CASE rule.action WHEN 'payload' THEN rule.pattern END, part)),
                    letter.error_message, letter.version)
            INTO parted FROM redrive.groups g WHERE g.id = place;
            CONTINUE WHEN parted IS NULL;
            place := parted;
            CONTINUE steps;
        END LOOP;
        EXIT;
    END LOOP;
    RETURN place;
END
$$;

-- Adds the deltas that are not folded yet, of which there are few.
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

COMMENT ON VIEW redrive.failure_groups IS 'Letters that died of the same error, with exact numbers.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
