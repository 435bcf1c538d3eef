-- Purpose: What operators do with groups of jobs: set policies, and list and release groups that letters hold.

-- Sets what the groups of a queue mean; see `group_policies`. `job_limit` is needed by the mode `limit` alone. A job that
-- becomes ready afterwards waits for its group, or no longer does; those that wait are claimed under the new policy;
-- jobs with a turn keep it until they end. Groups that letters hold continue, unless the new policy holds or diverts
-- them too; diverted letters stay open, and only `divert` keeps their order.
-- Returns the id of the audit record; NULL: the queue has this policy, so nothing changed.
CREATE OR REPLACE FUNCTION redrive.set_group_policy(
    queue text, mode text, job_limit integer DEFAULT NULL, on_death text DEFAULT 'continue',
    person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM redrive.check_name('queue', set_group_policy.queue);
    PERFORM redrive.refuse(CASE
        WHEN set_group_policy.mode IN ('ordered', 'limit', 'fair', 'none') IS NOT TRUE
            THEN format('the mode is %L; it must be ordered, limit, fair or none', set_group_policy.mode)
        WHEN (set_group_policy.mode = 'limit') <> (set_group_policy.job_limit IS NOT NULL)
            THEN 'the mode limit needs a job_limit, and no other mode has one'
        WHEN set_group_policy.job_limit NOT BETWEEN 1 AND 1000
            THEN format('the job_limit is %s; it must be between 1 and 1000', set_group_policy.job_limit)
        WHEN set_group_policy.on_death IN ('continue', 'hold', 'divert') IS NOT TRUE
            THEN format('on_death is %L; it must be continue, hold or divert', set_group_policy.on_death)
        WHEN set_group_policy.on_death <> 'continue' AND set_group_policy.mode <> 'ordered'
            THEN 'only an ordered group can be held or diverted by a death'
    END);
    -- A program sets it at each start, and must not wait for a capture in an open transaction, which locks it.
    IF EXISTS (
        SELECT FROM redrive.group_policies p
        WHERE p.queue = set_group_policy.queue
            AND (p.mode, p.job_limit, p.on_death)
                = (set_group_policy.mode, coalesce(set_group_policy.job_limit, 1), set_group_policy.on_death))
    THEN
        RETURN NULL;
    END IF;
    INSERT INTO redrive.group_policies AS p (queue, mode, job_limit, on_death)
    VALUES (set_group_policy.queue, set_group_policy.mode, coalesce(set_group_policy.job_limit, 1), set_group_policy.on_death)
    ON CONFLICT ON CONSTRAINT group_policies_pkey DO UPDATE
    SET mode = excluded.mode, job_limit = excluded.job_limit, on_death = excluded.on_death
    WHERE (p.mode, p.job_limit, p.on_death) <> (excluded.mode, excluded.job_limit, excluded.on_death);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF set_group_policy.on_death = 'continue' THEN
        -- In the order of a redrive.
        PERFORM redrive.lock_turns(ARRAY(
            SELECT s.job_id FROM redrive.group_slots s WHERE s.queue = set_group_policy.queue AND s.held_at IS NOT NULL));
        DELETE FROM redrive.group_slots s WHERE s.queue = set_group_policy.queue AND s.held_at IS NOT NULL;
    END IF;
    IF set_group_policy.on_death <> 'divert' THEN
        DELETE FROM redrive.diverted_groups d WHERE d.queue = set_group_policy.queue;
    END IF;
    RETURN redrive.record_gate('set_group_policy', set_group_policy.person, set_group_policy.reason,
        jsonb_strip_nulls(jsonb_build_object('queue', set_group_policy.queue, 'mode', set_group_policy.mode,
            'job_limit', set_group_policy.job_limit, 'on_death', set_group_policy.on_death)));
END
$$;

-- Lets the jobs behind a letter continue without it. The letter and diverted ones stay open. Returns its id; NULL: no
-- letter holds the group.
CREATE OR REPLACE FUNCTION redrive.release_group(
    queue text, group_key text, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    held_by bigint;
BEGIN
    PERFORM redrive.check_name('queue', release_group.queue);
    DELETE FROM redrive.group_slots s
    WHERE s.queue = release_group.queue AND s.group_key = release_group.group_key AND s.held_at IS NOT NULL
    RETURNING s.job_id INTO held_by;
    IF held_by IS NOT NULL THEN
        DELETE FROM redrive.diverted_groups d
        WHERE d.queue = release_group.queue AND d.group_key = release_group.group_key;
        PERFORM redrive.record_act('release_group', release_group.person, release_group.reason,
            jsonb_build_object('ids', jsonb_build_array(held_by)), 1,
            jsonb_build_object('queue', release_group.queue, 'group_key', release_group.group_key));
        PERFORM redrive.wake(release_group.queue);
    END IF;
    RETURN held_by;
END
$$;
