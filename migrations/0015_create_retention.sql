-- Purpose: how long letters are kept, and the archive; and the verbs for what must not be kept.
-- Locks: dead_letters against writes while an index is built.
-- Safe under running workers of the previous version: yes.
-- breaking: no

-- How long letters of a state are kept, and what becomes of them then. A rule for a queue goes
-- before one for every queue. Without a rule a letter is kept for ever.
CREATE TABLE redrive.retention (
    id        bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue     redrive.name,
    state     text         COLLATE "C" NOT NULL
        CHECK (state IN ('open', 'quarantined', 'recovered', 'discarded')),
    keep      interval     NOT NULL CHECK (keep BETWEEN '0' AND '36600 days'),
    action    text         COLLATE "C" NOT NULL CHECK (action IN ('delete', 'archive')),
    even_open boolean      NOT NULL DEFAULT false,
    CONSTRAINT retention_deletes_nothing_that_waits
        CHECK (action = 'archive' OR state IN ('recovered', 'discarded') OR even_open)
);

COMMENT ON TABLE redrive.retention IS 'How long letters are kept; without a rule, for ever.';
COMMENT ON COLUMN redrive.retention.queue IS 'NULL: every queue that has no rule of its own for this state.';
COMMENT ON COLUMN redrive.retention.keep IS 'Since the letter was closed; an open or quarantined one, since it died.';
COMMENT ON COLUMN redrive.retention.even_open IS 'Said in so many words: letters that still wait for somebody are deleted.';

CREATE UNIQUE INDEX retention_one_rule ON redrive.retention (coalesce(queue::text, ''), state);

-- Letters that were taken out of the table whole, in the statement that put them here.
CREATE TABLE redrive.archived_letters (
    id          bigint       NOT NULL PRIMARY KEY,
    queue       redrive.name NOT NULL,
    archived_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    letter      jsonb        NOT NULL
);

COMMENT ON COLUMN redrive.archived_letters.letter IS 'All of it; captured bytes as base64 in raw_base64.';

CREATE INDEX archived_letters_by_queue ON redrive.archived_letters (queue, id);

-- By queue and state, because that is how the rules are; it takes the place of the index by age
-- alone, and a letter that is closed is still entered into one.
CREATE INDEX dead_letters_closed_by_queue ON redrive.dead_letters (state, queue, changed_at, id)
    WHERE state IN ('recovered', 'discarded');
DROP INDEX redrive.dead_letters_closed_for_prune;

-- A letter as it is archived: every column that is not NULL. Called once a letter, so its search_path
-- is that of its caller, `take_away`.
CREATE FUNCTION redrive.archived(letter redrive.dead_letters, detail text, versions jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    whole redrive.dead_letters := letter;
    told  jsonb;
BEGIN
    -- These may have nulls inside of them, which stay; and bytes are not written as jsonb would.
    letter.payload := NULL;
    letter.raw := NULL;
    letter.headers := NULL;
    letter.history := NULL;
    letter.run_ms := NULL;
    letter.events := NULL;
    letter.detail_id := NULL;
    letter.error_detail := coalesce(letter.error_detail, detail);
    told := jsonb_strip_nulls(to_jsonb(letter))
        || jsonb_build_object('history', redrive.told_history(whole), 'events', whole.events);
    IF whole.payload IS NOT NULL THEN
        told := told || jsonb_build_object('payload', whole.payload);
    END IF;
    IF whole.headers IS NOT NULL THEN
        told := told || jsonb_build_object('headers', whole.headers);
    END IF;
    IF whole.raw IS NOT NULL THEN
        told := told || jsonb_build_object('raw_base64', translate(encode(whole.raw, 'base64'), E'\n', ''));
    END IF;
    IF versions IS NOT NULL THEN
        told := told || jsonb_build_object('versions', versions);
    END IF;
    RETURN told;
END
$$;

-- Takes up to `most` letters of a queue and state away that are older than `keep`, the oldest
-- first: deletes them, or puts them into the archive, in one statement, so that at no moment a
-- letter is in both or in neither. What somebody has locked is left out. Answers how many went.
CREATE FUNCTION redrive.take_away(queue text, state text, keep interval, action text, most bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Since when it is what it is.
    since    text := CASE WHEN state IN ('open', 'quarantined') THEN 'died_at' ELSE 'changed_at' END;
    runs     bigint[];
    members  bigint[];
    taken    bigint;
BEGIN
    EXECUTE format(
        'WITH old AS MATERIALIZED ('
        ' SELECT l.id FROM redrive.dead_letters l'
        ' WHERE l.state = %1$L AND l.queue = $1 AND l.%2$I < statement_timestamp() - $2'
        ' ORDER BY l.%2$I, l.id LIMIT $3 FOR UPDATE SKIP LOCKED),'
        'gone AS ('
        ' DELETE FROM redrive.dead_letters l USING old WHERE l.id = old.id AND l.state = %1$L'
        ' RETURNING l.id, l.queue, l.detail_id, l.run_id, l.run_ordinal, l AS letter),'
        'kept AS ('
        ' INSERT INTO redrive.archived_letters (id, queue, letter)'
        ' SELECT g.id, g.queue, redrive.archived(g.letter, d.detail, ('
        '  SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(''version'', v.version, ''at'', v.at,'
        '   ''person'', v.person, ''why'', v.why, ''payload'', v.payload::text,'
        '   ''raw_base64'', translate(encode(v.raw, ''base64''), E''\n'', ''''))) ORDER BY v.version)'
        '  FROM redrive.letter_versions v WHERE v.letter_id = g.id AND (g.letter).edits > 0))'
        ' FROM gone g LEFT JOIN redrive.details d ON d.id = g.detail_id'
        ' WHERE $4 = ''archive'')'
        'SELECT count(*), array_agg(g.run_id) FILTER (WHERE g.run_id IS NOT NULL),'
        ' array_agg(g.run_ordinal) FILTER (WHERE g.run_id IS NOT NULL) FROM gone g',
        state, since)
        INTO taken, runs, members
        USING queue, keep, most, action;
    -- Runs that are over keep their numbers, not their members.
    IF runs IS NOT NULL THEN
        DELETE FROM redrive.run_letters m
        USING unnest(runs, members) AS g (run_id, ordinal), redrive.redrive_runs r
        WHERE m.run_id = g.run_id AND m.ordinal = g.ordinal
            AND r.id = g.run_id AND r.state IN ('finished', 'cancelled');
    END IF;
    RETURN taken;
END
$$;

-- The queues that have letters, by what is cheap to ask: the groups, and the index of what is closed
-- (a letter that was redriven into another queue may have no group in its own).
CREATE FUNCTION redrive.queues_with_letters() RETURNS SETOF text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
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

-- Which rule goes for which queue and state.
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

-- Does what the rules say, to up to `most` letters, and writes the audit; answers how many went.
-- Call it again while it answers `most`. Workers call it once a minute, as `patience` 'none':
-- then only one of them gets to work, and the others are answered NULL.
CREATE FUNCTION redrive.apply_retention(
    most bigint DEFAULT 5000, patience text DEFAULT 'wait', person text DEFAULT NULL, why text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = on
AS $$
DECLARE
    chosen record;
    moved  bigint;
    taken  bigint := 0;
BEGIN
    IF NOT EXISTS (SELECT FROM redrive.retention) THEN
        RETURN 0;
    END IF;
    IF patience = 'none' THEN
        IF NOT pg_try_advisory_xact_lock(hashtext('redrive.apply_retention')) THEN
            RETURN NULL;
        END IF;
    ELSE
        PERFORM pg_advisory_xact_lock(hashtext('redrive.apply_retention'));
    END IF;
    -- In any order, so that no queue comes last for ever.
    FOR chosen IN SELECT r.* FROM redrive.retention_by_queue() r ORDER BY random() LOOP
        EXIT WHEN taken >= most;
        moved := redrive.take_away(chosen.queue, chosen.state, chosen.keep, chosen.action, most - taken);
        IF moved > 0 THEN
            PERFORM redrive.record_act(
                'retain', person, why, jsonb_build_object('queue', chosen.queue, 'state', chosen.state), moved,
                jsonb_build_object('rule', chosen.rule, 'action', chosen.action, 'keep', chosen.keep));
        END IF;
        taken := taken + moved;
    END LOOP;
    IF taken BETWEEN 1 AND most - 1 THEN
        PERFORM redrive.forget_groups('90 days');
    END IF;
    RETURN taken;
END
$$;

-- What the rules would take now: a dry run. It counts rows.
CREATE FUNCTION redrive.retention_due()
    RETURNS TABLE (queue text, state text, keep interval, action text, letters bigint)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    -- State by state, so that each has its index.
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

-- Deletes up to `most` letters that were recovered or discarded longer ago than `older_than`,
-- whatever the rules say, and writes the audit; answers how many went.
CREATE FUNCTION redrive.prune_letters(
    older_than interval, most bigint DEFAULT 5000, person text DEFAULT NULL, why text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = on
AS $$
DECLARE
    chosen record;
    taken  bigint := 0;
BEGIN
    IF older_than IS NULL OR older_than < '0' THEN
        RAISE EXCEPTION 'redrive: prune needs an age that is not negative' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR chosen IN
        SELECT q.queue, s.state
        FROM redrive.queues_with_letters() AS q (queue)
        CROSS JOIN (VALUES ('recovered'), ('discarded')) AS s (state)
        ORDER BY 1, 2
    LOOP
        EXIT WHEN taken >= most;
        taken := taken + redrive.take_away(chosen.queue, chosen.state, older_than, 'delete', most - taken);
    END LOOP;
    IF taken > 0 THEN
        PERFORM redrive.record_act(
            'prune', person, why, '{"state": ["recovered", "discarded"]}', taken,
            jsonb_build_object('older_than', older_than));
    END IF;
    IF taken BETWEEN 1 AND most - 1 THEN
        PERFORM redrive.forget_groups('90 days');
    END IF;
    RETURN taken;
END
$$;

-- Sets the rule for a state of a queue (NULL: of every queue). Letters that wait for somebody, open
-- or quarantined, may be archived; `even_open` is needed to have them deleted.
CREATE FUNCTION redrive.set_retention(
    queue text, state text, keep interval, action text DEFAULT 'delete', even_open boolean DEFAULT false,
    person text DEFAULT NULL, why text DEFAULT NULL
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
        RAISE EXCEPTION 'redrive: retention is for open, quarantined, recovered or discarded letters'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.keep IS NULL OR set_retention.keep NOT BETWEEN '0' AND '36600 days' THEN
        RAISE EXCEPTION 'redrive: letters are kept for 0 seconds to a hundred years'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.action IS NULL OR set_retention.action NOT IN ('delete', 'archive') THEN
        RAISE EXCEPTION 'redrive: retention is to delete or to archive' USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.action = 'delete' AND waits AND NOT coalesce(set_retention.even_open, false) THEN
        RAISE EXCEPTION 'redrive: % letters wait for somebody; archive them, or say even_open to have them deleted',
            set_retention.state USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.retention AS r (queue, state, keep, action, even_open)
    VALUES (set_retention.queue, set_retention.state, set_retention.keep, set_retention.action,
            set_retention.action = 'delete' AND waits)
    ON CONFLICT (coalesce(queue::text, ''), state) DO UPDATE
    SET keep = excluded.keep, action = excluded.action, even_open = excluded.even_open
    RETURNING r.id INTO set_id;
    PERFORM redrive.record_act(
        'set_retention', person, why,
        jsonb_strip_nulls(jsonb_build_object('queue', set_retention.queue, 'state', set_retention.state)), 0,
        jsonb_build_object('keep', set_retention.keep, 'action', set_retention.action));
    RETURN set_id;
END
$$;

-- Removes a rule: its letters are kept for ever, or as the rule for every queue says.
CREATE FUNCTION redrive.remove_retention(queue text, state text, person text DEFAULT NULL, why text DEFAULT NULL)
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
        'remove_retention', person, why,
        jsonb_strip_nulls(jsonb_build_object('queue', remove_retention.queue, 'state', remove_retention.state)), 0);
    RETURN true;
END
$$;

-- Adds a redaction; answers its id. It is applied at every death from now on, and to no letter that
-- is there. queue and kind NULL: every one.
CREATE FUNCTION redrive.add_redaction(
    queue text, kind text, paths text[] DEFAULT '{}', patterns text[] DEFAULT '{}',
    person text DEFAULT NULL, why text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    added bigint;
BEGIN
    IF add_redaction.queue IS NOT NULL THEN
        PERFORM redrive.check_name('queue', add_redaction.queue);
    END IF;
    IF add_redaction.kind IS NOT NULL THEN
        PERFORM redrive.check_name('kind', add_redaction.kind);
    END IF;
    INSERT INTO redrive.redactions AS r (queue, kind, paths, patterns)
    VALUES (add_redaction.queue, add_redaction.kind, coalesce(add_redaction.paths, '{}'),
            coalesce(add_redaction.patterns, '{}'))
    RETURNING r.id INTO added;
    PERFORM redrive.record_act(
        'add_redaction', person, why, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
            'redaction', added, 'queue', add_redaction.queue, 'kind', add_redaction.kind,
            'paths', add_redaction.paths, 'patterns', add_redaction.patterns)));
    RETURN added;
END
$$;

-- Removes a redaction. What it redacted stays so. Answers whether there was one.
CREATE FUNCTION redrive.remove_redaction(id bigint, person text DEFAULT NULL, why text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    gone redrive.redactions;
BEGIN
    DELETE FROM redrive.redactions r WHERE r.id = remove_redaction.id RETURNING r.* INTO gone;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('remove_redaction', person, why, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'redaction', gone.id, 'queue', gone.queue, 'kind', gone.kind, 'paths', gone.paths, 'patterns', gone.patterns)));
    RETURN true;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
