-- Purpose: Group totals: the functions that fold and prune them, and count regressions.

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
            last_seen = greatest(g.last_seen, n.died_at)
        FROM (
            SELECT o.group_id, sum(o.deaths) AS deaths, max(o.died_at) AS died_at,
                   coalesce(sum(o.letters) FILTER (WHERE o.state = 'open'), 0) AS open,
                   coalesce(sum(o.letters) FILTER (WHERE o.state = 'redriving'), 0) AS redriving,
                   coalesce(sum(o.letters) FILTER (WHERE o.state = 'recovered'), 0) AS recovered,
                   coalesce(sum(o.letters) FILTER (WHERE o.state = 'discarded'), 0) AS discarded,
                   coalesce(sum(o.letters) FILTER (WHERE o.state = 'quarantined'), 0) AS quarantined
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

-- Counts the first death after a group was resolved, whichever statement notices it.
CREATE OR REPLACE FUNCTION redrive.count_regressions() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO redrive.metric_deltas (queue, keys, counts) VALUES (NEW.queue, '{regressed}', '{1}');
    RETURN NULL;
END
$$;

-- Deletes groups that have no letters, none in the archive, and no death within `age`, with their details. Ignored groups
-- stay, and so do groups with rules. Returns the number of deleted groups. A death finds its group without a lock, so the
-- letters are locked against writes for a moment. If another session holds a lock that it needs, it deletes nothing.
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
            AND NOT EXISTS (SELECT FROM redrive.archived_letters a WHERE a.group_id = g.id)
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
