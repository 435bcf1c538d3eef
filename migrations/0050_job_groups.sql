-- Purpose: Groups of jobs: how many jobs of a group run at the same time, in which order, and what a death stops.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- The policies of queues for the groups of their jobs; a queue without a row has none. `ordered`: one job at a time, by id; `limit`: up to
-- `job_limit` jobs at a time; `fair`: any number, in turn. `none` claims the jobs that wait as `fair` does, and lets
-- none wait any more. Such a row stays, so that workers find a job that an older transaction adds to those that wait.
CREATE TABLE redrive.group_policies (
    queue      redrive.name NOT NULL PRIMARY KEY,
    mode       text         COLLATE "C" NOT NULL CHECK (mode IN ('ordered', 'limit', 'fair', 'none')),
    job_limit  integer      NOT NULL CHECK (job_limit BETWEEN 1 AND 1000),
    on_death   text         COLLATE "C" NOT NULL CHECK (on_death IN ('continue', 'hold')),
    changed_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT group_policies_order_one_at_a_time CHECK (mode <> 'ordered' OR job_limit = 1),
    CONSTRAINT group_policies_hold_in_order CHECK (on_death = 'continue' OR mode = 'ordered')
);

COMMENT ON TABLE redrive.group_policies IS 'What the groups of jobs of each queue mean.';
COMMENT ON COLUMN redrive.group_policies.job_limit IS 'How many jobs of a group run at the same time; 1 if ordered; without meaning if fair or none.';
COMMENT ON COLUMN redrive.group_policies.on_death IS 'Whether the letter of a job holds its group until it is redriven, closed, deleted or released.';

-- The turns of groups. A slot belongs to a live job from its claim until it ends, or to the letter that holds its
-- group. It has no time limit: the statement that ends the job deletes it. The primary key decides between two
-- claims, even if a snapshot misses the slot.
CREATE TABLE redrive.group_slots (
    queue     redrive.name      NOT NULL,
    group_key redrive.group_key NOT NULL,
    slot      smallint          NOT NULL CHECK (slot BETWEEN 1 AND 1000),
    job_id    bigint            NOT NULL,
    taken_at  timestamptz       NOT NULL DEFAULT clock_timestamp(),
    held_at   timestamptz,
    PRIMARY KEY (queue, group_key, slot)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON TABLE redrive.group_slots IS 'The jobs that have the turn of their group, and the letters that hold theirs.';
COMMENT ON COLUMN redrive.group_slots.held_at IS 'When the job died and its letter began to hold the group; NULL: the job is live.';

CREATE UNIQUE INDEX group_slots_by_job ON redrive.group_slots (job_id);

-- The first waiting jobs of a group, and the jobs that arrived last. The second index has an expression, so that no
-- plan reads it to find the first job of a group.
CREATE INDEX jobs_waiting_by_group ON redrive.jobs_waiting (queue, group_key, id);
CREATE INDEX jobs_waiting_by_id ON redrive.jobs_waiting (queue, (id + 0));

-- Returns the segment for a ready job of a group: that of waiting jobs, unless the queue has no policy or the job
-- has the turn of its group. It reads and locks nothing that another transaction waits for.
CREATE FUNCTION redrive.entry_segment(queue text, group_key text, id bigint) RETURNS smallint
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE
        WHEN EXISTS (SELECT FROM redrive.group_policies p WHERE p.queue = entry_segment.queue AND p.mode <> 'none')
            AND NOT EXISTS (
                SELECT FROM redrive.group_slots s WHERE s.job_id = entry_segment.id AND s.queue = entry_segment.queue)
        THEN 8::smallint
        ELSE (SELECT r.segment FROM redrive.ring r)
    END;
END;

-- Frees the slots of jobs that ended without a letter, and of jobs in backoff whose group has a limit: a job in
-- backoff keeps only an ordered group waiting. Returns how many it freed.
CREATE FUNCTION redrive.free_slots(ended bigint[], delayed bigint[]) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    freed bigint;
BEGIN
    DELETE FROM redrive.group_slots s
    WHERE s.job_id = ANY (free_slots.ended || free_slots.delayed)
        AND (s.job_id = ANY (free_slots.ended)
            OR (SELECT p.mode FROM redrive.group_policies p WHERE p.queue = s.queue) IS DISTINCT FROM 'ordered');
    GET DIAGNOSTICS freed = ROW_COUNT;
    RETURN freed;
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

-- Ends or holds the turn of a group when a letter of one of its jobs changes. A death holds the group if the policy is
-- `hold`; a redrive lets the job run first; a closed or deleted letter frees the group. A letter whose job had no
-- turn, such as a waiting job that was cancelled, changes nothing.
--
-- It runs with the owner's privileges, because roles that may write letters need not reach slots.
CREATE FUNCTION redrive.pass_turn() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
AS $$
DECLARE
    letter redrive.dead_letters := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    IF TG_OP <> 'DELETE' AND letter.state = 'redriving' AND letter.queue = OLD.queue THEN
        UPDATE redrive.group_slots s SET held_at = NULL WHERE s.job_id = letter.id AND s.held_at IS NOT NULL;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' AND letter.state IN ('open', 'quarantined') AND EXISTS (
        SELECT FROM redrive.group_policies p WHERE p.queue = letter.queue AND p.on_death = 'hold')
    THEN
        UPDATE redrive.group_slots s SET held_at = clock_timestamp() WHERE s.job_id = letter.id AND s.held_at IS NULL;
        RETURN NULL;
    END IF;
    DELETE FROM redrive.group_slots s WHERE s.job_id = letter.id;
    IF FOUND THEN
        PERFORM redrive.wake(CASE TG_OP WHEN 'UPDATE' THEN OLD.queue ELSE letter.queue END);
    END IF;
    RETURN NULL;
END
$$;

-- Rows without a group cost one comparison.
CREATE TRIGGER pass_turn_at_death AFTER INSERT ON redrive.dead_letters
    FOR EACH ROW WHEN (NEW.group_key IS NOT NULL) EXECUTE FUNCTION redrive.pass_turn();
CREATE TRIGGER pass_turn AFTER UPDATE OF state ON redrive.dead_letters
    FOR EACH ROW WHEN (NEW.group_key IS NOT NULL AND OLD.state <> NEW.state) EXECUTE FUNCTION redrive.pass_turn();
-- The slot of a redriving letter belongs to its live job.
CREATE TRIGGER pass_turn_of_deleted AFTER DELETE ON redrive.dead_letters
    FOR EACH ROW WHEN (OLD.group_key IS NOT NULL AND OLD.state <> 'redriving') EXECUTE FUNCTION redrive.pass_turn();

-- Sets what the groups of a queue mean; see `group_policies`. `job_limit` is needed by the mode `limit` alone. A job that
-- becomes ready afterwards waits for its group, or no longer does; those that wait are claimed under the new policy;
-- jobs with a turn keep it until they end. Groups that letters hold continue, unless the new policy holds them too.
-- Returns the id of the audit record.
CREATE FUNCTION redrive.set_group_policy(
    queue text, mode text, job_limit integer DEFAULT NULL, on_death text DEFAULT 'continue',
    person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM redrive.check_name('queue', set_group_policy.queue);
    IF coalesce(set_group_policy.mode NOT IN ('ordered', 'limit', 'fair', 'none'), true) THEN
        RAISE EXCEPTION 'redrive: the mode is %; it must be ordered, limit, fair or none',
            coalesce(quote_literal(set_group_policy.mode), 'NULL') USING ERRCODE = 'invalid_parameter_value';
    ELSIF (set_group_policy.mode = 'limit') <> (set_group_policy.job_limit IS NOT NULL) THEN
        RAISE EXCEPTION 'redrive: the mode limit needs a job_limit, and no other mode has one'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_group_policy.job_limit NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'redrive: the job_limit is %; it must be between 1 and 1000', set_group_policy.job_limit
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF coalesce(set_group_policy.on_death NOT IN ('continue', 'hold'), true) THEN
        RAISE EXCEPTION 'redrive: on_death is %; it must be continue or hold',
            coalesce(quote_literal(set_group_policy.on_death), 'NULL') USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_group_policy.on_death = 'hold' AND set_group_policy.mode <> 'ordered' THEN
        RAISE EXCEPTION 'redrive: only an ordered group can be held by a death' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.group_policies AS p (queue, mode, job_limit, on_death)
    VALUES (set_group_policy.queue, set_group_policy.mode, coalesce(set_group_policy.job_limit, 1), set_group_policy.on_death)
    ON CONFLICT ON CONSTRAINT group_policies_pkey DO UPDATE
    SET mode = excluded.mode, job_limit = excluded.job_limit, on_death = excluded.on_death,
        changed_at = excluded.changed_at;
    IF set_group_policy.on_death <> 'hold' THEN
        DELETE FROM redrive.group_slots s WHERE s.queue = set_group_policy.queue AND s.held_at IS NOT NULL;
    END IF;
    PERFORM pg_notify('redrive_breaker', 'queue:' || set_group_policy.queue);
    RETURN redrive.record_act('set_group_policy', set_group_policy.person, set_group_policy.reason, NULL, 0,
        jsonb_strip_nulls(jsonb_build_object('queue', set_group_policy.queue, 'mode', set_group_policy.mode,
            'job_limit', set_group_policy.job_limit, 'on_death', set_group_policy.on_death)));
END
$$;

-- Lets the jobs behind a letter continue without it. The letter stays open. Returns its id; NULL: no letter holds the
-- group.
CREATE FUNCTION redrive.release_group(
    queue text, group_key text, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held_by bigint;
BEGIN
    PERFORM redrive.check_name('queue', release_group.queue);
    DELETE FROM redrive.group_slots s
    WHERE s.queue = release_group.queue AND s.group_key = release_group.group_key AND s.held_at IS NOT NULL
    RETURNING s.job_id INTO held_by;
    IF held_by IS NOT NULL THEN
        PERFORM redrive.record_act('release_group', release_group.person, release_group.reason,
            jsonb_build_object('ids', jsonb_build_array(held_by)), 1,
            jsonb_build_object('queue', release_group.queue, 'group_key', release_group.group_key));
        PERFORM redrive.wake(release_group.queue);
    END IF;
    RETURN held_by;
END
$$;

-- The groups that a letter holds, with the number of jobs that wait behind it.
CREATE VIEW redrive.held_groups AS
    SELECT s.queue::text AS queue, s.group_key::text AS group_key, s.job_id AS letter_id, s.held_at,
           l.kind::text AS kind, l.error_class,
           (SELECT count(*) FROM redrive.jobs_waiting j
            WHERE j.queue = s.queue AND j.group_key = s.group_key) AS waiting
    FROM redrive.group_slots s
    JOIN redrive.dead_letters l ON l.id = s.job_id
    WHERE s.held_at IS NOT NULL;

COMMENT ON VIEW redrive.held_groups IS 'The groups that a letter holds, with the number of jobs that wait behind it.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
