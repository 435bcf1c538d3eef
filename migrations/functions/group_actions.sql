-- Purpose: What operators do with failure groups.

-- Changes the state of a failure group, its note or its owner; NULL: unchanged, an empty text: none. Returns whether the
-- group exists.
CREATE OR REPLACE FUNCTION redrive.change_group(
    group_id bigint, state text DEFAULT NULL, note text DEFAULT NULL, owner text DEFAULT NULL, person text DEFAULT NULL,
    reason text DEFAULT NULL
) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    SELECT redrive.refuse(CASE WHEN change_group.state <> ALL ('{open,acknowledged,resolved,ignored}') THEN format(
        'unknown state %L of a failure group; expected open, acknowledged, resolved or ignored', change_group.state) END);
    WITH changed AS (
        UPDATE redrive.groups g
        SET state = coalesce(change_group.state, g.state),
            -- A regression stays one until the group is resolved again.
            resolved_at = CASE WHEN change_group.state = 'resolved' THEN clock_timestamp()
                WHEN change_group.state IS NULL OR f.is_regression THEN g.resolved_at END,
            note = CASE WHEN change_group.note IS NULL THEN g.note ELSE left(nullif(btrim(change_group.note), ''), 4096) END,
            owner = CASE WHEN change_group.owner IS NULL THEN g.owner ELSE left(nullif(btrim(change_group.owner), ''), 200) END
        FROM redrive.failure_groups f
        WHERE g.id = change_group.group_id AND f.id = g.id
        RETURNING g.id
    )
    SELECT count(redrive.record_act(
        CASE change_group.state WHEN 'open' THEN 'reopen' WHEN 'acknowledged' THEN 'acknowledge' WHEN 'resolved' THEN 'resolve'
            WHEN 'ignored' THEN 'ignore' ELSE 'describe' END || '_group',
        change_group.person, change_group.reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
            'group', c.id, 'note', left(change_group.note, 4096), 'owner', left(change_group.owner, 200))))) > 0
    FROM changed c;
$$;

-- Raises an error for a rule that `add_group_rule` refuses. Returns the rule if it exists already.
CREATE OR REPLACE FUNCTION redrive.check_group_rule(group_id bigint, into_id bigint, pattern text) RETURNS bigint
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    missing bigint := (
        SELECT min(n.id) FROM unnest(ARRAY[group_id, into_id]) AS n (id)
        WHERE NOT EXISTS (SELECT FROM redrive.groups g WHERE g.id = n.id));
    known bigint;
    known_into bigint;
BEGIN
    PERFORM redrive.refuse(CASE WHEN num_nonnulls(into_id, pattern) <> 1
        THEN 'a group rule needs either a group that it merges into or a pattern that it splits by' END);
    IF group_id IS NULL OR missing IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: failure group % does not exist', coalesce(missing::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'redrive dlq groups lists the groups.';
    END IF;
    PERFORM redrive.refuse(CASE WHEN group_id IN (into_id, redrive.merged_group(into_id)) THEN format(
        'group %s cannot be merged into group %s, which is the same group or is merged into it', group_id, into_id) END);
    IF pattern IS NOT NULL THEN
        PERFORM redrive.check_pattern(pattern);
    END IF;
    SELECT r.id, r.into_id INTO known, known_into FROM redrive.group_rules r
    WHERE r.group_id = check_group_rule.group_id AND r.pattern IS NOT DISTINCT FROM check_group_rule.pattern;
    PERFORM redrive.refuse(CASE WHEN known_into <> redrive.merged_group(into_id)
        THEN format('group %s is merged into group %s already', group_id, known_into) END);
    RETURN known;
END
$$;

-- Returns how many letters a rule would move. Raises an error for a rule that `add_group_rule` refuses.
-- Index: dead_letters_by_group, dead_letters_redriving. It reads every letter of the group.
CREATE OR REPLACE FUNCTION redrive.preview_group_rule(group_id bigint, into_id bigint, pattern text) RETURNS bigint
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    PERFORM redrive.check_group_rule(group_id, into_id, pattern);
    RETURN (
        SELECT count(*)
        FROM (
            SELECT l.error_message FROM redrive.dead_letters l
            WHERE l.group_id = preview_group_rule.group_id AND l.state <> 'redriving'
            UNION ALL
            SELECT l.error_message FROM redrive.dead_letters l
            WHERE l.group_id = preview_group_rule.group_id AND l.state = 'redriving'
        ) p
        WHERE pattern IS NULL OR p.error_message ~ pattern);
END
$$;

-- Adds a rule, writes the audit, and returns the id of the rule. With `into_id` the group is merged into that one, with all
-- that is merged into it; with a `pattern`, the failures whose message matches it are split off. `regroup_letters` then
-- moves the letters.
CREATE OR REPLACE FUNCTION redrive.add_group_rule(
    group_id bigint, into_id bigint, pattern text, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    added  bigint;
    target bigint;
BEGIN
    PERFORM redrive.require_read_committed('add_group_rule');
    -- Two rules at the same time could merge each group into the other.
    LOCK TABLE redrive.group_rules IN SHARE ROW EXCLUSIVE MODE;
    added := redrive.check_group_rule(group_id, into_id, pattern);
    target := redrive.merged_group(into_id);
    IF added IS NOT NULL THEN
        RETURN added;
    END IF;
    INSERT INTO redrive.group_rules AS r (group_id, into_id, pattern, person, reason)
    VALUES (add_group_rule.group_id, target, add_group_rule.pattern,
            left(add_group_rule.person, 200), left(add_group_rule.reason, 1024))
    RETURNING r.id INTO added;
    UPDATE redrive.group_rules r SET into_id = target WHERE r.into_id = add_group_rule.group_id AND target IS NOT NULL;
    PERFORM redrive.record_act(
        CASE WHEN add_group_rule.into_id IS NULL THEN 'split_group' ELSE 'merge_group' END,
        add_group_rule.person, add_group_rule.reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
            'rule', added, 'group', add_group_rule.group_id, 'into', target,
            'pattern', add_group_rule.pattern)));
    RETURN added;
END
$$;

-- Removes a rule and writes the audit. Letters that it moved stay in their groups. Returns whether the rule existed.
CREATE OR REPLACE FUNCTION redrive.remove_group_rule(rule bigint, person text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    WITH gone AS (DELETE FROM redrive.group_rules r WHERE r.id = $1 RETURNING r.*)
    SELECT count(redrive.record_act('remove_group_rule', $2, $3, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'rule', g.id, 'group', g.group_id, 'into', g.into_id, 'pattern', g.pattern)))) > 0
    FROM gone g
$$;

-- Moves up to `max_letters` letters of a rule's group, in the order of their ids, to the groups where the rules put them,
-- but none that another session has locked. `after` is the last one, for the next batch. The last death, its hour and the
-- details follow their letters; a merge that leaves no letter also moves the earlier deaths.
CREATE OR REPLACE FUNCTION redrive.regroup_letters(
    rule bigint, max_letters bigint, INOUT after bigint, OUT moved bigint, OUT locked bigint, OUT is_last boolean
)
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off
AS $$
DECLARE
    source  redrive.group_rules;
    page    bigint[];
    held    bigint[];
    targets bigint[];
    total   bigint;
BEGIN
    max_letters := redrive.limit_of('max_letters', max_letters);
    SELECT r.* INTO source FROM redrive.group_rules r WHERE r.id = rule;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'redrive: group rule % does not exist', rule USING ERRCODE = 'no_data_found';
    END IF;
    page := ARRAY(
        SELECT l.id FROM redrive.dead_letters l
        WHERE l.group_id = source.group_id AND l.id > coalesce(after, 0)
        ORDER BY l.id LIMIT max_letters);
    after := page[cardinality(page)];
    is_last := cardinality(page) < greatest(max_letters, 1);
    held := ARRAY(
        SELECT l.id FROM redrive.dead_letters l
        WHERE l.id = ANY (page) AND l.group_id = source.group_id
        ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED);
    locked := cardinality(page) - cardinality(held);
    -- Folding updates several groups, too.
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'fold_letters' FOR UPDATE;
    SELECT coalesce(array_agg(m.id), '{}'), array_agg(m.target) INTO held, targets
    FROM (SELECT l.id, redrive.ruled_group(l) AS target FROM redrive.dead_letters l WHERE l.id = ANY (held)) m
    WHERE m.target <> source.group_id;
    moved := cardinality(held);
    INSERT INTO redrive.details (group_id, digest, detail)
    SELECT DISTINCT m.target, d.digest, d.detail
    FROM unnest(held, targets) AS m (id, target)
    JOIN redrive.dead_letters l ON l.id = m.id
    JOIN redrive.details d ON d.id = l.detail_id
    ON CONFLICT ON CONSTRAINT details_group_id_digest_key DO NOTHING;
    -- The rules may just have created the group.
    UPDATE redrive.groups g
    SET first_seen = least(g.first_seen, t.first_death),
        last_seen = CASE WHEN g.first_seen >= source.at THEN t.last_death ELSE greatest(g.last_seen, t.last_death) END
    FROM (
        SELECT m.target, min(l.died_at) AS first_death, max(l.died_at) AS last_death
        FROM unnest(held, targets) AS m (id, target) JOIN redrive.dead_letters l ON l.id = m.id GROUP BY 1
    ) t
    WHERE g.id = t.target;
    UPDATE redrive.dead_letters l
    SET group_id = m.target,
        detail_id = coalesce((
            SELECT n.id FROM redrive.details d JOIN redrive.details n ON n.group_id = m.target AND n.digest = d.digest
            WHERE d.id = l.detail_id), l.detail_id)
    FROM unnest(held, targets) AS m (id, target)
    WHERE l.id = m.id;
    IF is_last AND source.into_id IS NOT NULL
        AND NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.group_id = source.group_id AND l.state <> 'redriving')
        AND NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.group_id = source.group_id AND l.state = 'redriving')
    THEN
        total := (SELECT f.deaths FROM redrive.failure_groups f WHERE f.id = source.group_id);
        INSERT INTO redrive.letter_deltas (group_id, deaths)
        SELECT v.group_id, v.deaths
        FROM (VALUES (source.group_id, -total), (source.into_id, total)) AS v (group_id, deaths)
        WHERE v.deaths <> 0;
    END IF;
END
$$;
