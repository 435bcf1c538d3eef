-- Purpose: Erasing everything about a person or tenant.

-- Returns the SQL condition of an erasure on rows with this alias, or on the payloads of `versions` of theirs; see
-- `filter_letters`. Raises an error for a filter that jobs, letters and the archive cannot all answer, or that names neither
-- a payload value nor an id.
CREATE OR REPLACE FUNCTION redrive.filter_erasure(filter jsonb, rows text, versions text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    given text[];
BEGIN
    PERFORM redrive.refuse(CASE WHEN jsonb_typeof(filter) = 'object' IS NOT TRUE
        THEN 'the filter of an erasure must be a JSON object' END);
    given := ARRAY(SELECT jsonb_object_keys(filter));
    PERFORM redrive.refuse(coalesce(
        'an erasure selects by payload, id, queue and kind, not by ' || (
            SELECT string_agg(g.key, ', ') FROM unnest(given) AS g (key) WHERE g.key <> ALL ('{ids,queue,kind,payload}')),
        CASE WHEN NOT given && '{ids,payload}' THEN 'an erasure needs a condition on the payload, or ids' END));
    RETURN redrive.filter_letters(filter - 'payload', rows) || ' AND '
        || redrive.filter_letters(filter - '{ids,queue,kind}'::text[], coalesce(versions, rows));
END
$$;

-- Returns the same condition on waiting jobs `j`. The job of a letter that matches does too, so that both go.
CREATE OR REPLACE FUNCTION redrive.filter_erased_jobs(filter jsonb) RETURNS text
    LANGUAGE sql STABLE
AS $$
    SELECT '(' || redrive.filter_erasure($1, 'j')
        || ' OR j.generation > 0 AND EXISTS (SELECT FROM redrive.dead_letters l WHERE l.id = j.id AND '
        || redrive.filter_erasure($1, 'l') || '))'
$$;

-- Counts what `erase` would remove or change: `jobs` (ready and delayed), `letters`, `versions` (earlier payloads of
-- other letters, also archived ones), `archive`, `audit` and `runs` (whose filters name the values). `leased` jobs stay: cancel them, or
-- erase again once they have ended. Redriving letters go with their job. It runs with the owner's privileges, as
-- `erase_batch` does.
CREATE OR REPLACE FUNCTION redrive.erasable(filter jsonb) RETURNS TABLE (place text, entries bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
DECLARE
    letters text := redrive.filter_erasure(filter, 'l');
    jobs    text := redrive.filter_erased_jobs(filter);
BEGIN
    RETURN QUERY EXECUTE
        'SELECT ''jobs'', count(*) FROM redrive.live_jobs j WHERE j.state <> ''leased'' AND ' || jobs
        || ' UNION ALL SELECT ''leased'', count(*) FROM redrive.live_jobs j WHERE j.state = ''leased'' AND ' || jobs
        || ' UNION ALL SELECT ''letters'', (SELECT count(*) FROM redrive.stored_letters l'
        '   WHERE l.state NOT IN (''redriving'', ''archived'') AND ' || letters || ')'
        '  + (SELECT count(*) FROM redrive.live_jobs j'
        '     WHERE j.state <> ''leased'' AND j.generation > 0 AND ' || jobs || ')'
        || ' UNION ALL SELECT ''versions'', count(*) FROM redrive.letter_versions v'
        '   JOIN redrive.stored_letters l ON l.id = v.letter_id WHERE NOT coalesce(' || letters || ', false) AND '
        || redrive.filter_erasure(filter, 'l', 'v')
        || ' UNION ALL SELECT ''archive'', count(*) FROM redrive.stored_letters l WHERE l.state = ''archived'' AND ' || letters
        || ' UNION ALL SELECT ''audit'', count(*) FROM redrive.audit a'
        '  WHERE redrive.names_payload(a.filter ->> ''payload'', $1 ->> ''payload'')'
        ' UNION ALL SELECT ''runs'', count(*) FROM redrive.redrive_runs r'
        '  WHERE redrive.names_payload(r.filter ->> ''payload'', $1 ->> ''payload'')'
        '   AND r.state IN (''finished'', ''cancelled'')'
        USING filter;
END
$$;

-- Removes the texts of erased letters from failure groups: those of their deaths, and those of the same queue and
-- kind, from which a rule may have moved them. A group without letters keeps no title. Every batch looks again, so no text
-- is left of a letter that a later batch deletes. `letters` are their columns, with a digest of a detail. Returns how many
-- groups changed.
-- Locks: the task of folding, because folding updates several groups, too; then the groups and details.
CREATE OR REPLACE FUNCTION redrive.erase_from_groups(letters jsonb) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    group_ids  bigint[];
    detail_ids bigint[];
    changed    bigint;
BEGIN
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'fold_letters' FOR UPDATE;
    SELECT array_agg(DISTINCT p.group_id), array_agg(DISTINCT p.detail_id) INTO group_ids, detail_ids
    FROM (
        SELECT (l ->> 'group_id')::bigint AS group_id, (l ->> 'detail_id')::bigint AS detail_id
        FROM jsonb_array_elements(letters) l
        UNION ALL
        SELECT (e ->> 'group')::bigint, (e ->> 'detail')::bigint
        FROM jsonb_array_elements(letters) l, jsonb_array_elements(l -> 'events') e
        WHERE e ->> 'event' = 'died'
        UNION ALL
        SELECT g.id, NULL
        FROM redrive.groups g
        WHERE (g.queue, g.kind) IN (SELECT l ->> 'queue', l ->> 'kind' FROM jsonb_array_elements(letters) l)
    ) p;
    UPDATE redrive.groups g SET title = '[erased]'
    WHERE g.id = ANY (group_ids) AND g.title <> '[erased]'
        AND NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.group_id = g.id);
    GET DIAGNOSTICS changed = ROW_COUNT;
    -- A rule copies the detail of a letter that it moves to another group.
    UPDATE redrive.details d SET detail = '[erased]'
    WHERE d.group_id = ANY (group_ids) AND d.detail <> '[erased]' AND (
        d.digest IN (SELECT o.digest FROM redrive.details o WHERE o.id = ANY (detail_ids))
        OR NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.detail_id = d.id)
        OR md5(d.detail) IN (SELECT l ->> 'error_detail' FROM jsonb_array_elements(letters) l));
    RETURN changed;
END
$$;

-- Locks up to `max_rows` rows of each place that match a filter, and returns their ids: waiting jobs, letters with those of
-- the jobs, and archived letters. `has_moved` says that a row left its place before it was locked. It may be in a place
-- that was read before, so the caller looks again.
-- Locks: in this order, and by id within each place: delayed jobs, ready jobs, letters, archived letters. With the
-- letters, those whose earlier payloads match, because a session that deletes versions has locked their letter. The
-- caller locks failure groups after these.
-- An enqueue that replaces waits for jobs too, in an order of its caller. So that its transaction is not the victim of a
-- deadlock, this one waits less for each job than the server does before it looks for one, and fails with 55P03.
CREATE OR REPLACE FUNCTION redrive.lock_erased(
    filter jsonb, max_rows bigint,
    OUT jobs bigint[], OUT letters bigint[], OUT archived bigint[], OUT has_moved boolean
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    given    CONSTANT text := current_setting('lock_timeout');
    -- 0 is no limit.
    patience CONSTANT text := CASE WHEN given::interval BETWEEN '1 ms' AND '500 ms' THEN given ELSE '500ms' END;
    place    text;
    source   text;
    matching text;
    chosen   bigint[];
    others   bigint[];
    held     bigint[];
BEGIN
    jobs := '{}';
    has_moved := false;
    FOREACH place IN ARRAY '{jobs_delayed,jobs,dead_letters,archived_letters}'::text[] LOOP
        source := ' FROM redrive.' || place || ' t CROSS JOIN LATERAL (SELECT ' || CASE place
            WHEN 'jobs_delayed' THEN '(redrive.delayed_job(t)).*'
            WHEN 'jobs' THEN '(redrive.ready_job(t)).*'
            ELSE 't.*' END || ') j';
        matching := CASE place
            WHEN 'dead_letters' THEN 't.state <> ''redriving'' AND ' || redrive.filter_erasure(filter, 'j')
            WHEN 'archived_letters' THEN redrive.filter_erasure(filter, 'j')
            ELSE redrive.filter_erased_jobs(filter) END;
        EXECUTE 'SELECT coalesce(array_agg(c.id), ''{}'') FROM (SELECT t.id' || source || ' WHERE ' || matching
            || ' ORDER BY t.id LIMIT $2) c'
            INTO chosen USING filter, redrive.limit_of('max_rows', max_rows);
        others := '{}';
        IF place IN ('dead_letters', 'archived_letters') THEN
            EXECUTE 'SELECT coalesce(array_agg(t.id), ''{}'')' || source
                || ' JOIN redrive.letter_versions v ON v.letter_id = t.id WHERE '
                || redrive.filter_erasure(filter, 'j', 'v')
                || CASE place WHEN 'dead_letters' THEN ' AND t.state <> ''redriving''' ELSE '' END
                INTO others USING filter;
            -- One that is erased itself must still match when it is locked.
            others := ARRAY(SELECT unnest(others) EXCEPT SELECT unnest(chosen));
        END IF;
        PERFORM set_config('lock_timeout', CASE WHEN place IN ('jobs_delayed', 'jobs') THEN patience ELSE given END, true);
        -- The ids first: a payload that was not chosen is not read again.
        EXECUTE 'SELECT coalesce(array_agg(c.id), ''{}'') FROM (SELECT t.id' || source
            || ' WHERE t.id = ANY ($2) AND (' || matching || ') OR t.id = ANY ($3) ORDER BY t.id FOR UPDATE OF t) c'
            INTO held USING filter, chosen, others || CASE place WHEN 'dead_letters' THEN jobs END;
        has_moved := has_moved OR EXISTS (SELECT unnest(chosen) EXCEPT SELECT unnest(held));
        CASE place
            WHEN 'dead_letters' THEN letters := ARRAY(SELECT unnest(held) INTERSECT SELECT unnest(chosen || jobs));
            WHEN 'archived_letters' THEN archived := ARRAY(SELECT unnest(held) INTERSECT SELECT unnest(chosen));
            ELSE jobs := jobs || held;
        END CASE;
    END LOOP;
END
$$;

-- Removes up to `max_rows` rows of each place that match a filter, and writes the audit without the filter. It
-- deletes waiting jobs, letters, versions and archived letters; replaces their texts in failure groups, and the
-- payload conditions of audit records and ended runs that name the values, by `[erased]`. `audit` is the record of
-- the first batch of the same operation; NULL: this is the first. Returns how many rows changed in each place, and
-- the record of the first batch, NULL if none has changed a row; no row: nothing is left. `erasable` tells what stays.
-- It fails with 55P03 if another transaction holds a job for 500 ms; repeat it, and until it returns no row.
--
-- It runs with the owner's privileges, because no other role may change the audit or the archive.
-- Locks: as `lock_erased`, then as `erase_from_groups`, then the other rows that it changes.
CREATE OR REPLACE FUNCTION redrive.erase_batch(
    filter jsonb, max_rows bigint, person text, reason text, audit bigint DEFAULT NULL
)
    RETURNS TABLE (place text, entries bigint, audit_id bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
#variable_conflict use_column
DECLARE
    predicate  text := erase_batch.filter ->> 'payload';
    held       record;
    job_groups jsonb;
    traces     jsonb;
    old_traces jsonb;
    changed    bigint;
    counts     jsonb;
    act        bigint;
BEGIN
    SELECT e.* INTO held FROM redrive.lock_erased(erase_batch.filter, erase_batch.max_rows) e;
    WITH delayed AS (
        DELETE FROM redrive.jobs_delayed j WHERE j.id = ANY (held.jobs) RETURNING j.queue, (j.meta).group_key
    ),
    ready AS (
        DELETE FROM redrive.jobs j WHERE j.id = ANY (held.jobs) RETURNING j.queue, (j.meta).group_key
    ),
    gone AS (
        SELECT d.queue, d.group_key FROM delayed d UNION ALL SELECT r.queue, r.group_key FROM ready r
    ),
    counted AS (
        INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
        SELECT m.segment, g.queue, '{ended}', ARRAY[count(*)]
        FROM gone g CROSS JOIN redrive.metric_ring m GROUP BY m.segment, g.queue
    )
    SELECT count(*), jsonb_agg(to_jsonb(g)) INTO changed, job_groups FROM gone g;
    DELETE FROM redrive.unique_keys k WHERE k.job_id = ANY (held.jobs);
    PERFORM redrive.free_slots(held.jobs, '{}');
    counts := jsonb_build_object('jobs', changed);

    -- Runs wait for the outcomes of letters that they sent, even if they are finished.
    WITH told AS (
        UPDATE redrive.run_letters m SET outcome = 'skipped_gone'
        FROM redrive.dead_letters l
        WHERE l.id = ANY (held.letters) AND l.state = 'redriving' AND m.letter_id = l.id AND m.run_id = l.run_id
            AND m.outcome IS NULL
        RETURNING m.run_id
    )
    INSERT INTO redrive.run_deltas (run_id, sent, skipped)
    SELECT t.run_id, -count(*), count(*) FROM told t GROUP BY t.run_id;
    DELETE FROM redrive.run_letters m
    USING redrive.redrive_runs r
    WHERE m.letter_id = ANY (held.letters) AND r.id = m.run_id AND r.state IN ('finished', 'cancelled');
    WITH deleted AS (
        DELETE FROM redrive.dead_letters l WHERE l.id = ANY (held.letters)
        RETURNING l.queue, l.kind, l.group_id, l.detail_id, l.events, l.group_key
    )
    SELECT jsonb_agg(to_jsonb(d)), count(*) INTO traces, changed FROM deleted d;
    counts := counts || jsonb_build_object('letters', changed);

    WITH deleted AS (
        DELETE FROM redrive.archived_letters d WHERE d.id = ANY (held.archived)
        RETURNING d.queue, d.kind, d.group_id, d.events, d.group_key, md5(d.error_detail) AS error_detail
    )
    SELECT jsonb_agg(to_jsonb(d)), count(*) INTO old_traces, changed FROM deleted d;
    counts := counts || jsonb_build_object('archive', changed);

    EXECUTE
        'DELETE FROM redrive.letter_versions v USING redrive.stored_letters l WHERE l.id = v.letter_id AND '
        || redrive.filter_erasure(erase_batch.filter, 'l', 'v')
        USING erase_batch.filter;
    GET DIAGNOSTICS changed = ROW_COUNT;
    counts := counts || jsonb_build_object('versions', changed,
        'groups', redrive.erase_from_groups(coalesce(traces, '[]') || coalesce(old_traces, '[]')));

    -- A key may name a person, and windows and buckets outlive their jobs. An enqueue locks windows in this order, too.
    DELETE FROM redrive.unique_windows w
    USING (
        SELECT k.queue, k.key
        FROM redrive.unique_windows k
        WHERE k.job_id = ANY (held.jobs || held.letters || held.archived)
        ORDER BY k.queue, k.key
        FOR UPDATE
    ) o
    WHERE w.queue = o.queue AND w.key = o.key;
    DELETE FROM redrive.group_buckets b
    USING jsonb_array_elements(coalesce(job_groups, '[]') || coalesce(traces, '[]') || coalesce(old_traces, '[]')) g (job)
    WHERE b.queue = g.job ->> 'queue' AND b.group_key = g.job ->> 'group_key';

    UPDATE redrive.redrive_runs r
    SET filter = jsonb_set(r.filter, '{payload}', '"[erased]"')
    WHERE redrive.names_payload(r.filter ->> 'payload', predicate) AND r.state IN ('finished', 'cancelled');
    GET DIAGNOSTICS changed = ROW_COUNT;
    counts := counts || jsonb_build_object('runs', changed, 'audit', 0);
    IF predicate IS NOT NULL THEN
        PERFORM set_config('redrive.audit_change', 'UPDATE', true);
        UPDATE redrive.audit a
        SET filter = jsonb_set(a.filter, '{payload}', '"[erased]"')
        WHERE redrive.names_payload(a.filter ->> 'payload', predicate);
        GET DIAGNOSTICS changed = ROW_COUNT;
        PERFORM set_config('redrive.audit_change', '', true);
        counts := counts || jsonb_build_object('audit', changed);
    END IF;

    act := erase_batch.audit;
    IF EXISTS (SELECT FROM jsonb_each(counts) c WHERE c.value <> '0') THEN
        act := redrive.record_act('erase', erase_batch.person, erase_batch.reason, NULL, (counts ->> 'letters')::bigint,
            counts, erase_batch.audit);
    ELSIF NOT held.has_moved THEN
        RETURN;
    END IF;
    -- The next batch finds what another session has moved meanwhile.
    RETURN QUERY SELECT c.key, c.value::bigint, act FROM jsonb_each_text(counts) c;
END
$$;
