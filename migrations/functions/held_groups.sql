-- Purpose: The groups that letters hold, by queue, for the on-call screen and the metrics.

-- Returns the queues whose policy lets letters hold groups, with the number of held groups, the one that has been held
-- for the longest time, and the jobs that wait behind letters. Groups are counted up to `cap`; jobs too, among the 1,000
-- groups that have been held for the longest time.
--
-- It runs with the owner's privileges, because the roles that see these numbers need not reach the tables.
CREATE OR REPLACE FUNCTION redrive.queues_with_held_groups(cap bigint)
    RETURNS TABLE (queue text, groups bigint, waiting bigint, group_key text, letter_id bigint, held_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY
    SELECT p.queue::text, held.groups, (
        SELECT count(*)
        FROM (
            SELECT FROM unnest(held.keys[:1000]) AS k (key)
            CROSS JOIN LATERAL (
                SELECT FROM redrive.jobs_waiting j
                WHERE j.queue = p.queue AND (j.meta).group_key = k.key
                -- By the index of groups, although the order has no meaning here.
                ORDER BY j.id
                LIMIT queues_with_held_groups.cap
            ) w
            LIMIT queues_with_held_groups.cap
        ) f), held.keys[1], held.letters[1], held.times[1]
    FROM redrive.group_policies p
    CROSS JOIN LATERAL (
        SELECT count(*) AS groups, array_agg(h.group_key::text) AS keys, array_agg(h.job_id) AS letters,
               array_agg(h.held_at) AS times
        FROM (
            SELECT s.group_key, s.job_id, s.held_at
            FROM redrive.group_slots s
            WHERE s.queue = p.queue AND s.held_at IS NOT NULL
            ORDER BY s.held_at, s.job_id
            LIMIT queues_with_held_groups.cap
        ) h
    ) held
    WHERE p.on_death <> 'continue';
END
$$;
