-- Purpose: `dead_letters`: what failed for good, with its story, through its whole life.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: there is none.
-- breaking: yes

-- A letter has the id of its job. While the letter is `redriving` the job of that id is
-- live; when the job is done the letter is `recovered`; when it dies again the same letter
-- is `open` again with the next generation.
CREATE TABLE redrive.dead_letters (
    id             bigint       NOT NULL DEFAULT nextval('redrive.job_id') PRIMARY KEY,
    queue          redrive.name NOT NULL,
    kind           redrive.name NOT NULL,
    state          text         COLLATE "C" NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'redriving', 'recovered', 'discarded', 'quarantined')),
    reason         text         COLLATE "C" NOT NULL
        CHECK (reason IN ('exhausted', 'rejected', 'undecodable', 'unhandled', 'timeout',
                          'worker_lost', 'expired', 'captured', 'manual')),
    error_class    text         COLLATE "C" NOT NULL,
    error_message  text         NOT NULL,
    error_detail   text,
    payload        jsonb,
    raw            bytea,
    content_type   text,
    headers        jsonb,
    source         text         COLLATE "C",
    position       text         COLLATE "C",
    seen           bigint       NOT NULL DEFAULT 1 CHECK (seen > 0),
    priority       smallint     NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1000 AND 1000),
    attempts       integer      NOT NULL DEFAULT 0 CHECK (attempts >= 0),
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
    CONSTRAINT dead_letters_keep_what_failed CHECK (payload IS NOT NULL OR raw IS NOT NULL),
    CONSTRAINT dead_letters_captured_have_a_source
        CHECK ((source IS NULL) = (position IS NULL) AND (reason <> 'captured' OR source IS NOT NULL)),
    CONSTRAINT dead_letters_discarded_say_why
        CHECK ((state = 'discarded') = (discard_reason IS NOT NULL))
) WITH (
    -- Letters live long and change little: vacuum in time, but not at every death.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02
);

COMMENT ON COLUMN redrive.dead_letters.reason IS 'Why it died last.';
COMMENT ON COLUMN redrive.dead_letters.raw IS 'The bytes of a captured failure, exactly as they came.';
COMMENT ON COLUMN redrive.dead_letters.position IS 'Where in the source it came from (topic, partition and offset; a delivery id).';
COMMENT ON COLUMN redrive.dead_letters.seen IS 'How often the same position was captured.';
COMMENT ON COLUMN redrive.dead_letters.history IS 'Attempts over all generations: the oldest and the newest ones.';

CREATE INDEX dead_letters_open_for_redrive ON redrive.dead_letters (queue, died_at, id) WHERE state = 'open';
-- Letters on their way back are in one index of their own, because it is written by every redrive;
-- they are few for most of the time. A redrive in the order of their deaths writes at its end.
CREATE INDEX dead_letters_for_list ON redrive.dead_letters (died_at, id) WHERE state <> 'redriving';
CREATE INDEX dead_letters_redriving ON redrive.dead_letters (died_at, id) WHERE state = 'redriving';
CREATE INDEX dead_letters_closed_for_prune ON redrive.dead_letters (changed_at, id)
    WHERE state IN ('recovered', 'discarded');
CREATE UNIQUE INDEX dead_letters_captured_once ON redrive.dead_letters (source, position)
    WHERE source IS NOT NULL;
