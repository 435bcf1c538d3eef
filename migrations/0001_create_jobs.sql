-- Purpose: the ring of segments, and `jobs`: the ready jobs. (The schema itself comes with the
--          ledger of migrations.)
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: there is none.
-- breaking: yes

REVOKE ALL ON SCHEMA redrive FROM PUBLIC;
COMMENT ON SCHEMA redrive IS 'redrive: jobs, leases and dead letters';

-- What a queue or a kind may be called. It becomes a metric label, a command-line
-- argument and a line on a terminal, so control characters and blank edges are out.
CREATE DOMAIN redrive.name AS text COLLATE "C"
    CHECK (length(VALUE) BETWEEN 1 AND 100 AND VALUE = btrim(VALUE) AND VALUE !~ '[[:cntrl:]]');

-- What the columns of live jobs may hold. Domains and not CHECKs of the tables: a session keeps a
-- domain's condition, but reads a table's CHECKs anew in each statement, and nine of them made
-- the insert of one job twice as expensive.
CREATE DOMAIN redrive.short_text AS text COLLATE "C" CHECK (length(VALUE) BETWEEN 1 AND 100);
CREATE DOMAIN redrive.priority AS smallint CHECK (VALUE BETWEEN -1000 AND 1000);
CREATE DOMAIN redrive.allowance AS integer CHECK (VALUE BETWEEN 1 AND 1000);
CREATE DOMAIN redrive.times AS integer CHECK (VALUE >= 0);
CREATE DOMAIN redrive.few_times AS smallint CHECK (VALUE >= 0);
CREATE DOMAIN redrive.some_day AS timestamptz CHECK (VALUE > '2000-01-01' AND VALUE < '3000-01-01');

-- One sequence for jobs and letters: a job keeps its id from the first enqueue through
-- death and redrive, so an id is in one place at a time and never used twice.
CREATE SEQUENCE redrive.job_id AS bigint;

-- The ring: which segment of `jobs` new rows go to. One row.
-- It is read by every enqueue and updated only when the ring turns.
CREATE TABLE redrive.ring (
    only_row  boolean     NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
    segment   smallint    NOT NULL CHECK (segment BETWEEN 0 AND 3),
    turned_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO redrive.ring (segment) VALUES (0);

-- Ready jobs. Rows are inserted and deleted, never updated, in a ring of four segments
-- that are filled, drained and truncated in turn: TRUNCATE is the only thing that gives
-- space back while somebody holds the xmin horizon.
-- No primary key: it would cost a tenth of the throughput and guard nothing that the
-- sequence, the unique claim index and the one-statement moves do not guard already.
CREATE TABLE redrive.jobs (
    id           bigint             NOT NULL DEFAULT nextval('redrive.job_id'),
    ready_at     timestamptz        NOT NULL DEFAULT clock_timestamp(),
    enqueued_at  timestamptz        NOT NULL DEFAULT clock_timestamp(),
    attempt      redrive.times      NOT NULL DEFAULT 0,
    max_attempts redrive.allowance  NOT NULL DEFAULT 5,
    generation   redrive.times      NOT NULL DEFAULT 0,
    segment      smallint           NOT NULL,
    priority     redrive.priority   NOT NULL DEFAULT 0,
    crashes      redrive.few_times  NOT NULL DEFAULT 0,
    refunds      redrive.few_times  NOT NULL DEFAULT 0,
    queue        redrive.short_text NOT NULL,
    kind         redrive.short_text NOT NULL,
    payload      jsonb              NOT NULL,
    history      jsonb,
    CONSTRAINT jobs_have_an_attempt_left CHECK (attempt < max_attempts)
) PARTITION BY LIST (segment);

COMMENT ON TABLE redrive.jobs IS 'Ready jobs: inserted by enqueue, promote, redrive and reap; deleted by claim and cancel.';
COMMENT ON COLUMN redrive.jobs.attempt IS 'Attempts charged in this generation. A claim charges the next one.';
COMMENT ON COLUMN redrive.jobs.generation IS 'How often the job has been redriven; above 0 a letter with the same id exists.';
COMMENT ON COLUMN redrive.jobs.crashes IS 'Leases lost with their worker. Above 0 the job is a suspect and is claimed alone.';
COMMENT ON COLUMN redrive.jobs.refunds IS 'Attempts given back by releases; bounded, so that a release cannot loop for ever.';

CREATE TABLE redrive.jobs_0 PARTITION OF redrive.jobs FOR VALUES IN (0);
CREATE TABLE redrive.jobs_1 PARTITION OF redrive.jobs FOR VALUES IN (1);
CREATE TABLE redrive.jobs_2 PARTITION OF redrive.jobs FOR VALUES IN (2);
CREATE TABLE redrive.jobs_3 PARTITION OF redrive.jobs FOR VALUES IN (3);

-- The order of a claim, exactly: higher priority first, then the older id.
-- Negated, so that `(-priority, id) > (p, mark)` is one range of the index.
CREATE UNIQUE INDEX jobs_for_claim ON redrive.jobs (queue, (-priority), id, segment);

-- Per segment: vacuum early and at full speed (a queue table lives by its dead rows being
-- gone); payloads uncompressed, so that their size on disk bounds what a claim reads; and
-- a replica identity, so that `FOR ALL TABLES` publications do not stop the claim.
DO $$
DECLARE
    each_segment smallint;
BEGIN
    FOR each_segment IN 0..3 LOOP
        EXECUTE format(
            'ALTER TABLE redrive.jobs_%s SET (autovacuum_vacuum_scale_factor = 0,'
            ' autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,'
            ' autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000)',
            each_segment);
        EXECUTE format('ALTER TABLE redrive.jobs_%s REPLICA IDENTITY FULL', each_segment);
        EXECUTE format('ALTER TABLE redrive.jobs_%s ALTER COLUMN payload SET STORAGE EXTERNAL', each_segment);
    END LOOP;
END
$$;
