-- Purpose: Pauses: an operator stops the jobs of a queue from starting, and the view `queues` with their state.

-- Pauses a queue: until `ends_at`, for `duration`, or, if both are NULL, until it is resumed. The end and the reason
-- of a pause in progress are replaced. Returns the id of the audit record.
CREATE OR REPLACE FUNCTION redrive.pause_queue(
    queue text, ends_at timestamptz DEFAULT NULL, duration interval DEFAULT NULL,
    person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    until  timestamptz;
BEGIN
    PERFORM redrive.check_name('queue', pause_queue.queue);
    PERFORM redrive.refuse(CASE
        WHEN pause_queue.ends_at IS NOT NULL AND pause_queue.duration IS NOT NULL
            THEN 'a pause has an end or a duration, not both'
        WHEN pause_queue.duration <= '0' OR pause_queue.duration > '3650 days'
            THEN 'the duration is out of range; it must be positive and at most 3650 days'
        WHEN pause_queue.ends_at <= moment
            THEN format('the pause would end at %s, which is in the past by the clock of the database', pause_queue.ends_at)
        WHEN pause_queue.ends_at > moment + interval '3650 days'
            THEN format('the pause would end at %s; it may last at most 3650 days, or until it is resumed', pause_queue.ends_at)
    END);
    until := coalesce(pause_queue.ends_at, moment + pause_queue.duration, 'infinity');
    INSERT INTO redrive.queue_pauses AS p (queue, paused_at, ends_at, person, reason)
    VALUES (pause_queue.queue, moment, until, left(pause_queue.person, 200), left(pause_queue.reason, 1024))
    ON CONFLICT ON CONSTRAINT queue_pauses_pkey DO UPDATE
    SET paused_at = CASE WHEN p.ends_at > excluded.paused_at THEN p.paused_at ELSE excluded.paused_at END,
        ends_at = excluded.ends_at, person = excluded.person, reason = excluded.reason;
    RETURN redrive.record_gate('pause_queue', pause_queue.person, pause_queue.reason, jsonb_build_object(
        'queue', pause_queue.queue, 'ends_at', nullif(until, 'infinity')));
END
$$;

-- Resumes a paused queue. Returns whether it was paused.
CREATE OR REPLACE FUNCTION redrive.resume_queue(queue text, person text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    SELECT redrive.check_name('queue', $1);
    WITH gone AS (DELETE FROM redrive.queue_pauses p WHERE p.queue = $1 RETURNING p.queue, p.ends_at)
    SELECT count(redrive.record_gate('resume_queue', $2, $3, jsonb_build_object('queue', g.queue))) > 0
    FROM gone g WHERE g.ends_at > clock_timestamp();
$$;

-- Returns the queues whose jobs do not start: they are paused, or their breaker is not closed.
CREATE OR REPLACE FUNCTION redrive.held_queues() RETURNS text[]
    LANGUAGE sql STABLE
AS $$
    SELECT coalesce(array_agg(h.queue), '{}')
    FROM (
        SELECT substr(b.name, 7) AS queue FROM redrive.breakers b WHERE b.name LIKE 'queue:%' AND b.state <> 'closed'
        UNION
        SELECT p.queue FROM redrive.paused_queues p
    ) h
$$;
