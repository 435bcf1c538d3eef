-- Purpose: Groups of jobs: how many jobs of a group run at the same time, in which order, and what a death stops.

-- Returns the segment for a ready job of a group: that of waiting jobs, unless the queue has no policy and no rate limit
-- of each group, or the job has the turn of its group. One that `has_run` waits only for a turn. It reads
-- and locks nothing that another transaction waits for.
CREATE OR REPLACE FUNCTION redrive.entry_segment(queue text, id bigint, has_run boolean) RETURNS smallint
    -- An enqueue of one job would plan a function in SQL again each time.
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN CASE
        WHEN EXISTS (
                SELECT FROM redrive.group_policies p
                WHERE p.queue = entry_segment.queue AND (p.mode IN ('ordered', 'limit') OR NOT has_run AND (
                    p.mode = 'fair' OR EXISTS (
                        SELECT FROM redrive.rate_limits l WHERE l.queue = p.queue AND l.each_group))))
            AND NOT EXISTS (
                SELECT FROM redrive.group_slots s WHERE s.job_id = entry_segment.id AND s.queue = entry_segment.queue)
        THEN 8::smallint
        ELSE (SELECT r.segment FROM redrive.ring r)
    END;
END
$$;

-- Locks the turns that letters have before their jobs are put back: a release waits for the redrive, or has ended before
-- and left the job without a turn, which `requeue` sees. It runs with the owner's privileges, because roles that redrive
-- letters need not reach slots.
CREATE OR REPLACE FUNCTION redrive.lock_turns(ids bigint[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET enable_seqscan = off
AS $$
BEGIN
    PERFORM FROM redrive.group_slots s WHERE s.job_id = ANY (ids) ORDER BY s.job_id FOR UPDATE;
END
$$;

-- Lets the next letter of a diverted group hold the group, after the job or letter that had the turn has ended. A
-- redriven job that waits runs first if it comes before that letter, and has the turn until its time if it is delayed.
-- Without such a letter, the group is no longer diverted.
CREATE OR REPLACE FUNCTION redrive.hold_diverted(queue text, group_key text) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET enable_seqscan = off
AS $$
DECLARE
    diverted_since timestamptz;
    letter_id      bigint;
    delayed_id     bigint;
    is_locked      boolean := false;
BEGIN
    SELECT d.since INTO diverted_since
    FROM redrive.diverted_groups d
    WHERE d.queue = hold_diverted.queue AND d.group_key = hold_diverted.group_key;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOOP
        SELECT l.id INTO letter_id
        FROM redrive.dead_letters l
        WHERE l.queue = hold_diverted.queue AND l.group_key = hold_diverted.group_key
            AND l.cause = 'diverted' AND l.state IN ('open', 'quarantined') AND l.died_at >= diverted_since
        ORDER BY l.id
        LIMIT 1
        -- A redrive or a discard of this letter skips it, or has ended before and left the turn to the next one.
        FOR NO KEY UPDATE;
        EXIT WHEN letter_id IS NOT NULL OR is_locked;
        PERFORM FROM redrive.diverted_groups d
        WHERE d.queue = hold_diverted.queue AND d.group_key = hold_diverted.group_key
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            -- Another session is diverting jobs of the group, or is ending the diversion itself.
            RETURN;
        END IF;
        -- The other session may have committed letters after the search.
        is_locked := true;
    END LOOP;
    IF letter_id IS NULL THEN
        DELETE FROM redrive.diverted_groups d
        WHERE d.queue = hold_diverted.queue AND d.group_key = hold_diverted.group_key;
        RETURN;
    END IF;
    SELECT l.id INTO delayed_id
    FROM redrive.dead_letters l
    JOIN redrive.jobs_delayed j ON j.id = l.id
    WHERE l.queue = hold_diverted.queue AND l.group_key = hold_diverted.group_key
        AND l.cause = 'diverted' AND l.state = 'redriving' AND l.id < letter_id
    ORDER BY l.id
    LIMIT 1;
    IF EXISTS (
            SELECT FROM redrive.jobs_waiting j
            WHERE j.queue = hold_diverted.queue AND (j.meta).group_key = hold_diverted.group_key
                AND j.id < coalesce(delayed_id, letter_id))
    THEN
        RETURN;
    END IF;
    IF delayed_id IS NOT NULL THEN
        -- Without the lock it could begin to wait for a turn that it has.
        PERFORM FROM redrive.jobs_delayed j WHERE j.id = delayed_id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    INSERT INTO redrive.group_slots (queue, group_key, slot, job_id, held_at)
    VALUES (hold_diverted.queue, hold_diverted.group_key, 1, coalesce(delayed_id, letter_id),
            CASE WHEN delayed_id IS NULL THEN clock_timestamp() END)
    ON CONFLICT DO NOTHING;
END
$$;

-- Makes letters of up to `max_jobs` jobs that wait behind letters of these groups, if the policy is `divert`. They did
-- not fail, so no attempt is charged. A job with a lower id than the letter, such as one that was delayed, waits. Returns
-- their number. It runs with the owner's privileges, because workers may not lock policies.
CREATE OR REPLACE FUNCTION redrive.divert(queue text, group_keys text[], max_jobs bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET enable_seqscan = off
AS $$
DECLARE
    held text[];
    jobs redrive.job[];
BEGIN
    -- It waits for no session that may wait for a slot: a change of the policy, or one that has locked letters.
    PERFORM FROM redrive.group_policies p WHERE p.queue = divert.queue AND p.on_death = 'divert' FOR SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- A redrive of the letter waits, or has already let its job run.
    held := ARRAY(
        SELECT s.group_key::text
        FROM redrive.group_slots s
        WHERE s.queue = divert.queue AND s.group_key = ANY (divert.group_keys) AND s.held_at IS NOT NULL
        FOR UPDATE SKIP LOCKED);
    -- No other session ends the diversion of a group whose row is locked here. A group whose diversion another session is
    -- ending is left out.
    held := ARRAY(
        SELECT d.group_key::text
        FROM redrive.diverted_groups d
        WHERE d.queue = divert.queue AND d.group_key = ANY (held)
        FOR UPDATE SKIP LOCKED
    ) || ARRAY(
        SELECT h.group_key
        FROM unnest(held) AS h (group_key)
        WHERE NOT EXISTS (
            SELECT FROM redrive.diverted_groups d WHERE d.queue = divert.queue AND d.group_key = h.group_key));
    WITH next AS MATERIALIZED (
        SELECT k.tid, k.letter_id
        FROM redrive.group_slots s
        -- By the index of groups: jobs of other groups may wait in front of these.
        CROSS JOIN LATERAL (
            SELECT j.ctid AS tid, CASE WHEN (j.meta).generation > 0 THEN j.id END AS letter_id
            FROM redrive.jobs_waiting j
            WHERE j.queue = s.queue AND (j.meta).group_key = s.group_key AND j.id > s.job_id
            ORDER BY j.id
            LIMIT divert.max_jobs
            FOR UPDATE SKIP LOCKED
        ) k
        WHERE s.queue = divert.queue AND s.group_key = ANY (held) AND s.held_at IS NOT NULL
        LIMIT divert.max_jobs
    ),
    letters AS MATERIALIZED (
        SELECT l.id FROM redrive.dead_letters l WHERE l.id = ANY (ARRAY(SELECT n.letter_id FROM next n))
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    gone AS (
        DELETE FROM redrive.jobs_waiting j
        WHERE j.ctid = ANY (ARRAY(
            SELECT n.tid FROM next n WHERE n.letter_id IS NULL OR n.letter_id IN (SELECT l.id FROM letters l)))
        RETURNING redrive.ready_job(j::redrive.jobs) AS job
    )
    SELECT array_agg(g.job) INTO jobs FROM gone g;
    IF jobs IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO redrive.diverted_groups (queue, group_key)
    SELECT DISTINCT j.queue, (j.meta).group_key FROM unnest(jobs) j
    ORDER BY 1, 2
    ON CONFLICT DO NOTHING;
    RETURN redrive.bury_waiting(jobs, 'diverted', 'diverted', 'an earlier job of the group is dead');
END
$$;

-- Frees the slots of jobs that ended without a letter or were cancelled while they waited, and of jobs in backoff whose
-- group has a limit: a job in backoff keeps only an ordered group waiting. In a diverted group, the next letter takes
-- the turn. Returns how many slots it freed.
CREATE OR REPLACE FUNCTION redrive.free_slots(ended bigint[], delayed bigint[]) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    freed    bigint;
    paused   bigint := 0;
    diverted redrive.diverted_groups[];
BEGIN
    IF EXISTS (SELECT FROM redrive.diverted_groups) THEN
        diverted := ARRAY(
            SELECT d
            FROM redrive.group_slots s
            JOIN redrive.diverted_groups d ON d.queue = s.queue AND d.group_key = s.group_key
            WHERE s.job_id = ANY (free_slots.ended)
            ORDER BY s.queue, s.group_key);
    END IF;
    DELETE FROM redrive.group_slots s WHERE s.job_id = ANY (free_slots.ended);
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF free_slots.delayed <> '{}' THEN
        DELETE FROM redrive.group_slots s WHERE s.job_id = ANY (free_slots.delayed)
            AND (SELECT p.mode FROM redrive.group_policies p WHERE p.queue = s.queue) IS DISTINCT FROM 'ordered';
        GET DIAGNOSTICS paused = ROW_COUNT;
    END IF;
    PERFORM redrive.hold_diverted(d.queue, d.group_key) FROM unnest(diverted) d;
    RETURN freed + paused;
END
$$;

-- Ends or holds the turn of a group when a letter of one of its jobs changes. A death holds the group if the policy is
-- `hold` or `divert`; a redrive lets the job run first; a closed or deleted letter frees the group, or lets the next
-- letter of a diverted group hold it, and one that opens again takes the turn back from those behind it. A letter whose
-- job had no turn, such as a waiting job that was cancelled, changes nothing else.
--
-- It runs with the owner's privileges, because roles that may write letters need not reach slots.
CREATE OR REPLACE FUNCTION redrive.pass_turn() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET enable_seqscan = off
AS $$
DECLARE
    letter redrive.dead_letters := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    freed  record;
BEGIN
    IF TG_OP <> 'DELETE' AND letter.state = 'redriving' AND letter.queue = OLD.queue THEN
        UPDATE redrive.group_slots s SET held_at = NULL WHERE s.job_id = letter.id AND s.held_at IS NOT NULL;
        RETURN NULL;
    END IF;
    -- A change of the policy waits, or has ended before, so that it finds each group that a letter holds.
    IF TG_OP <> 'DELETE' AND letter.state IN ('open', 'quarantined') AND EXISTS (
        SELECT FROM redrive.group_policies p WHERE p.queue = letter.queue AND p.on_death IN ('hold', 'divert') FOR SHARE)
    THEN
        UPDATE redrive.group_slots s SET held_at = clock_timestamp() WHERE s.job_id = letter.id AND s.held_at IS NULL;
        IF NOT FOUND AND (TG_OP = 'INSERT' AND letter.events -> -1 ->> 'event' = 'restored'
            OR TG_OP = 'UPDATE' AND OLD.state NOT IN ('redriving', 'open', 'quarantined'))
        THEN
            UPDATE redrive.group_slots s SET job_id = letter.id
            WHERE s.queue = letter.queue AND s.group_key = letter.group_key AND s.held_at IS NOT NULL AND s.job_id > letter.id
                AND EXISTS (SELECT FROM redrive.dead_letters b WHERE b.id = s.job_id AND b.cause = 'diverted');
        ELSIF NOT FOUND AND letter.cause <> 'diverted' THEN
            PERFORM redrive.hold_diverted(letter.queue, letter.group_key);
        END IF;
        RETURN NULL;
    END IF;
    DELETE FROM redrive.group_slots s WHERE s.job_id = letter.id RETURNING s.queue, s.group_key INTO freed;
    IF FOUND THEN
        PERFORM redrive.hold_diverted(freed.queue, freed.group_key);
        PERFORM redrive.wake(freed.queue);
    END IF;
    RETURN NULL;
END
$$;
