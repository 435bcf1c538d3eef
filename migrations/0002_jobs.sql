-- Purpose: Jobs that are ready, delayed or leased, the ring of segments that holds the ready ones, unique keys, and workers.
-- breaking: yes

-- The segment of `jobs` that new rows go to. Every enqueue reads it; only a turn of the ring sets it. It is a
-- sequence because a sequence is changed in place: a row would leave a dead version at each turn, and every
-- enqueue would read all of them while a transaction holds the xmin horizon.
CREATE SEQUENCE redrive.ring_position AS smallint MINVALUE 0 MAXVALUE 7 START 0;
CREATE VIEW redrive.ring AS SELECT p.last_value::smallint AS segment FROM redrive.ring_position p;

-- What the ring remembers about each segment, apart from `ring`, so that an enqueue never reads it.
CREATE TABLE redrive.ring_segments (
    segment      smallint    NOT NULL PRIMARY KEY CHECK (segment BETWEEN 0 AND 7),
    turned_at    timestamptz,
    truncated_at timestamptz,
    drained_at   timestamptz,
    drained_xid  xid8,
    retry_at     timestamptz NOT NULL DEFAULT '-infinity',
    refusals     smallint    NOT NULL DEFAULT 0 CHECK (refusals >= 0),
    CONSTRAINT ring_segments_are_drained_at_a_transaction CHECK ((drained_at IS NULL) = (drained_xid IS NULL))
);
INSERT INTO redrive.ring_segments (segment, turned_at)
SELECT n, CASE n WHEN 0 THEN clock_timestamp() END FROM generate_series(0, 7) n;

COMMENT ON COLUMN redrive.ring_segments.turned_at IS 'When the ring last turned to the segment; NULL: never.';
COMMENT ON COLUMN redrive.ring_segments.drained_at IS 'When the segment was found without a job; NULL: it holds jobs, or nothing at all.';
COMMENT ON COLUMN redrive.ring_segments.drained_xid IS 'A snapshot that is not older than this transaction sees that the segment has no job.';
COMMENT ON COLUMN redrive.ring_segments.retry_at IS 'When the segment may next be searched or locked.';
COMMENT ON COLUMN redrive.ring_segments.refusals IS 'How often in a row it could not be truncated. Each doubles the wait.';

-- What a job has beyond a plain one, which is new and has no options; NULL in an attribute: the default. Attributes can be
-- added at the end while workers run, and workers of the older version carry them.
CREATE TYPE redrive.job_meta AS (
    ready_at     timestamptz,
    attempt      integer,
    max_attempts integer,
    generation   integer,
    priority     smallint,
    crashes      smallint,
    refunds      smallint,
    history      jsonb,
    unique_key   text                  COLLATE "C",
    outage_since timestamptz,
    headers      jsonb,
    group_key    text                  COLLATE "C"
);

-- A plain job has NULL and pays for no check. A condition on an attribute that is NULL is met.
CREATE DOMAIN redrive.checked_meta AS redrive.job_meta CHECK (
    VALUE IS NULL
    OR coalesce((VALUE).attempt, 0) < coalesce((VALUE).max_attempts, 5)
        AND (VALUE).attempt >= 0 AND (VALUE).max_attempts <= 1000
        AND (VALUE).generation >= 0 AND (VALUE).refunds >= 0
        AND (VALUE).priority >= -1000 AND (VALUE).priority <= 1000
        -- So that a lost worker does not exceed the type.
        AND (VALUE).crashes >= 0 AND (VALUE).crashes <= 30000
        AND octet_length((VALUE).group_key) >= 1 AND octet_length((VALUE).group_key) <= 200
        AND octet_length((VALUE).unique_key) >= 1 AND octet_length((VALUE).unique_key) <= 200
        AND (VALUE).ready_at > '2000-01-01Z' AND (VALUE).ready_at < '3000-01-01Z'
        AND (VALUE).outage_since > '2000-01-01Z' AND (VALUE).outage_since < '3000-01-01Z'
        AND CASE jsonb_typeof((VALUE).history) WHEN 'array' THEN jsonb_array_length((VALUE).history) <= 20 ELSE (VALUE).history IS NULL END
        AND jsonb_typeof((VALUE).headers) = 'object' AND octet_length((VALUE).headers::text) <= 65536
);

-- Ready jobs. Rows are inserted and deleted, never updated. Eight segments are filled, drained and
-- truncated in turn, because only TRUNCATE returns space while a transaction holds the xmin horizon.
-- There is no primary key: it would cost a tenth of the throughput and add nothing to the sequence,
-- the unique claim index and the single-statement moves.
CREATE TABLE redrive.jobs (
    id           bigint                NOT NULL DEFAULT nextval('redrive.job_id'),
    enqueued_at  timestamptz           NOT NULL DEFAULT clock_timestamp(),
    segment      smallint              NOT NULL,
    rank         smallint              NOT NULL DEFAULT 0,
    queue        redrive.short_text    NOT NULL,
    kind         redrive.kind_text     NOT NULL,
    payload      json                  NOT NULL,
    meta         redrive.checked_meta,
    CONSTRAINT jobs_have_the_rank_of_their_priority CHECK (
        rank = (coalesce((meta).generation, 0) > 0)::integer - 2 * coalesce((meta).priority, 0))
) PARTITION BY LIST (segment);

COMMENT ON COLUMN redrive.jobs.rank IS 'The order of claims. Not generated: PostgreSQL 18 deletes no row whose replica identity has a generated column.';
COMMENT ON COLUMN redrive.job_meta.attempt IS 'Attempts charged in this generation. A claim charges the next one.';
COMMENT ON COLUMN redrive.job_meta.generation IS 'How many times the job was redriven. Above 0, a letter with the same id exists.';
COMMENT ON COLUMN redrive.job_meta.crashes IS 'Leases lost with their worker. Above 0, the job is a suspect and is claimed alone.';
COMMENT ON COLUMN redrive.job_meta.refunds IS 'Attempts refunded by releases. Bounded, so that a job cannot be released forever.';
COMMENT ON COLUMN redrive.job_meta.outage_since IS 'Start of the current series of outages; NULL: the last attempt met none.';

-- The order of a claim: higher priority first; within a priority, new jobs before redriven ones; then the older
-- id. The rank falls with the priority, so that `(rank, id) > (r, mark)` is one range of the index.
CREATE UNIQUE INDEX jobs_for_claim ON redrive.jobs (queue, rank, id, segment);

-- The segments. The last one, which the ring never touches, has the jobs of groups that wait for their turn; see
-- 0008_job_groups.sql. Payloads are not compressed, so their size on disk bounds what a claim reads. The replica
-- identity keeps `FOR ALL TABLES` publications from blocking the claim; the index also lets a
-- subscriber find a row, which it could not by a payload, because `json` has no equality.
DO $$
DECLARE
    each_segment text;
BEGIN
    FOREACH each_segment IN ARRAY '{0,1,2,3,4,5,6,7,waiting}'::text[] LOOP
        EXECUTE format('CREATE TABLE redrive.jobs_%s PARTITION OF redrive.jobs FOR VALUES IN (%s)',
                       each_segment, replace(each_segment, 'waiting', '8'));
        EXECUTE format('ALTER TABLE redrive.jobs_%s REPLICA IDENTITY USING INDEX jobs_%1$s_queue_rank_id_segment_idx', each_segment);
        EXECUTE format('ALTER TABLE redrive.jobs_%s ALTER COLUMN payload SET STORAGE EXTERNAL', each_segment);
    END LOOP;
END
$$;

-- Jobs that are scheduled, backing off or snoozed.
CREATE TABLE redrive.jobs_delayed (
    id           bigint                NOT NULL DEFAULT nextval('redrive.job_id') PRIMARY KEY,
    run_at       redrive.run_time      NOT NULL,
    enqueued_at  timestamptz           NOT NULL DEFAULT clock_timestamp(),
    queue        redrive.short_text    NOT NULL,
    kind         redrive.kind_text     NOT NULL,
    payload      json                  NOT NULL,
    meta         redrive.checked_meta
);

CREATE INDEX jobs_delayed_for_promote ON redrive.jobs_delayed (queue, run_at, id);

-- At which time the promotions of a queue start, because vacuum cannot remove millions of rows before it; see
-- redrive.promote.
CREATE TABLE redrive.delayed_marks (
    queue    redrive.short_text NOT NULL PRIMARY KEY,
    run_at   timestamptz        NOT NULL,
    whole_at timestamptz        NOT NULL,
    noted_at timestamptz        NOT NULL
);

COMMENT ON COLUMN redrive.delayed_marks.run_at IS 'Jobs that were due before that have been promoted, as far as is known.';
COMMENT ON COLUMN redrive.delayed_marks.whole_at IS 'When a promotion reads the jobs before the mark, too.';
-- One row per worker process. Renewing it renews all leases of the process, so the cost of a
-- heartbeat does not depend on the number of jobs in flight.
CREATE TABLE redrive.workers (
    worker_id  uuid         NOT NULL PRIMARY KEY,
    queue      redrive.name NOT NULL,
    host       text         NOT NULL,
    pid        integer      NOT NULL,
    version    text         NOT NULL,
    slots      integer      NOT NULL CHECK (slots > 0),
    pool       uuid,
    slot_jobs  integer      NOT NULL DEFAULT 1 CHECK (slot_jobs > 0),
    kinds      text[]       COLLATE "C",
    waiting    boolean      NOT NULL DEFAULT false,
    started_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz  NOT NULL
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

COMMENT ON COLUMN redrive.workers.slots IS 'How many jobs of all rows with its pool run at a time.';
COMMENT ON COLUMN redrive.workers.pool IS 'Rows with the same pool share its slots; NULL: it shares none.';
COMMENT ON COLUMN redrive.workers.slot_jobs IS 'How many jobs a slot runs at once: the size of the batches, if there are only batches.';
COMMENT ON COLUMN redrive.workers.kinds IS 'The kinds it handles; NULL: all.';
COMMENT ON COLUMN redrive.workers.waiting IS 'The worker is idle: an enqueue should notify it.';

-- One row per claim, not per job. The row is the fence: a worker that lost its lease finds no row,
-- so its writes about these jobs have no effect. Element n of each array belongs to job n.
CREATE TABLE redrive.leases (
    lease_id      uuid          NOT NULL PRIMARY KEY,
    worker_id     uuid          NOT NULL,
    queue         redrive.name  NOT NULL,
    claimed_at    timestamptz   NOT NULL DEFAULT clock_timestamp(),
    ids           bigint[]      NOT NULL,
    kinds         text[]        COLLATE "C" NOT NULL,
    payloads      json[]        NOT NULL,
    enqueued_at   timestamptz[] NOT NULL,
    done          bigint[]      NOT NULL DEFAULT '{}',
    cancelled     bigint[]      NOT NULL DEFAULT '{}',
    job_count     integer       NOT NULL GENERATED ALWAYS AS (cardinality(ids)) STORED,
    metas         redrive.job_meta[],
    CONSTRAINT leases_have_a_job_left CHECK (cardinality(done) < job_count)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON COLUMN redrive.leases.cancelled IS 'Ids of jobs that an operator cancelled while they ran.';
COMMENT ON COLUMN redrive.leases.job_count IS 'The number of jobs, including settled ones. Reading it does not unpack `ids`.';

-- The arrays of a lease that a claim returns beyond those of `leases`.
CREATE TYPE redrive.claimed_metas AS (
    ready_at      timestamptz[],
    priorities    smallint[],
    attempts      integer[],
    max_attempts  integer[],
    generations   integer[],
    crashes       smallint[],
    unique_keys   text[],
    outages_since timestamptz[],
    headers       jsonb[],
    group_keys    text[]
);

CREATE INDEX leases_for_reap ON redrive.leases (worker_id);

-- lz4 for every array, or no compression if the server lacks it. A lease is written once and usually not read;
-- compressing its arrays with pglz, the default, would cost more than the rest of a claim.
DO $$
DECLARE
    each_array name;
BEGIN
    FOR each_array IN
        SELECT a.attname FROM pg_attribute a
        WHERE a.attrelid = 'redrive.leases'::regclass AND a.attnum > 0 AND a.attstorage = 'x' AND a.attndims > 0
    LOOP
        BEGIN
            EXECUTE format('ALTER TABLE redrive.leases ALTER COLUMN %I SET COMPRESSION lz4', each_array);
        EXCEPTION WHEN feature_not_supported THEN
            EXECUTE format('ALTER TABLE redrive.leases ALTER COLUMN %I SET STORAGE EXTERNAL', each_array);
        END;
    END LOOP;
END
$$;

-- Finished jobs whose handler keeps them: what ran, when and how often, without payload. Each row lies in the slot of
-- the two days in which its time ends, so that TRUNCATE removes all rows of a slot at once. Twenty slots are enough for
-- the longest time, 30 days, and leave workers a week to truncate a slot before it is used again.
CREATE TABLE redrive.done_jobs (
    id           bigint                NOT NULL,
    enqueued_at  timestamptz           NOT NULL,
    started_at   timestamptz           NOT NULL,
    done_at      timestamptz           NOT NULL,
    keep_until   timestamptz           NOT NULL,
    attempt      integer               NOT NULL,
    max_attempts integer               NOT NULL,
    generation   integer               NOT NULL,
    slot         smallint              NOT NULL,
    priority     smallint              NOT NULL,
    queue        redrive.short_text    NOT NULL,
    kind         redrive.kind_text     NOT NULL
) PARTITION BY LIST (slot);

COMMENT ON COLUMN redrive.done_jobs.keep_until IS 'When the row is hidden. Its space is returned up to two days later.';

DO $$
BEGIN
    FOR each_slot IN 0..19 LOOP
        EXECUTE format('CREATE TABLE redrive.done_jobs_%s PARTITION OF redrive.done_jobs FOR VALUES IN (%1$s)', each_slot);
    END LOOP;
END
$$;

CREATE INDEX done_jobs_by_id ON redrive.done_jobs (id);
CREATE INDEX done_jobs_by_queue ON redrive.done_jobs (queue, id);

-- A job holds its key from enqueue until it is done, dead, discarded or cancelled, or only until it starts. The row is written
-- and deleted in the statement that creates or ends the job, so no key is left behind.
CREATE TABLE redrive.unique_keys (
    queue  redrive.name NOT NULL,
    key    text         COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 200),
    job_id bigint       NOT NULL,
    PRIMARY KEY (queue, key)
);

CREATE UNIQUE INDEX unique_keys_by_job ON redrive.unique_keys (job_id);

-- The windows of keys. An enqueue with a window stores no job while a window of its key is open, even if the job that
-- opened it is done. Workers read and write no row of this table.
CREATE TABLE redrive.unique_windows (
    queue   redrive.name NOT NULL,
    key     text         COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 200),
    job_id  bigint       NOT NULL,
    ends_at timestamptz  NOT NULL,
    PRIMARY KEY (queue, key)
);

COMMENT ON COLUMN redrive.unique_windows.job_id IS 'The job that opened the window, which may have ended.';

-- A job on its way from one table to another; without a segment, it is delayed or leased. What a move may change stands
-- beside `meta`, with its defaults filled in, and counts; `meta` carries the rest. Attributes can be added at the end.
-- (With other collations than those of the tables, the planner could not use an index through `ready_job`.)
CREATE TYPE redrive.job AS (
    id           bigint,
    ready_at     timestamptz,
    enqueued_at  timestamptz,
    attempt      integer,
    max_attempts integer,
    generation   integer,
    segment      smallint,
    priority     smallint,
    crashes      smallint,
    refunds      smallint,
    queue        text                  COLLATE "C",
    kind         text                  COLLATE "C",
    payload      json,
    history      jsonb,
    outage_since timestamptz,
    meta         redrive.job_meta
);

-- How a job died. Attributes can be added at the end.
CREATE TYPE redrive.death AS (
    cause         text,
    error_class   text,
    error_message text,
    error_detail  text,
    failure_key   text,
    run_ms        integer,
    worker_id     uuid,
    host          text,
    version       text,
    pid           integer
);
