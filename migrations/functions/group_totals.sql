-- Purpose: Group totals: triggers that record changes, and the functions that fold and prune them.

-- Counts letters that were added or removed.
CREATE OR REPLACE FUNCTION redrive.count_moved_letters() RETURNS trigger
    LANGUAGE plpgsql
AS $$
DECLARE
    sign CONSTANT integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT a.group_id, date_trunc('hour', a.died_at, 'UTC'), max(a.died_at),
           coalesce(sum(a.deaths) FILTER (WHERE a.died_at IS NOT NULL), 0),
           sign * count(*) FILTER (WHERE a.state = 'open'), sign * count(*) FILTER (WHERE a.state = 'redriving'),
           sign * count(*) FILTER (WHERE a.state = 'recovered'), sign * count(*) FILTER (WHERE a.state = 'discarded'),
           sign * count(*) FILTER (WHERE a.state = 'quarantined')
    FROM (
        SELECT m.group_id, m.state, m.deaths,
               -- The deaths of a letter from the archive were counted when it died.
               CASE WHEN sign > 0 AND m.events -> -1 ->> 'event' IS DISTINCT FROM 'restored' THEN m.died_at END AS died_at
        FROM moved m
    ) a
    GROUP BY 1, 2;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION redrive.count_changed_letters() RETURNS trigger
    LANGUAGE plpgsql
    -- Whatever the caller turned off: a plan that must use it anyway costs so much that a sort seems as cheap as a hash.
    SET enable_seqscan = on
    SET enable_hashjoin = on
    SET enable_mergejoin = on
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM became) THEN
        RETURN NULL;
    END IF;
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT c.group_id, c.hour, max(c.died_at), sum(c.deaths),
           coalesce(sum(c.letters) FILTER (WHERE c.state = 'open'), 0),
           coalesce(sum(c.letters) FILTER (WHERE c.state = 'redriving'), 0),
           coalesce(sum(c.letters) FILTER (WHERE c.state = 'recovered'), 0),
           coalesce(sum(c.letters) FILTER (WHERE c.state = 'discarded'), 0),
           coalesce(sum(c.letters) FILTER (WHERE c.state = 'quarantined'), 0)
    FROM (
        SELECT was.group_id AS old_group, was.state AS old_state, became.group_id, became.state,
               date_trunc('hour', d.died_at, 'UTC') AS hour, max(d.died_at) AS died_at,
               sum(became.deaths - was.deaths) AS deaths, count(*) AS letters
        FROM was
        -- A full join, because it can only be hashed or merged; see settle.sql. The condition below must not
        -- be strict: the planner would turn it into an inner join with nested loops.
        FULL JOIN became ON became.id = was.id
        CROSS JOIN LATERAL (SELECT CASE WHEN became.deaths > was.deaths THEN became.died_at END AS died_at) d
        WHERE was.state IS DISTINCT FROM became.state OR was.deaths IS DISTINCT FROM became.deaths
            OR was.group_id IS DISTINCT FROM became.group_id
        GROUP BY 1, 2, 3, 4, 5
    ) g
    CROSS JOIN LATERAL (VALUES
        (g.old_group, NULL::timestamptz, NULL::timestamptz, 0, g.old_state, -g.letters),
        (g.group_id, g.hour, g.died_at, g.deaths, g.state, g.letters)
    ) AS c (group_id, hour, died_at, deaths, state, letters)
    GROUP BY 1, 2;
    RETURN NULL;
END
$$;

-- Folds up to `max_rows` deltas into the totals and returns their number. A row lock lets one caller through;
-- others return 0.
CREATE OR REPLACE FUNCTION redrive.fold_letters(max_rows integer DEFAULT 20000) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = on
AS $$
DECLARE
    folded bigint;
BEGIN
    PERFORM redrive.require_read_committed('fold_letters');
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'fold_letters' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM redrive.letter_deltas d
        WHERE d.ctid = ANY (ARRAY(SELECT n.ctid FROM redrive.letter_deltas n LIMIT max_rows))
        RETURNING d.*
    ),
    hours AS (
        INSERT INTO redrive.failure_hours AS h (group_id, hour, deaths)
        SELECT g.group_id, g.hour, sum(g.deaths)
        FROM gone g
        WHERE g.hour IS NOT NULL
        GROUP BY 1, 2
        ON CONFLICT (group_id, hour) DO UPDATE SET deaths = h.deaths + excluded.deaths
    ),
    totals AS (
        UPDATE redrive.groups g
        SET deaths = g.deaths + n.deaths, open = g.open + n.open,
            redriving = g.redriving + n.redriving, recovered = g.recovered + n.recovered,
            discarded = g.discarded + n.discarded, quarantined = g.quarantined + n.quarantined,
            last_seen = greatest(g.last_seen, n.died_at),
            -- A death after the group was resolved reopens it.
            state = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN 'open' ELSE g.state END,
            regressed_at = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN n.died_at ELSE g.regressed_at END,
            regressions = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN g.regressions + 1 ELSE g.regressions END
        FROM (
            SELECT o.group_id, sum(o.deaths) AS deaths, sum(o.open) AS open,
                   sum(o.redriving) AS redriving, sum(o.recovered) AS recovered,
                   sum(o.discarded) AS discarded, sum(o.quarantined) AS quarantined,
                   max(o.died_at) AS died_at
            FROM gone o
            GROUP BY o.group_id
        ) n
        WHERE g.id = n.group_id
    )
    SELECT count(*) INTO folded FROM gone;
    IF folded > 0 THEN
        DELETE FROM redrive.failure_hours h WHERE h.hour < statement_timestamp() - interval '8 days';
    END IF;
    RETURN folded;
END
$$;

CREATE OR REPLACE FUNCTION redrive.save_regressions() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO redrive.pruned_regressions AS f (queue, regressions)
    SELECT g.queue, sum(g.regressions) FROM gone g WHERE g.regressions > 0 GROUP BY g.queue
    ON CONFLICT ON CONSTRAINT pruned_regressions_pkey
        DO UPDATE SET regressions = f.regressions + excluded.regressions;
    RETURN NULL;
END
$$;

-- Deletes groups that have no letters and no death within `age`, with their details. Ignored groups stay,
-- so that they remain ignored, and so do groups with rules. Returns the number of deleted groups.
-- A death finds its group without a lock. The function therefore locks the letters against writes for a
-- moment. If another session holds a lock that it needs, it deletes nothing.
CREATE OR REPLACE FUNCTION redrive.prune_groups(age interval) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '50ms'
AS $$
DECLARE
    unused bigint[];
    forgotten bigint;
BEGIN
    PERFORM redrive.require_read_committed('prune_groups');
    PERFORM redrive.refuse(CASE WHEN age >= '0' IS NOT TRUE THEN format(
        'invalid age %s of failure groups; it must not be negative', coalesce(age::text, 'NULL')) END);
    PERFORM redrive.fold_letters();
    unused := ARRAY(
        SELECT g.id FROM redrive.failure_groups g
        WHERE g.open + g.redriving + g.recovered + g.discarded + g.quarantined = 0
            AND g.state <> 'ignored' AND g.last_seen < statement_timestamp() - age
            AND NOT EXISTS (SELECT FROM redrive.group_rules r WHERE g.id IN (r.group_id, r.into_id))
        LIMIT 10000);
    IF cardinality(unused) = 0 THEN
        RETURN 0;
    END IF;
    LOCK TABLE redrive.dead_letters IN SHARE ROW EXCLUSIVE MODE;
    -- Check again: under the lock no letter can join these groups.
    WITH gone AS (
        DELETE FROM redrive.groups g
        WHERE g.id = ANY (unused)
            AND g.open + g.redriving + g.recovered + g.discarded + g.quarantined = 0
            AND NOT EXISTS (SELECT FROM redrive.letter_deltas d WHERE d.group_id = g.id)
            AND NOT EXISTS (SELECT FROM redrive.group_rules r WHERE g.id IN (r.group_id, r.into_id))
        RETURNING g.id
    ),
    hours AS (
        DELETE FROM redrive.failure_hours h USING gone WHERE h.group_id = gone.id
    ),
    details AS (
        DELETE FROM redrive.details d USING gone WHERE d.group_id = gone.id
    )
    SELECT count(*) INTO forgotten FROM gone;
    RETURN forgotten;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;
