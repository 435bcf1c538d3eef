-- Purpose: Failure groups: letters that died of the same error.
-- breaking: yes

-- One row per failure group. The numbers are totals of folded `letter_deltas`. Read them through the
-- view `failure_groups`, which adds the deltas that are not folded yet.
CREATE TABLE redrive.groups (
    id            bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint   uuid         NOT NULL UNIQUE,
    queue         redrive.name NOT NULL,
    kind          redrive.kind NOT NULL,
    error_class   text         COLLATE "C" NOT NULL,
    title         text         NOT NULL,
    state         text         COLLATE "C" NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'acknowledged', 'resolved', 'ignored')),
    note          text,
    owner         text,
    first_seen    timestamptz  NOT NULL DEFAULT clock_timestamp(),
    first_version text,
    last_seen     timestamptz  NOT NULL DEFAULT clock_timestamp(),
    resolved_at   timestamptz,
    deaths        bigint       NOT NULL DEFAULT 0,
    open          bigint       NOT NULL DEFAULT 0,
    redriving     bigint       NOT NULL DEFAULT 0,
    recovered     bigint       NOT NULL DEFAULT 0,
    discarded     bigint       NOT NULL DEFAULT 0,
    quarantined   bigint       NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

COMMENT ON COLUMN redrive.groups.title IS 'The masked message with the top frame of its stack trace, or the key of the handler.';
COMMENT ON COLUMN redrive.groups.resolved_at IS 'A death after it is a regression. NULL: never resolved, or opened or ignored since.';
COMMENT ON COLUMN redrive.groups.deaths IS 'All deaths, including those of pruned letters.';

CREATE INDEX groups_by_class ON redrive.groups (error_class, queue, kind);
-- It contains nothing that changes when deaths are folded into a group.
CREATE INDEX groups_by_queue ON redrive.groups (queue, state);

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
    group_id bigint NOT NULL,
    state    text   COLLATE "C",
    letters  bigint NOT NULL DEFAULT 0,
    hour     timestamptz,
    died_at  timestamptz,
    deaths   bigint NOT NULL DEFAULT 0
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

-- Rules by which operators merge and split groups. The fingerprint decides first; then the rules of the group that it
-- chose apply, those that split in the order of their ids; see `ruled_group`. An empty table costs a
-- statement that writes letters one lookup; see `complete_letter`.
CREATE TABLE redrive.group_rules (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id  bigint      NOT NULL,
    into_id   bigint,
    pattern   text        CHECK (octet_length(pattern) BETWEEN 1 AND 1024),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    person    text,
    reason    text,
    CONSTRAINT group_rules_merge_or_split CHECK (num_nonnulls(into_id, pattern) = 1)
);

COMMENT ON COLUMN redrive.group_rules.into_id IS 'The group that it is merged into; NULL: it is split.';
COMMENT ON COLUMN redrive.group_rules.pattern IS 'A regular expression: failures whose message matches it have a group of their own; NULL: the group is merged.';

CREATE UNIQUE INDEX group_rules_by_group ON redrive.group_rules (group_id, coalesce(pattern, ''));
