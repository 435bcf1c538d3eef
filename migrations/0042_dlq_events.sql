-- Purpose: The view `dlq_events`: every failure in the columns and states of the classic PostgreSQL dead letter table.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Returns the open letters that active policies will redrive, and when each policy may redrive them. A letter
-- that matches two policies is returned twice. It returns no content, so every role that reads the view may
-- call it.
CREATE FUNCTION redrive.letters_with_policy() RETURNS TABLE (letter_id bigint, retry_after timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    policy redrive.policies;
BEGIN
    FOR policy IN SELECT p.* FROM redrive.policies p WHERE p.mode = 'active' LOOP
        RETURN QUERY EXECUTE
            'SELECT l.id, greatest($2, l.died_at + redrive.policy_wait($3, $4, $5, l.generation))'
            ' FROM redrive.dead_letters l'
            ' WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.generation < $6'
            '    AND ' || redrive.filter_letters(policy.filter)
            USING policy.filter, policy.next_at, policy.every, policy.growth, policy.max_delay, policy.generations;
    END LOOP;
END
$$;

-- Everything that failed at least once, one row per event. PENDING will be attempted: by a worker, by a policy,
-- or, if it was captured, once an operator redrives it. PROCESSING is being attempted, SUCCEEDED recovered
-- after a redrive, FAILED_PERMANENTLY waits for an operator. A letter that is being redriven appears as a
-- live job. Each branch has one status, so that a condition on the status leaves only the branches that it
-- selects, and these use their indexes.
CREATE VIEW redrive.dlq_events AS
    SELECT j.id,
           j.kind AS event_type,
           j.payload,
           coalesce(j.history -> -1 ->> 'error_message', j.history -> -1 ->> 'outcome', l.error_message, '') AS error_reason,
           coalesce(l.error_detail, d.detail) AS error_stacktrace,
           CASE j.state WHEN 'leased' THEN 'PROCESSING' ELSE 'PENDING' END AS status,
           coalesce(l.earlier_attempts + l.attempts, 0)
               + CASE j.state WHEN 'leased' THEN j.attempt - 1 ELSE j.attempt END AS retry_count,
           j.run_at AS retry_after,
           -- A record of an attempt is an object or an array; see `history_before`.
           coalesce((coalesce(e.history -> 0 ->> 'ended_at', e.history -> 0 ->> 2))::timestamptz, l.died_at, j.enqueued_at) AS created_at,
           coalesce((j.history -> -1 ->> 'ended_at')::timestamptz, l.changed_at, j.enqueued_at) AS updated_at
    FROM redrive.live_jobs j
    -- The letter has the attempts before the redrive.
    LEFT JOIN redrive.dead_letters l ON j.generation > 0 AND l.id = j.id
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    CROSS JOIN LATERAL (SELECT CASE WHEN l.id IS NULL THEN j.history ELSE l.history END AS history) e
    WHERE j.history IS NOT NULL OR j.generation > 0
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_jsonb(encode(l.raw, 'base64')))::json, l.error_message,
           coalesce(l.error_detail, d.detail), 'PENDING', l.earlier_attempts + l.attempts, p.retry_after,
           l.died_at, l.changed_at
    FROM (
        SELECT w.letter_id, min(w.retry_after) AS retry_after
        FROM redrive.letters_with_policy() w
        GROUP BY w.letter_id
    ) p
    JOIN redrive.dead_letters l ON l.id = p.letter_id
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state = 'open'
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_jsonb(encode(l.raw, 'base64')))::json, l.error_message,
           coalesce(l.error_detail, d.detail), 'PENDING', l.earlier_attempts + l.attempts, l.died_at,
           l.died_at, l.changed_at
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state = 'open' AND l.cause = 'captured'
        AND l.id NOT IN (SELECT w.letter_id FROM redrive.letters_with_policy() w)
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_jsonb(encode(l.raw, 'base64')))::json, l.error_message,
           coalesce(l.error_detail, d.detail), 'FAILED_PERMANENTLY', l.earlier_attempts + l.attempts, l.died_at,
           l.died_at, l.changed_at
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state = 'open' AND l.cause <> 'captured'
        AND l.id NOT IN (SELECT w.letter_id FROM redrive.letters_with_policy() w)
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_jsonb(encode(l.raw, 'base64')))::json, l.error_message,
           coalesce(l.error_detail, d.detail), 'FAILED_PERMANENTLY', l.earlier_attempts + l.attempts, l.died_at,
           l.died_at, l.changed_at
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state IN ('quarantined', 'discarded')
    UNION ALL
    SELECT l.id, l.kind::text, coalesce(l.payload, to_jsonb(encode(l.raw, 'base64')))::json, l.error_message,
           coalesce(l.error_detail, d.detail), 'SUCCEEDED', l.earlier_attempts + l.attempts, l.died_at,
           l.died_at, l.changed_at
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id
    WHERE l.state = 'recovered';

COMMENT ON VIEW redrive.dlq_events IS 'Failed events in the columns and states of the classic PostgreSQL dead letter table.';

REVOKE ALL ON redrive.dlq_events FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
