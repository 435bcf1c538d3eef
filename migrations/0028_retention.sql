-- Purpose: Retention: how long letters are kept.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- How long letters of a state are kept, and whether they are then deleted or archived. A rule for a
-- queue takes precedence over the rule for all queues. Letters without a rule are kept forever.
CREATE TABLE redrive.retention (
    id        bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue     redrive.name,
    state     text         COLLATE "C" NOT NULL
        CHECK (state IN ('open', 'quarantined', 'recovered', 'discarded')),
    keep      interval     NOT NULL CHECK (keep BETWEEN '0' AND '36600 days'),
    action    text         COLLATE "C" NOT NULL CHECK (action IN ('delete', 'archive')),
    even_open boolean      NOT NULL DEFAULT false,
    CONSTRAINT retention_keeps_waiting_letters
        CHECK (action = 'archive' OR state IN ('recovered', 'discarded') OR even_open)
);

COMMENT ON TABLE redrive.retention IS 'How long letters are kept; without a rule, forever.';
COMMENT ON COLUMN redrive.retention.queue IS 'NULL: every queue without a rule for this state.';
COMMENT ON COLUMN redrive.retention.keep IS 'Time since the letter was closed; for an open or quarantined one, since it died.';
COMMENT ON COLUMN redrive.retention.even_open IS 'Confirms that letters that wait for an operator are deleted.';

CREATE UNIQUE INDEX retention_one_rule ON redrive.retention (coalesce(queue::text, ''), state);

-- Sets the rule for a state of a queue (NULL: of every queue). Open and quarantined letters, which wait for
-- an operator, may be archived; deleting them requires `even_open`.
CREATE FUNCTION redrive.set_retention(
    queue text, state text, keep interval, action text DEFAULT 'delete', even_open boolean DEFAULT false,
    person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    waits  boolean := set_retention.state IN ('open', 'quarantined');
    set_id bigint;
BEGIN
    IF set_retention.queue IS NOT NULL THEN
        PERFORM redrive.check_name('queue', set_retention.queue);
    END IF;
    IF set_retention.state IS NULL OR set_retention.state NOT IN ('open', 'quarantined', 'recovered', 'discarded') THEN
        RAISE EXCEPTION 'redrive: retention needs the state open, quarantined, recovered or discarded'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.keep IS NULL OR set_retention.keep NOT BETWEEN '0' AND '36600 days' THEN
        RAISE EXCEPTION 'redrive: letters can be kept for 0 to 36600 days'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.action IS NULL OR set_retention.action NOT IN ('delete', 'archive') THEN
        RAISE EXCEPTION 'redrive: retention needs the action delete or archive' USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.action = 'delete' AND waits AND NOT coalesce(set_retention.even_open, false) THEN
        RAISE EXCEPTION 'redrive: % letters wait for an operator; archive them, or set even_open to delete them',
            set_retention.state USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.retention AS r (queue, state, keep, action, even_open)
    VALUES (set_retention.queue, set_retention.state, set_retention.keep, set_retention.action,
            set_retention.action = 'delete' AND waits)
    ON CONFLICT (coalesce(queue::text, ''), state) DO UPDATE
    SET keep = excluded.keep, action = excluded.action, even_open = excluded.even_open
    RETURNING r.id INTO set_id;
    PERFORM redrive.record_act(
        'set_retention', person, reason,
        jsonb_strip_nulls(jsonb_build_object('queue', set_retention.queue, 'state', set_retention.state)), 0,
        jsonb_build_object('keep', set_retention.keep, 'action', set_retention.action));
    RETURN set_id;
END
$$;

-- Deletes a rule. Its letters are then kept forever, or fall under the rule for every queue.
CREATE FUNCTION redrive.remove_retention(queue text, state text, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM redrive.retention r
    WHERE r.queue IS NOT DISTINCT FROM remove_retention.queue AND r.state = remove_retention.state;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act(
        'remove_retention', person, reason,
        jsonb_strip_nulls(jsonb_build_object('queue', remove_retention.queue, 'state', remove_retention.state)), 0);
    RETURN true;
END
$$;

-- Returns the queues that have letters, from cheap sources: the groups and the index of closed letters. (A
-- letter that was redriven into another queue may have no group there.)
CREATE FUNCTION redrive.queues_with_letters() RETURNS SETOF text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET jit = off
AS $$
    WITH RECURSIVE closed AS (
        SELECT s.state, (
            SELECT l.queue::text FROM redrive.dead_letters l
            WHERE l.state = s.state AND l.state IN ('recovered', 'discarded')
            ORDER BY l.queue LIMIT 1) AS queue
        FROM (VALUES ('recovered'), ('discarded')) AS s (state)
        UNION ALL
        SELECT c.state, (
            SELECT l.queue::text FROM redrive.dead_letters l
            WHERE l.state = c.state AND l.state IN ('recovered', 'discarded') AND l.queue > c.queue
            ORDER BY l.queue LIMIT 1)
        FROM closed c
        WHERE c.queue IS NOT NULL
    )
    SELECT g.queue::text FROM redrive.groups g
    UNION
    SELECT c.queue FROM closed c WHERE c.queue IS NOT NULL
$$;

-- Returns the rule that applies to each queue and state.
CREATE FUNCTION redrive.retention_by_queue()
    RETURNS TABLE (queue text, state text, keep interval, action text, rule bigint)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT DISTINCT ON (q.queue, r.state) q.queue, r.state, r.keep, r.action, r.id
    FROM redrive.queues_with_letters() AS q (queue)
    JOIN redrive.retention r ON r.queue = q.queue OR r.queue IS NULL
    ORDER BY q.queue, r.state, r.queue NULLS LAST
$$;

-- Counts what the rules would remove now: a dry run.
CREATE FUNCTION redrive.retention_due()
    RETURNS TABLE (queue text, state text, keep interval, action text, letters bigint)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    -- One query per state, so that each uses its index.
    SELECT r.queue, r.state, r.keep, r.action, CASE r.state
        WHEN 'open' THEN (
            SELECT count(*) FROM redrive.dead_letters l
            WHERE l.state = 'open' AND l.queue = r.queue AND l.died_at < statement_timestamp() - r.keep)
        WHEN 'quarantined' THEN (
            SELECT count(*) FROM redrive.dead_letters l
            WHERE l.state = 'quarantined' AND l.queue = r.queue AND l.died_at < statement_timestamp() - r.keep)
        ELSE (
            SELECT count(*) FROM redrive.dead_letters l
            WHERE l.state IN ('recovered', 'discarded') AND l.state = r.state AND l.queue = r.queue
                AND l.changed_at < statement_timestamp() - r.keep)
        END
    FROM redrive.retention_by_queue() r
    ORDER BY r.queue, r.state
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
