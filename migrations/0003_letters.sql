-- Purpose: Dead letters with their versions, their rules, and the archive.
-- breaking: yes

-- A letter has the id of its job. While the letter is `redriving`, the job with that id is live. When
-- the job succeeds, the letter is `recovered`; when it dies again, the letter is `open` again with the
-- next generation. A recovered or discarded letter whose failure is captured again does the same.
-- There are no foreign keys to groups and details: their checks would lock the group's row at every
-- death, and a group is deleted only when no letter belongs to it.
CREATE TABLE redrive.dead_letters (
    id             bigint       NOT NULL DEFAULT nextval('redrive.job_id') PRIMARY KEY,
    queue          redrive.name NOT NULL,
    kind           redrive.kind NOT NULL,
    state          text         COLLATE "C" NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'redriving', 'recovered', 'discarded', 'quarantined')),
    cause          text         COLLATE "C" NOT NULL
        CHECK (cause IN ('exhausted', 'rejected', 'undecodable', 'unhandled', 'timeout',
                         'worker_lost', 'expired', 'captured', 'manual', 'diverted')),
    error_class    text         COLLATE "C" NOT NULL,
    error_message  text         NOT NULL,
    error_detail   text,
    payload        json,
    raw            bytea,
    content_type   text,
    headers        redrive.headers,
    source         text         COLLATE "C",
    position       text         COLLATE "C",
    seen           bigint       NOT NULL DEFAULT 1 CHECK (seen > 0),
    priority       smallint     NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1000 AND 1000),
    attempts       integer      NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    earlier_attempts integer    NOT NULL DEFAULT 0 CHECK (earlier_attempts >= 0),
    max_attempts   integer      NOT NULL DEFAULT 5 CHECK (max_attempts BETWEEN 1 AND 1000),
    generation     integer      NOT NULL DEFAULT 0 CHECK (generation >= 0),
    crashes        smallint     NOT NULL DEFAULT 0 CHECK (crashes >= 0),
    history        jsonb        NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(history) = 'array'),
    worker_id      uuid,
    host           text,
    version        text,
    discard_reason text,
    enqueued_at    timestamptz  NOT NULL,
    died_at        timestamptz  NOT NULL DEFAULT clock_timestamp(),
    changed_at     timestamptz  NOT NULL DEFAULT clock_timestamp(),
    group_id       bigint       NOT NULL,
    detail_id      bigint,
    pid            integer,
    run_ms         integer      CHECK (run_ms >= 0),
    deaths         integer      NOT NULL DEFAULT 1 CHECK (deaths > 0),
    alike          smallint     NOT NULL DEFAULT 0 CHECK (alike >= 0),
    edits          integer      NOT NULL DEFAULT 0 CHECK (edits >= 0),
    events         jsonb        NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(events) = 'array'),
    run_id         bigint,
    run_ordinal    bigint,
    policy_id      bigint,
    unique_key     text         COLLATE "C" CHECK (octet_length(unique_key) BETWEEN 1 AND 200),
    group_key      redrive.group_key,
    audit_id       bigint,
    redacted       text[],
    failed_redrives smallint    NOT NULL DEFAULT 0 CHECK (failed_redrives >= 0),
    failure_key    text         COLLATE "C" CHECK (octet_length(failure_key) BETWEEN 1 AND 1024),
    retry_after    timestamptz,
    claimed_until  timestamptz,
    archived_at    timestamptz,
    CONSTRAINT dead_letters_keep_what_failed CHECK (payload IS NOT NULL OR raw IS NOT NULL),
    -- An infinite letter has no age, so it could not be measured, redriven or discarded.
    CONSTRAINT dead_letters_have_an_age CHECK (isfinite(died_at) AND isfinite(enqueued_at)),
    CONSTRAINT dead_letters_captured_have_a_source
        CHECK ((source IS NULL) = (position IS NULL) AND (cause <> 'captured' OR source IS NOT NULL)),
    CONSTRAINT dead_letters_discarded_have_a_reason
        CHECK ((state = 'discarded') = (discard_reason IS NOT NULL)),
    CONSTRAINT dead_letters_open_wait_for_a_consumer CHECK (retry_after IS NULL OR state = 'open'),
    CONSTRAINT dead_letters_waiting_are_claimed CHECK (claimed_until IS NULL OR retry_after IS NOT NULL)
) WITH (
    -- Letters live long and change little, so vacuum need not follow every death.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02
);

COMMENT ON COLUMN redrive.dead_letters.cause IS 'Why the job died last; captured: its source reported the failure.';
COMMENT ON COLUMN redrive.dead_letters.payload IS 'The payload as it came; see redrive.readable_payload. NULL: captured bytes that are not JSON, or were redacted.';
COMMENT ON COLUMN redrive.dead_letters.raw IS 'The unchanged bytes of a captured failure.';
COMMENT ON COLUMN redrive.dead_letters.position IS 'Where in the source it was (topic, partition and offset; a delivery id).';
COMMENT ON COLUMN redrive.dead_letters.seen IS 'How many times this position was captured while its job was not live.';
COMMENT ON COLUMN redrive.dead_letters.earlier_attempts IS 'Attempts of all earlier generations; `attempts` counts those of this one.';
COMMENT ON COLUMN redrive.dead_letters.history IS 'Attempts of all generations, the oldest and the newest. The last attempt is missing if run_ms is set.';
COMMENT ON COLUMN redrive.dead_letters.detail_id IS 'The long detail, in redrive.details; error_detail is NULL then.';
COMMENT ON COLUMN redrive.dead_letters.run_ms IS 'Duration of the fatal attempt, which the other columns describe; NULL: the history has it, or there was no attempt.';
COMMENT ON COLUMN redrive.dead_letters.alike IS 'How many times in a row an operator redrove it and it died of the same error. At 3 it is quarantined.';
COMMENT ON COLUMN redrive.dead_letters.failed_redrives IS 'How many times an operator redrove it and it died again, of any error. At 10 it is quarantined.';
COMMENT ON COLUMN redrive.dead_letters.events IS 'Events between its deaths (died, edited, redriven, forced), the oldest and the newest.';
COMMENT ON COLUMN redrive.dead_letters.run_id IS 'The redrive run that redrove it last; NULL: none.';
COMMENT ON COLUMN redrive.dead_letters.policy_id IS 'The policy that redrove it last; NULL: an operator did, or it was never redriven.';
COMMENT ON COLUMN redrive.dead_letters.unique_key IS 'The unique key of its job. A letter does not hold the key: a redrive takes it again, or leaves the letter open.';
COMMENT ON COLUMN redrive.dead_letters.redacted IS 'JSON pointers of redacted payload values that no edit has replaced; an empty one: the captured bytes; NULL: none.';
COMMENT ON COLUMN redrive.dead_letters.audit_id IS 'The audit record of the operation that discarded, reopened, restored or edited it last since its last death; NULL: none.';
COMMENT ON COLUMN redrive.dead_letters.retry_after IS 'When a consumer of the view `dlq_events` may claim it; NULL: it waits for an operator.';
COMMENT ON COLUMN redrive.dead_letters.claimed_until IS 'When the claim of a consumer expires; NULL: it has none.';
COMMENT ON COLUMN redrive.dead_letters.failure_key IS 'The key that the handler gave to its failure group; NULL: the message decides.';

CREATE INDEX dead_letters_open_for_redrive ON redrive.dead_letters (queue, died_at, id) WHERE state = 'open';
-- Redriving letters have a separate index: every redrive writes to it, but it is usually small. A
-- redrive by time of death appends at its end.
CREATE INDEX dead_letters_for_list ON redrive.dead_letters (died_at, id) WHERE state <> 'redriving';
CREATE INDEX dead_letters_redriving ON redrive.dead_letters (died_at, id) WHERE state = 'redriving';
-- Retention rules are by queue and state.
CREATE INDEX dead_letters_by_state ON redrive.dead_letters (state, queue, changed_at, id)
    WHERE state IN ('recovered', 'discarded', 'quarantined');
-- The claim of a consumer implies the condition: `retry_after <= now()` is true of no NULL.
CREATE INDEX dead_letters_by_retry ON redrive.dead_letters (retry_after) WHERE retry_after IS NOT NULL;
-- The view `dlq_events` finds the letters of a kind here.
CREATE INDEX dead_letters_by_kind ON redrive.dead_letters (kind) WHERE state <> 'redriving';
CREATE UNIQUE INDEX dead_letters_captured_once ON redrive.dead_letters (source, position)
    WHERE source IS NOT NULL;
-- Finds a rare failure among a million recovered letters. (Measured: 1.5 s without it.)
CREATE INDEX dead_letters_by_group ON redrive.dead_letters (group_id, state, died_at, id)
    WHERE state <> 'redriving';
CREATE INDEX dead_letters_by_class ON redrive.dead_letters (error_class, state, died_at, id)
    WHERE state <> 'redriving';
-- An operation that discarded or edited many letters is undone as a whole.
CREATE INDEX dead_letters_by_audit ON redrive.dead_letters (audit_id, died_at, id) WHERE audit_id IS NOT NULL;

-- Redaction rules, of a queue or of all, and of a kind or of all. Whenever a job dies, the values at these paths of the
-- payload, and the matches of these patterns in texts, are replaced by `[redacted]`.
CREATE TABLE redrive.redactions (
    id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue      redrive.name,
    kind       redrive.kind,
    paths      text[]  NOT NULL DEFAULT '{}',
    patterns   text[]  NOT NULL DEFAULT '{}'
);

COMMENT ON COLUMN redrive.redactions.paths IS 'JSON pointers into the payload, such as /card/number; * stands for every element of an array or member of an object.';
COMMENT ON COLUMN redrive.redactions.patterns IS 'PostgreSQL regular expressions, for error texts, headers and bytes that are not JSON.';

-- The conditions for redriving letters of a queue. A queue without a row needs nothing. Only the owner of the
-- schema can change it: an operator who could would not be bound by it.
CREATE TABLE redrive.protections (
    queue         redrive.name NOT NULL PRIMARY KEY,
    approve_above bigint       CHECK (approve_above >= 0),
    roles         text[]       COLLATE "C" CHECK (cardinality(roles) > 0),
    CONSTRAINT protections_require_something CHECK (num_nonnulls(approve_above, roles) > 0)
);

COMMENT ON COLUMN redrive.protections.approve_above IS 'A run with more letters of the queue needs the approval of a second operator; NULL: none does.';
COMMENT ON COLUMN redrive.protections.roles IS 'Only these database roles and their members may redrive; NULL: every operator.';
-- The content of a letter before each of its edits. Version 0 is what died or was captured. The current
-- content is in the letter, and `edits` is its version. There is no foreign key, because the versions of an archived
-- letter stay: together they may exceed one value.
CREATE TABLE redrive.letter_versions (
    letter_id bigint      NOT NULL,
    version   integer     NOT NULL CHECK (version >= 0),
    payload   json,
    raw       bytea,
    redacted  text[],
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    role      text        NOT NULL DEFAULT session_user,
    person    text,
    reason       text,
    PRIMARY KEY (letter_id, version),
    CONSTRAINT letter_versions_keep_something CHECK (payload IS NOT NULL OR raw IS NOT NULL)
);

-- How long letters of a state are kept, and whether they are then deleted or archived. A rule for a
-- queue takes precedence over the rule for all queues. Letters without a rule are kept forever.
CREATE TABLE redrive.retention (
    id        bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue     redrive.name,
    state     text         COLLATE "C" NOT NULL
        CHECK (state IN ('open', 'quarantined', 'recovered', 'discarded')),
    keep      interval     NOT NULL CHECK (keep BETWEEN '0' AND '36600 days'),
    action    text         COLLATE "C" NOT NULL CHECK (action IN ('delete', 'archive')),
    CONSTRAINT retention_keeps_waiting_letters
        CHECK (action = 'archive' OR state IN ('recovered', 'discarded'))
);

COMMENT ON COLUMN redrive.retention.queue IS 'NULL: every queue without a rule for this state.';
COMMENT ON COLUMN redrive.retention.keep IS 'Time since the letter was closed; for an open or quarantined one, since it died or an operator last changed it.';

CREATE UNIQUE INDEX retention_one_rule ON redrive.retention (coalesce(queue::text, ''), state);
-- Letters that were moved out of the table, in the statement that deleted them, without their versions. A column that is
-- added to one of the tables is added to the other one, too.
CREATE TABLE redrive.archived_letters (LIKE redrive.dead_letters, PRIMARY KEY (id));

CREATE INDEX archived_letters_by_queue ON redrive.archived_letters (queue, id);
-- The failure group of an archived letter stays.
CREATE INDEX archived_letters_by_group ON redrive.archived_letters (group_id);
