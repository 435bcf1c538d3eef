-- Purpose: The slots that claims take.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Takes a slot for each of the jobs, and returns the ids of those that got theirs. The snapshot of a claim may miss a slot
-- that another process has taken, or a job with a lower id; the primary key does not. Conflicts are rare, and to look for
-- them costs as much as to insert the slots, so only a second attempt does.
CREATE FUNCTION redrive.take_slots(queue text, group_keys text[], slots smallint[], job_ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE STRICT
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Checked once, not for each row.
    checked redrive.name := take_slots.queue;
    taken   bigint[];
BEGIN
    -- In a fixed order, so that two claims cannot deadlock.
    INSERT INTO redrive.group_slots (queue, group_key, slot, job_id)
    SELECT checked, t.group_key, t.slot, t.job_id
    FROM unnest(take_slots.group_keys, take_slots.slots, take_slots.job_ids) AS t (group_key, slot, job_id)
    ORDER BY t.group_key COLLATE "C", t.slot;
    RETURN take_slots.job_ids;
EXCEPTION WHEN unique_violation THEN
    WITH inserted AS (
        INSERT INTO redrive.group_slots AS s (queue, group_key, slot, job_id)
        SELECT checked, t.group_key, t.slot, t.job_id
        FROM unnest(take_slots.group_keys, take_slots.slots, take_slots.job_ids) AS t (group_key, slot, job_id)
        ORDER BY t.group_key COLLATE "C", t.slot
        ON CONFLICT DO NOTHING
        RETURNING s.job_id
    )
    SELECT array_agg(i.job_id) INTO taken FROM inserted i;
    RETURN taken;
END
$$;

-- Takes a slot for a waiting job that a consumer of `dlq_events` claims by its id. Returns whether the job may run: not
-- if its group has no free slot, or if an earlier job of an ordered group waits.
CREATE FUNCTION redrive.take_slot(queue text, group_key text, id bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    policy redrive.group_policies;
BEGIN
    SELECT p.* INTO policy FROM redrive.group_policies p WHERE p.queue = take_slot.queue AND p.mode IN ('ordered', 'limit');
    IF NOT FOUND OR EXISTS (SELECT FROM redrive.group_slots s WHERE s.job_id = take_slot.id) THEN
        RETURN true;
    ELSIF policy.mode = 'ordered' AND EXISTS (
        SELECT FROM redrive.jobs_waiting j
        WHERE j.queue = take_slot.queue AND j.group_key = take_slot.group_key AND j.id < take_slot.id)
    THEN
        RETURN false;
    END IF;
    INSERT INTO redrive.group_slots (queue, group_key, slot, job_id)
    SELECT take_slot.queue, take_slot.group_key, n.slot, take_slot.id
    FROM generate_series(1, policy.job_limit) AS n (slot)
    WHERE policy.job_limit > (
            SELECT count(*) FROM redrive.group_slots s
            WHERE s.queue = take_slot.queue AND s.group_key = take_slot.group_key)
        AND NOT EXISTS (
            SELECT FROM redrive.group_slots s
            WHERE s.queue = take_slot.queue AND s.group_key = take_slot.group_key AND s.slot = n.slot)
    ORDER BY n.slot
    LIMIT 1
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
