-- Purpose: The audit and the sizes of tables that are rewritten.
-- breaking: yes

CREATE TABLE redrive.audit (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    verb     text        COLLATE "C" NOT NULL CHECK (verb <> ''),
    role     text        NOT NULL DEFAULT session_user,
    person   text,
    reason   text,
    filter   jsonb,
    letters  bigint      NOT NULL DEFAULT 0 CHECK (letters >= 0),
    about    jsonb,
    batch_of bigint
);

CREATE INDEX audit_by_operation ON redrive.audit (batch_of) INCLUDE (letters) WHERE batch_of IS NOT NULL;

COMMENT ON TABLE redrive.audit IS 'Append-only record of operator actions. Old records can be pruned, and values erased.';
COMMENT ON COLUMN redrive.audit.person IS 'The operator as named by the program, usually user@host.';
COMMENT ON COLUMN redrive.audit.letters IS 'How many letters, or jobs, the action changed.';
COMMENT ON COLUMN redrive.audit.about IS 'Further facts: the run, the group, the policy, the edit.';
COMMENT ON COLUMN redrive.audit.batch_of IS 'The first record of the operation, if this one is of a later batch.';
-- The tables that are rewritten once dead rows fill them. Vacuum frees dead rows too, but not those that a
-- transaction, a replication slot or a standby may still see. Until that ends, every statement reads past them;
-- only TRUNCATE removes them. A snapshot that is older than the TRUNCATE finds the table empty, so no table with
-- letters or waiting jobs is in the list, and a dump locks those that it needs; see GUARANTEES.md. `leases` is: every heartbeat and every reading reads all of it, and a
-- snapshot that is older than a claim misses jobs in any case; see GUARANTEES.md. `max_rows` and a limit of 16 MB of
-- live rows bound the time for which a rewrite locks the table.
CREATE TABLE redrive.compactions (
    relation     text        COLLATE "C" NOT NULL PRIMARY KEY,
    min_bytes    bigint      NOT NULL,
    max_rows     bigint      NOT NULL,
    vacuum_bytes bigint      NOT NULL DEFAULT 0,
    kept_xid     xid,
    retry_at     timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO redrive.compactions (relation, min_bytes, max_rows) VALUES
    -- Every enqueue reads all workers, to learn whether one is waiting.
    ('redrive.workers', 32768, 5000),
    ('redrive.delayed_marks', 65536, 5000),
    -- Every claim under a rate limit changes a row.
    ('redrive.rate_buckets', 65536, 5000),
    ('redrive.letter_deltas', 1048576, 5000),
    ('redrive.run_deltas', 1048576, 5000),
    ('redrive.metric_values', 1048576, 50000),
    ('redrive.failure_hours', 4194304, 20000);
INSERT INTO redrive.compactions (relation, min_bytes, max_rows, vacuum_bytes) VALUES
    -- Every claim waits while it is rewritten.
    ('redrive.leases', 4194304, 5000, 33554432);

COMMENT ON COLUMN redrive.compactions.min_bytes IS 'The size from which the table is rewritten if three quarters of it are dead.';
COMMENT ON COLUMN redrive.compactions.max_rows IS 'With more live rows, it is not rewritten.';
COMMENT ON COLUMN redrive.compactions.vacuum_bytes IS 'Below this size, it is only rewritten while vacuum cannot remove its dead rows.';
COMMENT ON COLUMN redrive.compactions.kept_xid IS 'The oldest transaction whose dead rows vacuum kept when the table was last searched.';
COMMENT ON COLUMN redrive.compactions.retry_at IS 'When it may next be searched or rewritten.';
