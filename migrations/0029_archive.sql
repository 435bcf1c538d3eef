-- Purpose: Archiving and pruning letters.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Letters that were moved out of the table, in the statement that deleted them.
CREATE TABLE redrive.archived_letters (
    id          bigint       NOT NULL PRIMARY KEY,
    queue       redrive.name NOT NULL,
    archived_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    letter      jsonb        NOT NULL
);

COMMENT ON COLUMN redrive.archived_letters.letter IS 'The whole letter; captured bytes as base64 in raw_base64.';

CREATE INDEX archived_letters_by_queue ON redrive.archived_letters (queue, id);

-- Returns a letter as it is archived: every column that is not NULL.
CREATE FUNCTION redrive.archive_json(letter redrive.dead_letters, detail text, versions jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    whole redrive.dead_letters := letter;
    told  jsonb;
BEGIN
    -- Nulls inside of these are kept, and bytes are not written in the format of to_jsonb.
    letter.payload := NULL;
    letter.raw := NULL;
    letter.headers := NULL;
    letter.history := NULL;
    letter.run_ms := NULL;
    letter.events := NULL;
    letter.detail_id := NULL;
    letter.error_detail := coalesce(letter.error_detail, detail);
    told := jsonb_strip_nulls(to_jsonb(letter))
        || jsonb_build_object('history', redrive.full_history(whole), 'events', whole.events);
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

-- Removes up to `max_letters` letters of a queue and state that are older than `keep`, oldest first. One statement
-- deletes or archives them, so a letter is never in both places or in neither. Letters locked by another
-- session are skipped. Returns the number removed.
CREATE FUNCTION redrive.remove_letters(queue text, state text, keep interval, action text, max_letters bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- The time from which `keep` counts.
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
        ' SELECT g.id, g.queue, redrive.archive_json(g.letter, d.detail, ('
        '  SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(''version'', v.version, ''at'', v.at,'
        '   ''person'', v.person, ''reason'', v.reason, ''payload'', v.payload::text,'
        '   ''raw_base64'', translate(encode(v.raw, ''base64''), E''\n'', ''''))) ORDER BY v.version)'
        '  FROM redrive.letter_versions v WHERE v.letter_id = g.id AND (g.letter).edits > 0))'
        ' FROM gone g LEFT JOIN redrive.details d ON d.id = g.detail_id'
        ' WHERE $4 = ''archive'')'
        'SELECT count(*), array_agg(g.run_id) FILTER (WHERE g.run_id IS NOT NULL),'
        ' array_agg(g.run_ordinal) FILTER (WHERE g.run_id IS NOT NULL) FROM gone g',
        state, since)
        INTO taken, runs, members
        USING queue, keep, max_letters, action;
    -- Finished runs keep their numbers, but not their members.
    IF runs IS NOT NULL THEN
        DELETE FROM redrive.run_letters m
        USING unnest(runs, members) AS g (run_id, ordinal), redrive.redrive_runs r
        WHERE m.run_id = g.run_id AND m.ordinal = g.ordinal
            AND r.id = g.run_id AND r.state IN ('finished', 'cancelled');
    END IF;
    RETURN taken;
END
$$;

-- Applies the rules to up to `max_letters` letters, writes the audit and returns the number removed. Repeat it
-- while it returns `max_letters`. Workers call it once a minute with `if_busy` 'skip': then one of them runs it
-- and the others get NULL.
CREATE FUNCTION redrive.apply_retention(
    max_letters bigint DEFAULT 5000, if_busy text DEFAULT 'wait', person text DEFAULT NULL, reason text DEFAULT NULL
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
    IF if_busy IN ('wait', 'skip') IS NOT TRUE THEN
        RAISE EXCEPTION 'redrive: if_busy must be wait or skip, not %', coalesce(if_busy, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT EXISTS (SELECT FROM redrive.retention) THEN
        RETURN 0;
    END IF;
    IF if_busy = 'skip' THEN
        PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'apply_retention' FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSE
        PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'apply_retention' FOR UPDATE;
    END IF;
    -- In random order, so that no queue is always last.
    FOR chosen IN SELECT r.* FROM redrive.retention_by_queue() r ORDER BY random() LOOP
        EXIT WHEN taken >= max_letters;
        moved := redrive.remove_letters(chosen.queue, chosen.state, chosen.keep, chosen.action, max_letters - taken);
        IF moved > 0 THEN
            PERFORM redrive.record_act(
                'apply_retention', person, reason, jsonb_build_object('queue', chosen.queue, 'state', chosen.state), moved,
                jsonb_build_object('rule', chosen.rule, 'action', chosen.action, 'keep', chosen.keep));
        END IF;
        taken := taken + moved;
    END LOOP;
    IF taken BETWEEN 1 AND max_letters - 1 THEN
        PERFORM redrive.prune_groups('90 days');
    END IF;
    RETURN taken;
END
$$;

-- Deletes up to `max_letters` letters that were recovered or discarded more than `older_than` ago, regardless of
-- the rules, and writes the audit. Returns the number deleted.
CREATE FUNCTION redrive.prune_letters(
    older_than interval, max_letters bigint DEFAULT 5000, person text DEFAULT NULL, reason text DEFAULT NULL
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
        RAISE EXCEPTION 'redrive: prune needs an age, and it must not be negative' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR chosen IN
        SELECT q.queue, s.state
        FROM redrive.queues_with_letters() AS q (queue)
        CROSS JOIN (VALUES ('recovered'), ('discarded')) AS s (state)
        ORDER BY 1, 2
    LOOP
        EXIT WHEN taken >= max_letters;
        taken := taken + redrive.remove_letters(chosen.queue, chosen.state, older_than, 'delete', max_letters - taken);
    END LOOP;
    IF taken > 0 THEN
        PERFORM redrive.record_act(
            'prune', person, reason, '{"state": ["recovered", "discarded"]}', taken,
            jsonb_build_object('older_than', older_than));
    END IF;
    IF taken BETWEEN 1 AND max_letters - 1 THEN
        PERFORM redrive.prune_groups('90 days');
    END IF;
    RETURN taken;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
