-- Purpose: Retention: how long letters are kept, and removing those that are too old.

-- Sets the rule for a state of a queue (NULL: of every queue). Open and quarantined letters, which wait for
-- an operator, can only be archived.
CREATE OR REPLACE FUNCTION redrive.set_retention(
    queue text, state text, keep interval, action text DEFAULT 'delete', person text DEFAULT NULL,
    reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    set_id bigint;
BEGIN
    PERFORM redrive.check_name('queue', coalesce(set_retention.queue, '?'));
    PERFORM redrive.refuse(CASE
        WHEN set_retention.state IN ('open', 'quarantined', 'recovered', 'discarded') IS NOT TRUE
            THEN 'retention needs the state open, quarantined, recovered or discarded'
        WHEN set_retention.keep BETWEEN '0' AND '36600 days' IS NOT TRUE THEN 'letters can be kept for 0 to 36600 days'
        WHEN set_retention.action IN ('delete', 'archive') IS NOT TRUE THEN 'retention needs the action delete or archive'
        WHEN set_retention.action = 'delete' AND set_retention.state IN ('open', 'quarantined') THEN format(
            '%s letters wait for an operator; a rule can only archive them', set_retention.state)
    END);
    INSERT INTO redrive.retention AS r (queue, state, keep, action)
    VALUES (set_retention.queue, set_retention.state, set_retention.keep, set_retention.action)
    ON CONFLICT (coalesce(queue::text, ''), state) DO UPDATE
    SET keep = excluded.keep, action = excluded.action
    RETURNING r.id INTO set_id;
    PERFORM redrive.record_act(
        'set_retention', person, reason,
        jsonb_strip_nulls(jsonb_build_object('queue', set_retention.queue, 'state', set_retention.state)), 0,
        jsonb_build_object('keep', set_retention.keep, 'action', set_retention.action));
    RETURN set_id;
END
$$;

-- Deletes a rule. Its letters are then kept forever, or fall under the rule for every queue.
CREATE OR REPLACE FUNCTION redrive.remove_retention(queue text, state text, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    WITH gone AS (
        DELETE FROM redrive.retention r WHERE r.queue IS NOT DISTINCT FROM $1 AND r.state = $2 RETURNING r.queue, r.state
    )
    SELECT count(redrive.record_act('remove_retention', $3, $4, jsonb_strip_nulls(to_jsonb(g)), 0)) > 0 FROM gone g
$$;

-- Returns up to `most` queues that have letters, and those that have failure groups, workers or rules, by index skip scan. (A
-- letter that was redriven into another queue may have no group there.) It reads no jobs, whose dead rows would slow it down.
CREATE OR REPLACE FUNCTION redrive.queues_with_letters(most bigint) RETURNS SETOF text
    LANGUAGE sql STABLE
    SET enable_seqscan = off
AS $$
    WITH RECURSIVE known (queue, steps) AS (
        SELECT ''::text COLLATE "C", 0
        UNION ALL
        SELECT least(
            (SELECT l.queue::text FROM redrive.dead_letters l
             WHERE l.state = 'open' AND l.queue > k.queue ORDER BY l.queue LIMIT 1),
            (SELECT l.queue::text FROM redrive.dead_letters l
             WHERE l.state = 'recovered' AND l.queue > k.queue ORDER BY l.queue LIMIT 1),
            (SELECT l.queue::text FROM redrive.dead_letters l
             WHERE l.state = 'discarded' AND l.queue > k.queue ORDER BY l.queue LIMIT 1),
            (SELECT g.queue::text FROM redrive.groups g WHERE g.queue > k.queue ORDER BY g.queue LIMIT 1)
        ), k.steps + 1
        FROM known k
        WHERE k.queue IS NOT NULL AND k.steps < most
    )
    SELECT k.queue FROM known k WHERE k.queue > ''
    UNION
    SELECT w.queue::text FROM redrive.workers w
    UNION
    SELECT r.queue::text FROM redrive.retention r WHERE r.queue IS NOT NULL
$$;

-- Deletes or archives letters that the transaction has locked, and returns their number. An archived letter has the detail
-- that it shared, and its fatal attempt in its history. Its versions stay where they are.
CREATE OR REPLACE FUNCTION redrive.remove_locked(ids bigint[], action text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    taken bigint;
BEGIN
    IF remove_locked.action = 'archive' THEN
        UPDATE redrive.dead_letters l
        SET archived_at = clock_timestamp(), history = redrive.full_history(l), run_ms = NULL, detail_id = NULL,
            error_detail = coalesce(l.error_detail, (SELECT d.detail FROM redrive.details d WHERE d.id = l.detail_id))
        WHERE l.id = ANY (remove_locked.ids);
    END IF;
    WITH gone AS (
        DELETE FROM redrive.dead_letters l WHERE l.id = ANY (remove_locked.ids) RETURNING l.*
    ),
    kept AS (
        INSERT INTO redrive.archived_letters SELECT g.* FROM gone g WHERE remove_locked.action = 'archive'
    )
    SELECT count(*) INTO taken FROM gone g;
    -- Finished runs keep their numbers, but not their members. A letter knows only the last of its runs.
    DELETE FROM redrive.run_letters m
    USING redrive.redrive_runs r
    WHERE m.letter_id = ANY (remove_locked.ids) AND r.id = m.run_id AND r.state IN ('finished', 'cancelled');
    RETURN taken;
END
$$;

-- Removes up to `max_letters` letters of a queue and state that are older than `keep`, oldest first, but none that
-- is locked or that a consumer has claimed. It archives about 32 MiB at a time. Returns the number removed.
CREATE OR REPLACE FUNCTION redrive.remove_letters(queue text, state text, keep interval, action text, max_letters bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    -- The time by which an index orders them.
    since text := CASE WHEN state IN ('open', 'quarantined') THEN 'died_at' ELSE 'changed_at' END;
    old   bigint[];
BEGIN
    EXECUTE format(
        'SELECT array_agg(s.id) FROM ('
        ' SELECT o.id, sum(o.bytes) OVER (ORDER BY o.since, o.id) - o.bytes AS before FROM ('
        ' SELECT l.id, l.%2$I AS since, coalesce(pg_column_size(l.payload), 0) + coalesce(pg_column_size(l.raw), 0) AS bytes'
        ' FROM redrive.dead_letters l'
        ' WHERE l.state = %1$L AND l.queue = $1 AND l.%2$I < statement_timestamp() - $2'
        -- An open letter that was edited, reopened or restored is as young as that change.
        '  AND l.changed_at < statement_timestamp() - $2'
        '  AND (l.claimed_until IS NULL OR l.claimed_until <= statement_timestamp())'
        '  %3$s ORDER BY l.%2$I, l.id LIMIT $3 FOR UPDATE SKIP LOCKED) o) s %4$s',
        state, since,
        -- While the sequence of ids lags behind, a new letter may have the id of an archived one.
        CASE action WHEN 'archive' THEN
            'AND NOT EXISTS (SELECT FROM redrive.archived_letters a WHERE a.id = l.id)' END,
        CASE action WHEN 'archive' THEN 'WHERE s.before < 33554432' END)
        INTO old USING queue, keep, redrive.limit_of('max_letters', max_letters);
    RETURN redrive.remove_locked(coalesce(old, '{}'), action);
END
$$;

-- Removes up to `max_letters` letters that are older than the rules say, writes the audit with this verb and returns the
-- number removed. Repeat it until it returns 0.
CREATE OR REPLACE FUNCTION redrive.remove_by_rules(
    rules redrive.retention[], max_letters bigint, verb text, person text, reason text
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = on
AS $$
DECLARE
    chosen record;
    moved  bigint;
    taken  bigint := 0;
BEGIN
    -- In random order, so that no queue is always last.
    FOR chosen IN
        SELECT a.* FROM (
            SELECT DISTINCT ON (q.queue, r.state) q.queue, r.state, r.keep, r.action, r.id AS rule
            FROM redrive.queues_with_letters(1000000) AS q (queue)
            JOIN unnest(rules) r ON r.queue = q.queue OR r.queue IS NULL
            ORDER BY q.queue, r.state, r.queue NULLS LAST
        ) a
        ORDER BY random()
    LOOP
        EXIT WHEN taken >= max_letters;
        moved := redrive.remove_letters(chosen.queue, chosen.state, chosen.keep, chosen.action, max_letters - taken);
        IF moved > 0 THEN
            PERFORM redrive.record_act(
                verb, person, reason, jsonb_build_object('queue', chosen.queue, 'state', chosen.state), moved,
                jsonb_strip_nulls(jsonb_build_object(
                    'rule', chosen.rule, 'action', chosen.action, 'keep', chosen.keep)));
        END IF;
        taken := taken + moved;
        EXIT WHEN moved > 0 AND chosen.action = 'archive';
    END LOOP;
    IF taken BETWEEN 1 AND max_letters - 1 THEN
        PERFORM redrive.prune_groups('90 days');
    END IF;
    RETURN taken;
END
$$;

-- Applies the rules of all queues; see `remove_by_rules`. One call runs at a time. Workers call it once a minute with
-- `if_busy` 'skip': then one of them runs it and the others get NULL.
-- Locks: the rows it deletes, skipping locked ones; the row of the task in exclusive_tasks. Index: dead_letters_by_state,
-- dead_letters_open_for_redrive.
CREATE OR REPLACE FUNCTION redrive.apply_retention(
    max_letters bigint DEFAULT 5000, if_busy text DEFAULT 'wait', person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM redrive.refuse(CASE WHEN if_busy IN ('wait', 'skip') IS NOT TRUE
        THEN format('if_busy must be wait or skip, not %s', coalesce(if_busy, 'NULL')) END);
    IF NOT EXISTS (SELECT FROM redrive.retention) THEN
        RETURN 0;
    END IF;
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'apply_retention' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND if_busy = 'skip' THEN
        RETURN NULL;
    END IF;
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'apply_retention' FOR UPDATE;
    RETURN redrive.remove_by_rules(
        ARRAY(SELECT r FROM redrive.retention r), max_letters, 'apply_retention', person, reason);
END
$$;

-- Deletes up to `max_letters` letters that were recovered or discarded more than `older_than` ago. Returns their number.
CREATE OR REPLACE FUNCTION redrive.prune_letters(
    older_than interval, max_letters bigint DEFAULT 5000, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM redrive.refuse(CASE WHEN older_than >= '0' IS NOT TRUE THEN 'prune needs an age, which is not negative' END);
    RETURN redrive.remove_by_rules(ARRAY(
        -- Nothing is as old, and no time can be older.
        SELECT ROW(NULL, NULL, s.state, least(older_than, '36600 days'), 'delete')::redrive.retention
        FROM (VALUES ('recovered'), ('discarded')) AS s (state)), max_letters, 'prune', person, reason);
END
$$;
