-- Purpose: sends open letters back as jobs: the same id, the next generation, a fresh budget of
--          attempts, the history kept. The letter changes only if its job was inserted.
-- Called by: redrive.rs, a batch a call.
-- $1 bigint[] ids        $2 text queue   $3 text kind    $4 text reason
-- $5 text error class    $6 text state   (each NULL: any; a state other than open: none)
-- $7 bigint   unused here; letters.sql pages by it
-- $8 bigint   how many at most
-- $9 timestamptz only letters that had died by then; NULL: by now. A later batch passes on what
--              the first one answered, so that a letter which dies again is not taken again.
-- Locks: the letters it redrives; letters locked by another operator are skipped: they are
--        being redriven or discarded right now.
-- Index relied on: dead_letters_open_for_redrive, or the primary key.
-- Rows: the ids redriven, and as of when. A letter without JSON (captured bytes) is not
--       redriven: a job needs one.
WITH chosen AS MATERIALIZED (
    SELECT l.id
    FROM redrive.dead_letters l
    WHERE l.state = 'open'
        AND l.payload IS NOT NULL
        AND ($1::bigint[] IS NULL OR l.id = ANY ($1::bigint[]))
        AND ($2::text IS NULL OR l.queue = $2::text)
        AND ($3::text IS NULL OR l.kind = $3::text)
        AND ($4::text IS NULL OR l.reason = $4::text)
        AND ($5::text IS NULL OR l.error_class = $5::text)
        AND ($6::text IS NULL OR l.state = $6::text)
        AND $7::bigint IS NULL
        AND l.died_at <= coalesce($9::timestamptz, statement_timestamp())
    ORDER BY l.died_at, l.id
    LIMIT $8
    FOR UPDATE SKIP LOCKED
),
redriven AS (
    UPDATE redrive.dead_letters l
    SET state = 'redriving', changed_at = clock_timestamp()
    FROM chosen
    WHERE l.id = chosen.id
    RETURNING l.id, l.queue, l.kind, l.payload, l.priority, l.max_attempts, l.generation,
              l.history, l.enqueued_at
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, enqueued_at, max_attempts, generation, priority, queue, kind, payload, history)
    SELECT r.segment, d.id, d.enqueued_at, d.max_attempts, d.generation + 1, d.priority, d.queue,
           d.kind, d.payload, nullif(d.history, '[]')
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
SELECT r.id, coalesce($9::timestamptz, statement_timestamp()) AS as_of,
       (SELECT count(*) FROM woken) AS woken
FROM ready r
ORDER BY r.id
