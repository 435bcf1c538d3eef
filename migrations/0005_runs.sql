-- Purpose: Redrive runs.
-- breaking: yes

-- A redrive run. Creating it freezes its members in `run_letters`; its driver sends them chunk by chunk. `driver` is
-- the fence: it changes with each driver, a pause removes it, and only a step of the current one counts. `cursor`, `sent`, `skipped`, `recovered`, `died_alike` and
-- `died_differently` are totals of folded `run_deltas`. Read them through the view `runs`.
CREATE TABLE redrive.redrive_runs (
    id                bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state             text        COLLATE "C" NOT NULL DEFAULT 'running'
        CHECK (state IN ('unapproved', 'running', 'paused', 'halted', 'cancelled', 'finished')),
    filter            jsonb       NOT NULL,
    role              text        NOT NULL DEFAULT session_user,
    person            text,
    reason               text,
    forced            boolean     NOT NULL DEFAULT false,
    to_queue          redrive.name,
    priority          smallint    CHECK (priority BETWEEN -1000 AND 1000),
    max_attempts      integer     CHECK (max_attempts BETWEEN 1 AND 1000),
    delay_ms          bigint      CHECK (delay_ms > 0),
    rate              integer     CHECK (rate BETWEEN 1 AND 1000000),
    canary            bigint      NOT NULL DEFAULT 0 CHECK (canary >= 0),
    tolerated         smallint    NOT NULL DEFAULT 10 CHECK (tolerated BETWEEN 0 AND 100),
    stage             integer     NOT NULL DEFAULT 0 CHECK (stage >= 0),
    stage_to          bigint,
    stage_sent        bigint      NOT NULL DEFAULT 0,
    stage_recovered   bigint      NOT NULL DEFAULT 0,
    stage_died        bigint      NOT NULL DEFAULT 0,
    driver            uuid,
    driver_expires_at timestamptz,
    next_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    total             bigint      NOT NULL DEFAULT 0,
    cursor            bigint      NOT NULL DEFAULT 0 CHECK (cursor BETWEEN 0 AND total),
    sent              bigint      NOT NULL DEFAULT 0,
    skipped           bigint      NOT NULL DEFAULT 0,
    recovered         bigint      NOT NULL DEFAULT 0,
    died_alike        bigint      NOT NULL DEFAULT 0,
    died_differently  bigint      NOT NULL DEFAULT 0,
    halted_because    text,
    approved_by       text,
    approved_at       timestamptz,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at        timestamptz,
    ended_at          timestamptz,
    progress_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT runs_halted_have_a_cause CHECK ((state = 'halted') <= (halted_because IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

COMMENT ON COLUMN redrive.redrive_runs.approved_by IS 'The second operator, if its size needed an approval.';
COMMENT ON COLUMN redrive.redrive_runs.delay_ms IS 'How long a job waits until it is ready, in milliseconds; NULL: not at all.';
COMMENT ON COLUMN redrive.redrive_runs.rate IS 'Letters per second; NULL: unlimited.';
COMMENT ON COLUMN redrive.redrive_runs.canary IS 'How many letters are sent first, alone; 0: no canary and no ramp.';
COMMENT ON COLUMN redrive.redrive_runs.tolerated IS 'The percentage of letters that may die again; if more die, the run halts; 100: it never does.';
COMMENT ON COLUMN redrive.redrive_runs.stage_to IS 'The last member of the stage; NULL: the last one of the run.';
COMMENT ON COLUMN redrive.redrive_runs.stage_sent IS 'The value of `sent` when the stage began; likewise the next two.';
COMMENT ON COLUMN redrive.redrive_runs.next_at IS 'When the next letter is due according to the rate.';
COMMENT ON COLUMN redrive.redrive_runs.cursor IS 'How many members were tried.';
COMMENT ON COLUMN redrive.redrive_runs.progress_at IS 'When a step last sent letters or found outcomes, or an operator changed its state.';

CREATE INDEX redrive_runs_running ON redrive.redrive_runs (next_at) WHERE state = 'running';
CREATE INDEX redrive_runs_unfinished ON redrive.redrive_runs (state)
    WHERE state IN ('unapproved', 'running', 'paused', 'halted');

-- The members of a run, in the order of `redrive_order`. A member without an outcome is in a chunk and waiting, or
-- live.
CREATE TABLE redrive.run_letters (
    run_id    bigint NOT NULL,
    ordinal   bigint NOT NULL,
    letter_id bigint NOT NULL,
    outcome   text   COLLATE "C" CHECK (
        outcome IN ('recovered', 'died_alike', 'died_differently') OR outcome LIKE 'skipped\_%'),
    PRIMARY KEY (run_id, ordinal)
) WITH (fillfactor = 55, autovacuum_vacuum_scale_factor = 0.1);

-- The runs of a letter.
CREATE INDEX run_letters_by_letter ON redrive.run_letters (letter_id, run_id);

-- The members that were not tried yet, also of a cancelled run. An unlimited run without a canary has several chunks,
-- which its driver sends over several connections; others have one. The sender locks the row of its chunk and moves the cursor or deletes the row in
-- the transaction of the letters, so a driver that dies leaves the chunk unchanged.
CREATE TABLE redrive.run_chunks (
    run_id bigint NOT NULL,
    upto   bigint NOT NULL,
    cursor bigint NOT NULL,
    PRIMARY KEY (run_id, upto),
    CONSTRAINT run_chunks_have_a_member_left CHECK (cursor < upto)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

COMMENT ON COLUMN redrive.run_chunks.upto IS 'The last member of the chunk.';
COMMENT ON COLUMN redrive.run_chunks.cursor IS 'The last member that was tried.';

-- Changes of the totals of a run, inserted by each settle and each step, so that they never wait for each other. The
-- driver folds them into `redrive_runs`.
CREATE TABLE redrive.run_deltas (
    run_id           bigint NOT NULL,
    tried            bigint NOT NULL DEFAULT 0,
    sent             bigint NOT NULL DEFAULT 0,
    skipped          bigint NOT NULL DEFAULT 0,
    recovered        bigint NOT NULL DEFAULT 0,
    died_alike       bigint NOT NULL DEFAULT 0,
    died_differently bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Without a key, a publication of all tables would reject the DELETE of a fold.
ALTER TABLE redrive.run_deltas REPLICA IDENTITY FULL;

CREATE INDEX run_deltas_by_run ON redrive.run_deltas (run_id);
