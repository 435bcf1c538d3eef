-- Purpose: stable views for people and tools: `live_jobs`, `letters`, `dlq_events`.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: there is none.
-- breaking: no

-- Every live job, in exactly one of the three places; the place is the state.
CREATE VIEW redrive.live_jobs AS
    SELECT j.id, j.queue::text AS queue, j.kind, 'ready'::text AS state, j.priority, j.payload,
           j.attempt, j.max_attempts, j.generation, j.crashes, j.ready_at AS run_at,
           j.enqueued_at, j.history, NULL::uuid AS worker_id, NULL::uuid AS lease_id,
           NULL::timestamptz AS claimed_at
    FROM redrive.jobs j
    UNION ALL
    SELECT d.id, d.queue, d.kind, 'delayed', d.priority, d.payload,
           d.attempt, d.max_attempts, d.generation, d.crashes, d.run_at,
           d.enqueued_at, d.history, NULL, NULL, NULL
    FROM redrive.jobs_delayed d
    UNION ALL
    SELECT j.id, l.queue, j.kind, 'leased', j.priority, j.payload,
           j.attempt, j.max_attempts, j.generation, j.crashes, l.claimed_at,
           j.enqueued_at, j.history, l.worker_id, l.lease_id, l.claimed_at
    FROM redrive.leases l
    CROSS JOIN LATERAL unnest(l.jobs)
        AS j (id, kind, priority, payload, attempt, max_attempts, generation, crashes, refunds,
              enqueued_at, history)
    WHERE j.id <> ALL (l.done);

COMMENT ON VIEW redrive.live_jobs IS 'Every live job with its state: ready, delayed or leased.';

CREATE VIEW redrive.letters AS
    SELECT l.id, l.queue::text AS queue, l.kind::text AS kind, l.state, l.reason, l.error_class,
           l.error_message, l.error_detail, l.payload, l.raw, l.content_type, l.headers, l.source,
           l.position, l.seen, l.priority, l.attempts, l.max_attempts, l.generation, l.crashes,
           l.history, l.worker_id, l.host, l.version, l.discard_reason, l.enqueued_at, l.died_at,
           l.changed_at
    FROM redrive.dead_letters l;

COMMENT ON VIEW redrive.letters IS 'Every dead letter, whatever its state.';

-- Everything that has failed at least once, one row an event, in the words of the
-- well-known `dlq_events` table: PENDING will be tried (again), PROCESSING is being tried,
-- SUCCEEDED recovered after a redrive, FAILED_PERMANENTLY waits for somebody.
-- A letter that is being redriven is a live job, and shows as one.
CREATE VIEW redrive.dlq_events AS
    SELECT j.id,
           j.kind AS event_type,
           j.payload,
           coalesce(j.history -> -1 ->> 'error_message', j.history -> -1 ->> 'outcome', l.error_message, '') AS error_reason,
           NULL::text AS error_stacktrace,
           CASE j.state WHEN 'leased' THEN 'PROCESSING' ELSE 'PENDING' END AS status,
           CASE j.state WHEN 'leased' THEN j.attempt - 1 ELSE j.attempt END AS retry_count,
           j.run_at AS retry_after,
           -- The record of an attempt, or, when the next one says the rest, an array: see `remember`.
           coalesce((coalesce(e.history -> 0 ->> 'ended_at', e.history -> 0 ->> 2))::timestamptz, l.died_at, j.enqueued_at) AS created_at,
           coalesce((j.history -> -1 ->> 'ended_at')::timestamptz, l.changed_at, j.enqueued_at) AS updated_at
    FROM redrive.live_jobs j
    -- What failed before the job was redriven is with its letter.
    LEFT JOIN redrive.dead_letters l ON j.generation > 0 AND l.id = j.id
    CROSS JOIN LATERAL (SELECT CASE WHEN l.id IS NULL THEN j.history ELSE l.history END AS history) e
    WHERE j.history IS NOT NULL OR j.generation > 0
    UNION ALL
    SELECT l.id,
           l.kind::text,
           coalesce(l.payload, to_jsonb(encode(l.raw, 'base64'))),
           l.error_message,
           l.error_detail,
           CASE l.state
               WHEN 'recovered' THEN 'SUCCEEDED'
               WHEN 'open' THEN CASE l.reason WHEN 'captured' THEN 'PENDING' ELSE 'FAILED_PERMANENTLY' END
               ELSE 'FAILED_PERMANENTLY'
           END,
           l.attempts,
           l.died_at,
           l.died_at,
           l.changed_at
    FROM redrive.dead_letters l
    WHERE l.state <> 'redriving';

COMMENT ON VIEW redrive.dlq_events IS 'Failed events in the columns and states of the classic PostgreSQL dead letter table.';
