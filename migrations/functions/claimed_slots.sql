-- Purpose: The slots that claims take.

-- Takes a slot for each of the jobs, and returns the ids of those that got theirs. The snapshot of a claim may miss a slot
-- that another process has taken, or a job with a lower id; the primary key does not. Conflicts are rare, and to look for
-- them costs as much as to insert the slots, so only a second attempt does.
CREATE OR REPLACE FUNCTION redrive.take_slots(queue text, group_keys text[], slots smallint[], job_ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE STRICT
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
