-- Purpose: Pauses: an operator stops the jobs of a queue from starting, and the view `queues` with their state.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- One row per queue that is paused, or was until `ends_at`. A pause only stops claims: jobs stay ready and
-- lose no attempt, running jobs finish, and enqueues continue. It has no effect on breakers, nor they on it: a
-- queue that is paused behind an open breaker waits for both.
CREATE TABLE redrive.queue_pauses (
    queue     redrive.name NOT NULL PRIMARY KEY,
    paused_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    ends_at   timestamptz  NOT NULL,
    person    text,
    reason    text
);

COMMENT ON TABLE redrive.queue_pauses IS 'Pauses of queues. One that has ended remains until the next pause or resume.';
COMMENT ON COLUMN redrive.queue_pauses.ends_at IS 'When it ends by itself; infinity: an operator must resume the queue.';

-- Pauses a queue: until `ends_at`, for `duration`, or, if both are NULL, until it is resumed. The end and the reason
-- of a pause in progress are replaced. Returns the id of the audit record.
CREATE FUNCTION redrive.pause_queue(
    queue text, ends_at timestamptz DEFAULT NULL, duration interval DEFAULT NULL,
    person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    until  timestamptz;
BEGIN
    PERFORM redrive.check_name('queue', pause_queue.queue);
    IF pause_queue.ends_at IS NOT NULL AND pause_queue.duration IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: a pause has an end or a duration, not both' USING ERRCODE = 'invalid_parameter_value';
    ELSIF pause_queue.duration <= '0' OR pause_queue.duration > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the duration is %; it must be positive and at most 3650 days', pause_queue.duration
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF pause_queue.ends_at <= moment THEN
        RAISE EXCEPTION 'redrive: the pause would end at %, which is in the past', pause_queue.ends_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The clock of the database decides.';
    ELSIF pause_queue.ends_at > moment + interval '3650 days' THEN
        RAISE EXCEPTION 'redrive: the pause would end at %; it may last at most 3650 days', pause_queue.ends_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Without an end, it lasts until the queue is resumed.';
    END IF;
    until := coalesce(pause_queue.ends_at, moment + pause_queue.duration, 'infinity');
    INSERT INTO redrive.queue_pauses AS p (queue, paused_at, ends_at, person, reason)
    VALUES (pause_queue.queue, moment, until, left(pause_queue.person, 200), left(pause_queue.reason, 1024))
    ON CONFLICT ON CONSTRAINT queue_pauses_pkey DO UPDATE
    SET paused_at = CASE WHEN p.ends_at > excluded.paused_at THEN p.paused_at ELSE excluded.paused_at END,
        ends_at = excluded.ends_at, person = excluded.person, reason = excluded.reason;
    PERFORM pg_notify('redrive_breaker', 'queue:' || pause_queue.queue);
    RETURN redrive.record_act('pause_queue', pause_queue.person, pause_queue.reason, NULL, 0,
        jsonb_build_object('queue', pause_queue.queue, 'ends_at', nullif(until, 'infinity')));
END
$$;

-- Resumes a paused queue. Returns whether it was paused.
CREATE FUNCTION redrive.resume_queue(queue text, person text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    until timestamptz;
BEGIN
    PERFORM redrive.check_name('queue', resume_queue.queue);
    DELETE FROM redrive.queue_pauses p WHERE p.queue = resume_queue.queue RETURNING p.ends_at INTO until;
    IF until IS NULL OR until <= clock_timestamp() THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('resume_queue', resume_queue.person, resume_queue.reason, NULL, 0,
        jsonb_build_object('queue', resume_queue.queue));
    PERFORM pg_notify('redrive_breaker', 'queue:' || resume_queue.queue);
    RETURN true;
END
$$;

-- The queues that are paused now. An end of NULL: until an operator resumes the queue.
CREATE VIEW redrive.paused_queues AS
    SELECT p.queue::text AS queue, p.paused_at, nullif(p.ends_at, 'infinity') AS ends_at, p.person, p.reason
    FROM redrive.queue_pauses p
    WHERE p.ends_at > statement_timestamp();

COMMENT ON VIEW redrive.paused_queues IS 'The queues that are paused now, with the person and the reason.';

-- Returns the queues whose jobs do not start: they are paused, or their breaker is not closed.
CREATE FUNCTION redrive.held_queues() RETURNS text[]
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(h.queue), '{}')
    FROM (
        SELECT substr(b.name, 7) AS queue FROM redrive.breakers b WHERE b.name LIKE 'queue:%' AND b.state <> 'closed'
        UNION
        SELECT p.queue FROM redrive.paused_queues p
    ) h
$$;

-- Returns whether a pause or a breaker stops claims of this queue and kind. A caller can check this before it
-- sends letters into an outage.
CREATE FUNCTION redrive.is_gated(queue text, kind text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT is_gated.queue = ANY (redrive.held_queues()) OR EXISTS (
        SELECT FROM redrive.breakers b
        WHERE b.state <> 'closed' AND b.name NOT LIKE 'queue:%' AND is_gated.kind = ANY (b.kinds))
$$;

-- The state and the numbers of every queue, as `redrive stats` shows them. It exposes no payload, error text or
-- reason.
CREATE VIEW redrive.queues AS
    WITH ready AS (
        SELECT j.queue::text AS queue, count(*) AS jobs, min(j.ready_at) AS oldest
        FROM redrive.jobs j
        GROUP BY 1
    ),
    delayed AS (
        SELECT d.queue::text AS queue, count(*) AS jobs
        FROM redrive.jobs_delayed d
        GROUP BY 1
    ),
    leased AS (
        SELECT l.queue::text AS queue, sum(l.job_count - cardinality(l.done)) AS jobs
        FROM redrive.leases l
        GROUP BY 1
    ),
    served AS (
        SELECT w.queue::text AS queue, count(*) AS workers, sum(w.slots) AS slots
        FROM redrive.workers w
        WHERE w.expires_at > statement_timestamp()
        GROUP BY 1
    ),
    dead AS (
        SELECT g.queue::text AS queue, sum(g.open) AS open, sum(g.redriving) AS redriving,
               sum(g.recovered) AS recovered, sum(g.discarded) AS discarded, sum(g.quarantined) AS quarantined
        FROM redrive.failure_groups g
        GROUP BY 1
    ),
    paused AS (
        SELECT p.queue, p.paused_at, p.ends_at FROM redrive.paused_queues p
    )
    SELECT queue,
           CASE WHEN paused.paused_at IS NULL THEN 'running' ELSE 'paused' END AS state,
           paused.paused_at,
           paused.ends_at AS pause_ends_at,
           coalesce(ready.jobs, 0)::bigint AS ready,
           coalesce(delayed.jobs, 0)::bigint AS delayed,
           coalesce(leased.jobs, 0)::bigint AS leased,
           ready.oldest AS oldest_ready,
           coalesce(served.workers, 0)::bigint AS workers,
           coalesce(served.slots, 0)::bigint AS slots,
           coalesce(dead.open, 0)::bigint AS open,
           coalesce(dead.redriving, 0)::bigint AS redriving,
           coalesce(dead.recovered, 0)::bigint AS recovered,
           coalesce(dead.discarded, 0)::bigint AS discarded,
           coalesce(dead.quarantined, 0)::bigint AS quarantined
    FROM ready
    FULL JOIN delayed USING (queue)
    FULL JOIN leased USING (queue)
    FULL JOIN served USING (queue)
    FULL JOIN dead USING (queue)
    FULL JOIN paused USING (queue);

COMMENT ON VIEW redrive.queues IS 'The numbers of every queue, counted row by row; meant for people, not for polling.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
