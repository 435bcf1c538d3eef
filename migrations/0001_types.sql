-- Purpose: The schema's types, the sequence of ids, and the tasks that run once at a time.
-- breaking: yes

REVOKE ALL ON SCHEMA redrive FROM PUBLIC;
COMMENT ON SCHEMA redrive IS 'redrive: jobs, leases and dead letters';

-- The name of a queue. Names become metric labels, command-line arguments and lines on a
-- terminal, so control characters and blanks at the edges are rejected. (A dump would write BETWEEN beside AND with
-- other parentheses, and the restored schema would differ from the migrations.)
CREATE DOMAIN redrive.name AS text COLLATE "C"
    CHECK (length(VALUE) >= 1 AND length(VALUE) <= 100 AND VALUE = btrim(VALUE) AND VALUE !~ '[[:cntrl:]]');
-- A kind may be as long as the event type of the classic dead letter table.
CREATE DOMAIN redrive.kind AS text COLLATE "C"
    CHECK (length(VALUE) >= 1 AND length(VALUE) <= 255 AND VALUE = btrim(VALUE) AND VALUE !~ '[[:cntrl:]]');

-- Bounds on the columns of live jobs and others. These are domains rather than table CHECKs because a session
-- caches the condition of a domain, but parses a table's CHECKs for every statement. Nine CHECKs
-- doubled the cost of inserting one job.
CREATE DOMAIN redrive.short_text AS text COLLATE "C" CHECK (length(VALUE) BETWEEN 1 AND 100);
CREATE DOMAIN redrive.kind_text AS text COLLATE "C" CHECK (length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN redrive.run_time AS timestamptz CHECK (VALUE > '2000-01-01Z' AND VALUE < '3000-01-01Z');
CREATE DOMAIN redrive.group_key AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 200);
-- An enqueuer may count what it likes, but the sum of all rows must not exceed a bigint.
CREATE DOMAIN redrive.counts AS bigint[] CHECK (1000000000 >= ALL (VALUE) AND -1000000000 <= ALL (VALUE));
CREATE DOMAIN redrive.headers AS jsonb
    CHECK (jsonb_typeof(VALUE) = 'object' AND octet_length(VALUE::text) <= 65536);

-- Jobs and letters share one sequence. A job keeps its id through death and redrive, so an id is in
-- one place at a time and is never used twice.
CREATE SEQUENCE redrive.job_id AS bigint;

-- Tasks that run in one session at a time. A task locks its row. Unlike an advisory lock, only roles that may
-- update the row can hold it.
CREATE TABLE redrive.exclusive_tasks (
    task text COLLATE "C" NOT NULL PRIMARY KEY
        CHECK (task IN ('fold_letters', 'fold_metrics', 'apply_retention'))
);
INSERT INTO redrive.exclusive_tasks (task) VALUES ('fold_letters'), ('fold_metrics'), ('apply_retention');
