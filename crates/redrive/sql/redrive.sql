-- Purpose: sends open letters back as jobs: the same id, the next generation, a fresh budget of
--          attempts, the history kept. The letter changes only if its job was inserted.
-- Called by: redrive.rs, a batch a call.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 timestamptz only letters that had died by then; NULL: by now. A later batch passes on what
--              the first one answered, so that a letter which dies again is not taken again.
-- $3 bigint    how many at most
-- Locks: the letters it redrives; letters locked by another operator are skipped: they are
--        being redriven or discarded right now. The keys of those that have one: it waits for a
--        transaction that is just storing a job of such a key.
-- Index relied on: dead_letters_open_for_redrive, or the primary key; the primary key of
--        unique_keys.
-- Rows: the ids redriven, and as of when. A letter without JSON (captured bytes) is not
--       redriven: a job needs one. Nor is one whose unique key a live job has.
WITH chosen AS MATERIALIZED (
    SELECT c.id
    FROM redrive.lock_letters($1, '{open}', coalesce($2::timestamptz, statement_timestamp()), $3, true) AS c (id)
),
-- A letter with a unique key takes it again; when a live job has it, the letter stays open.
keyed AS (
    INSERT INTO redrive.unique_keys (queue, key, job_id)
    SELECT l.queue, l.unique_key, l.id
    FROM redrive.dead_letters l
    JOIN chosen ON chosen.id = l.id
    WHERE l.unique_key IS NOT NULL
    ORDER BY l.queue, l.unique_key, l.died_at, l.id
    ON CONFLICT DO NOTHING
    RETURNING job_id
),
-- Joined below as a relation of its own: a subquery on `keyed` could not be looked at again for a
-- letter that changed meanwhile.
sendable AS MATERIALIZED (
    SELECT l.id
    FROM redrive.dead_letters l
    JOIN chosen ON chosen.id = l.id
    LEFT JOIN keyed ON keyed.job_id = l.id
    WHERE l.unique_key IS NULL OR keyed.job_id IS NOT NULL
),
redriven AS (
    UPDATE redrive.dead_letters l
    SET state = 'redriving', changed_at = clock_timestamp(),
        run_id = NULL, run_ordinal = NULL, policy_id = NULL
    FROM sendable
    WHERE l.id = sendable.id AND l.state = 'open'
    RETURNING l.id, l.queue, l.kind, l.payload, l.priority, l.max_attempts, l.generation,
              l.history, l.enqueued_at, l.unique_key
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, enqueued_at, max_attempts, generation, priority, queue, kind, payload, history,
         unique_key)
    SELECT r.segment, d.id, d.enqueued_at, d.max_attempts, d.generation + 1, d.priority, d.queue,
           d.kind, d.payload, nullif(d.history, '[]'), d.unique_key
    FROM redriven d
    CROSS JOIN redrive.ring r
    RETURNING id, queue
),
woken AS MATERIALIZED (
    SELECT pg_notify('redrive_ready', q.queue)
    FROM (SELECT DISTINCT ready.queue FROM ready) q
    WHERE EXISTS (
        SELECT FROM redrive.workers w
        WHERE w.queue = q.queue AND w.waiting AND w.expires_at > statement_timestamp())
)
SELECT r.id, coalesce($2::timestamptz, statement_timestamp()) AS as_of,
       (SELECT count(*) FROM woken) AS woken
FROM ready r
ORDER BY r.id
