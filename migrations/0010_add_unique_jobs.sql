-- Purpose: unique jobs: at most one live job of a queue has a given key. And what a job in an
--          outage carries with it; see 0011.
-- Locks: jobs, jobs_delayed and dead_letters exclusively, for a moment: columns are added.
-- Safe under running workers of the previous version: no, they write leases without the new
--          attributes.
-- breaking: yes

-- Who holds a key: a job, from its enqueue until it is done, dead, discarded or cancelled. A row is
-- written and removed in the statement that makes or ends the job, so none is ever left behind.
CREATE TABLE redrive.unique_keys (
    queue  redrive.name NOT NULL,
    key    text         COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 200),
    job_id bigint       NOT NULL,
    PRIMARY KEY (queue, key)
) WITH (
    -- Room for the row that an enqueue of a key in use writes beside the old one.
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON TABLE redrive.unique_keys IS 'The keys of unique jobs, each with the live job that holds it.';

CREATE UNIQUE INDEX unique_keys_by_job ON redrive.unique_keys (job_id);

-- A job without a key costs a bit in the null bitmap, which is there anyway.
ALTER TABLE redrive.jobs
    ADD COLUMN unique_key   text COLLATE "C",
    ADD COLUMN outage_since timestamptz;
ALTER TABLE redrive.jobs_delayed
    ADD COLUMN unique_key   text COLLATE "C",
    ADD COLUMN outage_since timestamptz;
ALTER TABLE redrive.dead_letters
    ADD COLUMN unique_key text COLLATE "C";

COMMENT ON COLUMN redrive.jobs.outage_since IS 'The first of its outages in a row; NULL: its last attempt met none.';
COMMENT ON COLUMN redrive.dead_letters.unique_key IS 'The key that its job had. A letter holds no key: a redrive takes it again, or leaves the letter.';

-- At the end: leases that are held right now have NULL there.
ALTER TYPE redrive.leased_job ADD ATTRIBUTE unique_key text;
ALTER TYPE redrive.leased_job ADD ATTRIBUTE outage_since timestamptz;

-- Enqueues one job in the caller's transaction; any language can call it.
-- Returns the id of the job; with a unique key that a live job of the queue has, the id of that
-- job, and nothing is stored. It waits for a transaction that is just storing a job of that key.
DROP FUNCTION redrive.enqueue(text, text, jsonb, interval, integer, integer);
CREATE FUNCTION redrive.enqueue(
    queue        text,
    kind         text,
    payload      jsonb,
    delay        interval DEFAULT '0',
    priority     integer  DEFAULT 0,
    max_attempts integer  DEFAULT 5,
    unique_key   text     DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    new_id bigint := nextval('redrive.job_id');
    held_by bigint;
BEGIN
    PERFORM redrive.check_name('queue', enqueue.queue), redrive.check_name('kind', enqueue.kind);
    IF enqueue.payload IS NULL THEN
        RAISE EXCEPTION 'redrive: the payload is NULL; use ''null''::jsonb for a JSON null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF enqueue.delay IS NULL OR enqueue.delay < '0' OR enqueue.delay > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the delay % is not between 0 and 3650 days', enqueue.delay
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.priority IS NULL OR enqueue.priority NOT BETWEEN -1000 AND 1000 THEN
        RAISE EXCEPTION 'redrive: the priority % is not between -1000 and 1000', enqueue.priority
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.max_attempts IS NULL OR enqueue.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'redrive: max_attempts % is not between 1 and 1000', enqueue.max_attempts
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF octet_length(enqueue.unique_key) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'redrive: the unique key has % bytes, not 1 to 200', octet_length(enqueue.unique_key)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF enqueue.unique_key IS NOT NULL THEN
        -- Changes nothing, but waits for whoever is at the same key, and answers who has it.
        INSERT INTO redrive.unique_keys AS k (queue, key, job_id)
        VALUES (enqueue.queue, enqueue.unique_key, new_id)
        ON CONFLICT ON CONSTRAINT unique_keys_pkey DO UPDATE SET key = excluded.key
        RETURNING k.job_id INTO held_by;
        IF held_by <> new_id THEN
            RETURN held_by;
        END IF;
    END IF;

    IF enqueue.delay > '0' THEN
        INSERT INTO redrive.jobs_delayed (id, queue, kind, payload, priority, max_attempts, run_at, unique_key)
        VALUES (new_id, enqueue.queue, enqueue.kind, enqueue.payload, enqueue.priority,
                enqueue.max_attempts, clock_timestamp() + enqueue.delay, enqueue.unique_key);
    ELSE
        INSERT INTO redrive.jobs (segment, id, queue, kind, payload, priority, max_attempts, unique_key)
        SELECT r.segment, new_id, enqueue.queue, enqueue.kind, enqueue.payload, enqueue.priority,
               enqueue.max_attempts, enqueue.unique_key
        FROM redrive.ring r;
    END IF;
    PERFORM redrive.wake(enqueue.queue);
    RETURN new_id;
END
$$;

-- As in 0005, with the new columns.
CREATE OR REPLACE FUNCTION redrive.turn_ring(segment_bytes bigint, move_limit integer) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '50ms'
    SET enable_seqscan = on
AS $$
DECLARE
    here       smallint;
    next_one   smallint;
    candidate  smallint;
    occupied   boolean;
    moved_rows bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('redrive.turn_ring')) THEN
        RETURN 'nothing';
    END IF;
    SELECT r.segment INTO here FROM redrive.ring r;
    next_one := (here + 1) % 4;

    -- Truncate: oldest first. The look without the lock keeps the lock short; the look
    -- under it sees every committed row, because nobody can be writing any more.
    FOR step IN 1..3 LOOP
        candidate := (here + step) % 4;
        CONTINUE WHEN pg_relation_size(format('redrive.jobs_%s', candidate)::regclass) = 0;
        EXECUTE format('SELECT EXISTS (SELECT FROM redrive.jobs_%s)', candidate) INTO occupied;
        CONTINUE WHEN occupied;
        BEGIN
            EXECUTE format('LOCK TABLE redrive.jobs_%s IN ACCESS EXCLUSIVE MODE', candidate);
            EXECUTE format('SELECT EXISTS (SELECT FROM redrive.jobs_%s)', candidate) INTO occupied;
            IF NOT occupied THEN
                EXECUTE format('TRUNCATE redrive.jobs_%s', candidate);
                RETURN 'truncated';
            END IF;
            -- Somebody enqueued into it in between: let go of the lock at once.
            RAISE lock_not_available;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;

    IF pg_relation_size(format('redrive.jobs_%s', here)::regclass) < segment_bytes THEN
        RETURN 'nothing';
    END IF;
    IF pg_relation_size(format('redrive.jobs_%s', next_one)::regclass) = 0 THEN
        UPDATE redrive.ring SET segment = next_one, turned_at = clock_timestamp();
        RETURN 'turned';
    END IF;

    -- The ring wants to turn and the next segment is not clean. When only a few jobs keep
    -- it so, they move on; when it is a real backlog, it will be drained instead.
    EXECUTE format('SELECT count(*) FROM (SELECT FROM redrive.jobs_%s LIMIT $1) few', next_one)
        INTO moved_rows USING move_limit + 1;
    IF moved_rows = 0 OR moved_rows > move_limit THEN
        RETURN 'nothing';
    END IF;
    EXECUTE format(
        'WITH left_behind AS MATERIALIZED ('
        '  SELECT ctid FROM redrive.jobs_%1$s FOR UPDATE SKIP LOCKED),'
        ' gone AS ('
        '  DELETE FROM redrive.jobs_%1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM left_behind))'
        '  RETURNING id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '            crashes, refunds, queue, kind, payload, history, unique_key, outage_since)'
        ' INSERT INTO redrive.jobs'
        '  (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '   crashes, refunds, queue, kind, payload, history, unique_key, outage_since)'
        ' SELECT $1, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '        crashes, refunds, queue, kind, payload, history, unique_key, outage_since FROM gone',
        next_one)
        USING here;
    RETURN 'moved';
END
$$;

CREATE OR REPLACE VIEW redrive.live_jobs AS
    SELECT j.id, j.queue::text AS queue, j.kind, 'ready'::text AS state, j.priority, j.payload,
           j.attempt, j.max_attempts, j.generation, j.crashes, j.ready_at AS run_at,
           j.enqueued_at, j.history, NULL::uuid AS worker_id, NULL::uuid AS lease_id,
           NULL::timestamptz AS claimed_at, j.unique_key, j.outage_since
    FROM redrive.jobs j
    UNION ALL
    SELECT d.id, d.queue, d.kind, 'delayed', d.priority, d.payload,
           d.attempt, d.max_attempts, d.generation, d.crashes, d.run_at,
           d.enqueued_at, d.history, NULL, NULL, NULL, d.unique_key, d.outage_since
    FROM redrive.jobs_delayed d
    UNION ALL
    SELECT j.id, l.queue, j.kind, 'leased', j.priority, j.payload,
           j.attempt, j.max_attempts, j.generation, j.crashes, l.claimed_at,
           j.enqueued_at, j.history, l.worker_id, l.lease_id, l.claimed_at, j.unique_key, j.outage_since
    FROM redrive.leases l
    CROSS JOIN LATERAL unnest(l.jobs)
        AS j (id, kind, priority, payload, attempt, max_attempts, generation, crashes, refunds,
              enqueued_at, history, unique_key, outage_since)
    WHERE j.id <> ALL (l.done);

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
           l.detail_id, l.unique_key
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
