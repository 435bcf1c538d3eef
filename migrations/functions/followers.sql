-- Purpose: Followers: jobs of a group that are claimed with the job that has its turn, and run after it, one by one.

-- Passes the slots of settled jobs of a lease on to their followers in it, or frees them. In an ordered group, the slot
-- goes to the first job that is not done, even if it backs off or if its letter holds the group. In others, it goes to
-- any job that has none. Of the settled jobs with a group, `done` ended without a letter, `delayed` back off, `dead`
-- become letters, and `ready` run again at once. Returns how many slots it passed on or freed.
CREATE OR REPLACE FUNCTION redrive.pass_slots(
    lease redrive.leases, done bigint[], delayed bigint[], dead bigint[], ready bigint[]
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off
AS $$
DECLARE
    settled bigint[] := pass_slots.done || pass_slots.delayed || pass_slots.dead || pass_slots.ready;
    leaving bigint[] := coalesce(pass_slots.done, '{}');
    policy  redrive.group_policies;
    passed  bigint[];
BEGIN
    SELECT p.* INTO policy FROM redrive.group_policies p WHERE p.queue = lease.queue;
    IF policy.mode IS DISTINCT FROM 'ordered' THEN
        leaving := leaving || pass_slots.delayed || pass_slots.dead;
    ELSIF policy.on_death = 'continue' THEN
        leaving := leaving || pass_slots.dead;
    END IF;
    IF leaving = '{}' THEN
        RETURN 0;
    END IF;
    WITH given AS (
        SELECT s.job_id, s.group_key, row_number() OVER (PARTITION BY s.group_key ORDER BY s.slot) AS place
        FROM redrive.group_slots s
        WHERE s.job_id = ANY (leaving) AND s.queue = lease.queue
    ),
    heirs AS (
        SELECT j.id, (j.meta).group_key, row_number() OVER (PARTITION BY (j.meta).group_key ORDER BY j.id) AS place
        FROM redrive.jobs_of(lease) j
        WHERE (j.meta).group_key IS NOT NULL AND j.id <> ALL (leaving) AND (j.id <> ALL (lease.done) OR j.id = ANY (settled))
            AND NOT EXISTS (SELECT FROM redrive.group_slots s WHERE s.job_id = j.id)
    ),
    moved AS (
        UPDATE redrive.group_slots s
        SET job_id = h.id
        FROM given g
        JOIN heirs h ON h.group_key = g.group_key AND h.place = g.place
        WHERE s.job_id = g.job_id
        RETURNING g.job_id
    )
    SELECT coalesce(array_agg(m.job_id), '{}') INTO passed FROM moved m;
    -- The trigger of its letter frees the slot of a dead job.
    RETURN cardinality(passed) + redrive.free_slots(
        ARRAY(SELECT d.id FROM unnest(pass_slots.done) AS d (id) WHERE d.id <> ALL (passed)),
        ARRAY(SELECT d.id FROM unnest(pass_slots.delayed) AS d (id) WHERE d.id <> ALL (passed)));
END
$$;
