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
    RETURN '(' || redrive.filter_erasure($1, 'j')
        || ' OR j.generation > 0 AND EXISTS (SELECT FROM redrive.dead_letters l WHERE l.id = j.id AND '
        || redrive.filter_erasure($1, 'l') || '))';

-- Counts what `erase_batch` would remove or change: `jobs` (ready and delayed), `letters`, `versions` (earlier payloads of
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
        '   WHERE NOT l.is_archived AND l.state <> ''redriving'' AND ' || letters || ')'
        '  + (SELECT count(*) FROM redrive.live_jobs j'
        '     WHERE j.state <> ''leased'' AND j.generation > 0 AND ' || jobs || ')'
        || ' UNION ALL SELECT ''versions'', count(*) FROM redrive.letter_versions v'
        '   JOIN redrive.stored_letters l ON l.id = v.letter_id WHERE NOT coalesce(' || letters || ', false) AND '
        || redrive.filter_erasure(filter, 'l', 'v')
        || ' UNION ALL SELECT ''archive'', count(*) FROM redrive.stored_letters l WHERE l.is_archived AND ' || letters
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
-- is left of a letter that a later batch deletes. `letters` are their columns, with a digest of a detail; jobs have no group.
-- Locks: the task of folding, because folding updates several groups, too; then the groups and details.
CREATE OR REPLACE FUNCTION redrive.erase_from_groups(letters jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    group_ids  bigint[];
    detail_ids bigint[];
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
    -- A rule copies the detail of a letter that it moves to another group.
    UPDATE redrive.details d SET detail = '[erased]'
    WHERE d.group_id = ANY (group_ids) AND d.detail <> '[erased]' AND (
        d.digest IN (SELECT o.digest FROM redrive.details o WHERE o.id = ANY (detail_ids))
        OR NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.detail_id = d.id)
        OR md5(d.detail) IN (SELECT l ->> 'error_detail' FROM jsonb_array_elements(letters) l));
END
$$;

-- Locks up to `max_rows` rows of each place that match a filter, and returns their ids: waiting jobs, letters with those of
-- the jobs, archived letters, and `touched`: these letters and those of which only an earlier payload matches, because a
-- session that deletes versions has locked their letter. It leaves out what another session holds, and so waits for nobody.
CREATE OR REPLACE FUNCTION redrive.lock_erased(
    filter jsonb, max_rows bigint, OUT jobs bigint[], OUT letters bigint[], OUT archived bigint[], OUT touched bigint[]
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    most   CONSTANT bigint := redrive.limit_of('max_rows', max_rows);
    of_job CONSTANT text := redrive.filter_erased_jobs(filter);
    whole  CONSTANT text := redrive.filter_erasure(filter, 't');
    value  CONSTANT jsonb := filter - '{ids,queue,kind}'::text[];
    -- The other conditions stand alone, so that an index finds their letters.
    either CONSTANT text := redrive.filter_letters(filter - 'payload', 't') || ' AND (' || redrive.filter_letters(value, 't')
        || ' OR EXISTS (SELECT FROM redrive.letter_versions v WHERE v.letter_id = t.id AND '
        || redrive.filter_letters(value, 'v') || '))';
    page   CONSTANT text := ' ORDER BY t.id LIMIT $2 FOR UPDATE OF t SKIP LOCKED) c';
    stored CONSTANT text := 'SELECT coalesce(array_agg(c.id) FILTER (WHERE c.is_whole), ''{}''), coalesce(array_agg(c.id), ''{}'')'
        ' FROM (SELECT t.id, t.id = ANY ($3) OR ' || whole || ' AS is_whole FROM redrive.';
    others bigint[];
BEGIN
    EXECUTE 'SELECT coalesce(array_agg(c.id), ''{}'') FROM ('
        'SELECT t.id FROM redrive.jobs_delayed t CROSS JOIN LATERAL (SELECT (redrive.delayed_job(t)).*) j WHERE ' || of_job || page
        INTO jobs USING filter, most;
    EXECUTE 'SELECT $3 || coalesce(array_agg(c.id), ''{}'') FROM ('
        'SELECT t.id FROM redrive.jobs t CROSS JOIN LATERAL (SELECT (redrive.ready_job(t)).*) j WHERE ' || of_job || page
        INTO jobs USING filter, most, jobs;
    EXECUTE stored || 'dead_letters t WHERE t.id = ANY ($3) OR t.state <> ''redriving'' AND ' || either || page
        INTO letters, touched USING filter, most, jobs;
    EXECUTE stored || 'archived_letters t WHERE ' || either || page
        INTO archived, others USING filter, most, '{}'::bigint[];
    touched := touched || others;
    -- A job goes with its letter.
    jobs := ARRAY(
        SELECT u.id FROM unnest(jobs) AS u (id)
        WHERE u.id = ANY (letters) OR NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.id = u.id));
END
$$;

-- Removes up to `max_rows` rows of each place that match a filter, and writes the audit without the filter. It
-- deletes waiting jobs, letters, versions and archived letters; replaces their texts in failure groups, and the
-- payload conditions of audit records and ended runs that name the values, by `[erased]`. `audit` is the record of
-- the first batch of the same operation; NULL: this is the first. Returns how many rows changed in each place, and
-- the record of the first batch, NULL if none has changed a row; no row: nothing is left. `erasable` tells what stays.
-- Repeat it until it returns no row. If all numbers are 0, another session holds or has moved what is left.
--
-- It runs with the owner's privileges, because no other role may change the audit or the archive.
-- Locks: as `lock_erased`, which waits for nobody, then as `erase_from_groups`, then the other rows that it changes.
CREATE OR REPLACE FUNCTION redrive.erase_batch(
    filter jsonb, max_rows bigint, person text, reason text, audit bigint DEFAULT NULL
)
    RETURNS TABLE (place text, entries bigint, audit_id bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    predicate text := erase_batch.filter ->> 'payload';
    held      record;
    -- What else names the deleted jobs and letters, by their columns.
    traces    jsonb;
    changed   bigint;
    counts    jsonb;
    act       bigint;
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
        INSERT INTO redrive.metric_deltas (queue, keys, counts)
        SELECT g.queue, '{ended}', ARRAY[count(*)] FROM gone g GROUP BY 1
    )
    SELECT count(*), coalesce(jsonb_agg(to_jsonb(g)), '[]') INTO changed, traces FROM gone g;
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
    SELECT count(*), traces || coalesce(jsonb_agg(to_jsonb(d)), '[]') INTO changed, traces FROM deleted d;
    counts := counts || jsonb_build_object('letters', changed);
    WITH deleted AS (
        DELETE FROM redrive.archived_letters d WHERE d.id = ANY (held.archived)
        RETURNING d.queue, d.kind, d.group_id, d.events, d.group_key, md5(d.error_detail) AS error_detail
    )
    SELECT count(*), traces || coalesce(jsonb_agg(to_jsonb(d)), '[]') INTO changed, traces FROM deleted d;
    counts := counts || jsonb_build_object('archive', changed);

    -- Nobody deletes a redriving letter.
    EXECUTE
        'DELETE FROM redrive.letter_versions v USING redrive.stored_letters l'
        ' WHERE l.id = v.letter_id AND (l.id = ANY ($2) OR l.state = ''redriving'') AND '
        || redrive.filter_erasure(erase_batch.filter, 'l', 'v')
        USING erase_batch.filter, held.touched;
    GET DIAGNOSTICS changed = ROW_COUNT;
    counts := counts || jsonb_build_object('versions', changed);
    PERFORM redrive.erase_from_groups(traces);

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
    USING jsonb_array_elements(traces) t (trace)
    WHERE b.queue = t.trace ->> 'queue' AND b.group_key = t.trace ->> 'group_key';

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
    ELSIF NOT EXISTS (
        SELECT FROM redrive.erasable(erase_batch.filter) e WHERE e.place <> 'leased' AND e.entries > 0)
    THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT c.key, c.value::bigint, act FROM jsonb_each_text(counts) c;
END
$$;
