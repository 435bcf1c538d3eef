-- Purpose: Erasing everything about a person or tenant.

-- Returns the SQL condition of an erasure on a row with these expressions. `$1` is the filter. Raises an error for a
-- filter that jobs, letters and the archive cannot all answer, or that names neither a payload value nor an id.
CREATE OR REPLACE FUNCTION redrive.filter_erasure(filter jsonb, id text, queue text, kind text, payload text) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    given text[];
BEGIN
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        RAISE EXCEPTION 'redrive: the filter of an erasure must be a JSON object' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    given := ARRAY(SELECT jsonb_object_keys(filter));
    IF NOT given <@ '{ids,queue,kind,payload}' THEN
        RAISE EXCEPTION 'redrive: an erasure selects by payload, id, queue and kind, not by %',
            (SELECT string_agg(g.key, ', ') FROM unnest(given) AS g (key) WHERE g.key <> ALL ('{ids,queue,kind,payload}'))
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF NOT given && '{ids,payload}' THEN
        RAISE EXCEPTION 'redrive: an erasure needs a condition on the payload, or ids'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM redrive.check_filter(filter, 'letters');
    RETURN concat_ws(' AND ',
        CASE WHEN 'ids' = ANY (given) THEN
            id || ' = ANY (' || quote_literal(redrive.filter_values(filter -> 'ids')::bigint[]) || '::bigint[])' END,
        CASE WHEN 'queue' = ANY (given) THEN queue || ' = $1 ->> ''queue''' END,
        CASE WHEN 'kind' = ANY (given) THEN kind || ' = $1 ->> ''kind''' END,
        CASE WHEN 'payload' = ANY (given) THEN 'redrive.readable_payload(' || payload || ') @@ ($1 ->> ''payload'')::jsonpath' END);
END
$$;

-- Returns the same condition on waiting jobs `j`. The job of a letter that matches does too, so that both go.
CREATE OR REPLACE FUNCTION redrive.filter_erased_jobs(filter jsonb) RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT '(' || redrive.filter_erasure($1, 'j.id', 'j.queue', 'j.kind',
            'j.payload')
        || ' OR j.generation > 0 AND EXISTS (SELECT FROM redrive.dead_letters l WHERE l.id = j.id AND '
        || redrive.filter_erasure($1, 'l.id', 'l.queue', 'l.kind', 'l.payload') || '))'
$$;

-- Counts what `erase` would remove or change: `jobs` (ready and delayed), `letters`, `versions` (earlier payloads of
-- other letters, also archived ones), `archive`, `audit` and `runs` (whose filters name the values). `leased` jobs stay: cancel them, or
-- erase again once they have ended. Redriving letters go with their job. It runs with the owner's privileges, as
-- `erase_batch` does.
CREATE OR REPLACE FUNCTION redrive.erasable(filter jsonb) RETURNS TABLE (place text, entries bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    letters text := redrive.filter_erasure(filter, 'l.id', 'l.queue', 'l.kind', 'l.payload');
    jobs    text := redrive.filter_erased_jobs(filter);
    archive text := redrive.filter_erasure(filter, 'a.id', 'a.queue', 'a.letter ->> ''kind''', '(a.letter ->> ''payload'')::json');
BEGIN
    RETURN QUERY EXECUTE
        'SELECT ''jobs'', count(*) FROM redrive.live_jobs j WHERE j.state <> ''leased'' AND ' || jobs
        || ' UNION ALL SELECT ''leased'', count(*) FROM redrive.live_jobs j WHERE j.state = ''leased'' AND ' || jobs
        || ' UNION ALL SELECT ''letters'', (SELECT count(*) FROM redrive.dead_letters l'
        '   WHERE l.state <> ''redriving'' AND ' || letters || ')'
        '  + (SELECT count(*) FROM redrive.live_jobs j'
        '     WHERE j.state <> ''leased'' AND j.generation > 0 AND ' || jobs || ')'
        || ' UNION ALL SELECT ''versions'', (SELECT count(*) FROM redrive.letter_versions v'
        '   JOIN redrive.dead_letters l ON l.id = v.letter_id WHERE NOT coalesce(' || letters || ', false) AND '
        || redrive.filter_erasure(filter, 'l.id', 'l.queue', 'l.kind', 'v.payload')
        || ') + (SELECT count(*) FROM redrive.letter_versions v'
        '   JOIN redrive.archived_letters a ON a.id = v.letter_id WHERE NOT coalesce(' || archive || ', false) AND '
        || redrive.filter_erasure(filter, 'a.id', 'a.queue', 'a.letter ->> ''kind''', 'v.payload')
        || ') UNION ALL SELECT ''archive'', count(*) FROM redrive.archived_letters a WHERE ' || archive
        || ' UNION ALL SELECT ''audit'', count(*) FROM redrive.audit a'
        '  WHERE redrive.names_payload(a.filter ->> ''payload'', $1 ->> ''payload'')'
        ' UNION ALL SELECT ''runs'', count(*) FROM redrive.redrive_runs r'
        '  WHERE redrive.names_payload(r.filter ->> ''payload'', $1 ->> ''payload'')'
        '   AND r.state IN (''finished'', ''cancelled'')'
        USING filter;
END
$$;

-- Removes the texts of erased letters from failure groups: those of their deaths, and those of the same queue and
-- kind, from which a rule may have moved them. A sample is kept only if it is the message of another letter; a group
-- without letters keeps no title either, until its failure happens again. Every batch looks again, so no text is left
-- of a letter that a later batch deletes. `letters` are their columns, with a digest of a detail. Returns how many groups
-- changed.
CREATE OR REPLACE FUNCTION redrive.erase_from_groups(letters jsonb) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    group_ids  bigint[];
    detail_ids bigint[];
    changed    bigint;
BEGIN
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
    UPDATE redrive.groups g
    SET sample = kept.sample, title = kept.title
    FROM (
        SELECT o.id,
            CASE WHEN EXISTS (
                SELECT FROM redrive.dead_letters l
                WHERE l.group_id = o.id AND l.state <> 'redriving' AND left(l.error_message, 2048) = o.sample)
            THEN o.sample ELSE coalesce((
                SELECT left(l.error_message, 2048) FROM redrive.dead_letters l
                WHERE l.group_id = o.id AND l.state <> 'redriving' LIMIT 1), '[erased]') END AS sample,
            CASE WHEN EXISTS (SELECT FROM redrive.dead_letters l WHERE l.group_id = o.id) THEN o.title
            ELSE '[erased]' END AS title
        FROM redrive.groups o
        WHERE o.id = ANY (group_ids)
    ) kept
    WHERE g.id = kept.id AND (g.sample, g.title) IS DISTINCT FROM (kept.sample, kept.title);
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

-- Removes up to `max_rows` rows of each place that match a filter, and writes the audit without the filter. It
-- deletes waiting jobs, letters, versions and archived letters; replaces their texts in failure groups, and the
-- payload conditions of audit records and ended runs that name the values, by `[erased]`. `audit` is the record of
-- the first batch of the same operation; NULL: this is the first. Returns how many rows changed in each place, and
-- the record of the first batch; no row: nothing is left. `erasable` tells what stays.
--
-- It runs with the owner's privileges, because no other role may change the audit or the archive.
-- Locks: the rows it removes. Jobs locked by a claim are skipped.
CREATE OR REPLACE FUNCTION redrive.erase_batch(filter jsonb, max_rows bigint, person text, reason text, audit bigint DEFAULT NULL)
    RETURNS TABLE (place text, entries bigint, audit_id bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    letters    text := redrive.filter_erasure(erase_batch.filter, 'l.id', 'l.queue', 'l.kind', 'l.payload');
    predicate  text := erase_batch.filter ->> 'payload';
    each_table text;
    gone       bigint[];
    job_ids    bigint[] := '{}';
    places     jsonb;
    job_groups jsonb := '[]';
    letter_ids bigint[];
    archived_ids bigint[];
    traces     jsonb;
    old_traces jsonb;
    has_restored boolean;
    changed    bigint;
    versions   bigint;
    counts     jsonb;
    act        bigint;
BEGIN
    -- Before the jobs, because it waits for a session that sends a letter back.
    EXECUTE
        'SELECT array_agg(k.id) FROM ('
        ' SELECT l.id FROM redrive.dead_letters l WHERE l.state <> ''redriving'' AND ' || letters
        || ' ORDER BY l.id LIMIT $2 FOR UPDATE) k'
        INTO letter_ids USING erase_batch.filter, redrive.limit_of('max_rows', max_rows);
    -- In this order, to find a job that becomes ready meanwhile.
    FOREACH each_table IN ARRAY '{jobs_delayed,jobs}'::text[] LOOP
        EXECUTE format(
            'WITH chosen AS MATERIALIZED ('
            ' SELECT t.id FROM redrive.%1$I t CROSS JOIN LATERAL (SELECT (redrive.%3$I(t)).*) j'
            ' WHERE %2$s LIMIT $2 FOR UPDATE OF t SKIP LOCKED),'
            'gone AS (DELETE FROM redrive.%1$I j USING chosen c WHERE j.id = c.id RETURNING j.id, j.queue, (j.meta).group_key),'
            'counted AS ('
            ' INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)'
            ' SELECT m.segment, g.queue, ''{ended}'', ARRAY[count(*)]'
            ' FROM gone g CROSS JOIN redrive.metric_ring m GROUP BY m.segment, g.queue)'
            'SELECT array_agg(g.id), jsonb_agg(to_jsonb(g)) FROM gone g', each_table, redrive.filter_erased_jobs(erase_batch.filter),
            CASE each_table WHEN 'jobs' THEN 'ready_job' ELSE 'delayed_job' END)
            INTO gone, places USING erase_batch.filter, max_rows;
        job_ids := job_ids || gone;
        job_groups := job_groups || coalesce(places, '[]');
    END LOOP;
    DELETE FROM redrive.unique_keys k WHERE k.job_id = ANY (job_ids);
    PERFORM redrive.free_slots(job_ids, '{}');
    counts := jsonb_build_object('jobs', cardinality(job_ids));

    letter_ids := letter_ids || ARRAY(
        SELECT l.id FROM redrive.dead_letters l WHERE l.id = ANY (job_ids) ORDER BY l.id FOR UPDATE);
    -- Runs wait for the outcomes of letters that they sent, even if they are finished.
    WITH told AS (
        UPDATE redrive.run_letters m SET outcome = 'skipped_gone'
        FROM redrive.dead_letters l
        WHERE l.id = ANY (letter_ids) AND l.state = 'redriving' AND m.letter_id = l.id AND m.run_id = l.run_id
            AND m.outcome IS NULL
        RETURNING m.run_id
    )
    INSERT INTO redrive.run_deltas (run_id, sent, skipped)
    SELECT t.run_id, -count(*), count(*) FROM told t GROUP BY t.run_id;
    DELETE FROM redrive.run_letters m
    USING redrive.redrive_runs r
    WHERE m.letter_id = ANY (letter_ids) AND r.id = m.run_id AND r.state IN ('finished', 'cancelled');
    WITH deleted AS (
        DELETE FROM redrive.dead_letters l WHERE l.id = ANY (letter_ids)
        RETURNING l.queue, l.kind, l.group_id, l.detail_id, l.events, l.group_key
    )
    SELECT jsonb_agg(to_jsonb(d)), count(*) INTO traces, changed FROM deleted d;
    counts := counts || jsonb_build_object('letters', changed);

    EXECUTE
        'WITH chosen AS MATERIALIZED ('
        ' SELECT a.id FROM redrive.archived_letters a WHERE '
        || redrive.filter_erasure(erase_batch.filter, 'a.id', 'a.queue', 'a.letter ->> ''kind''', '(a.letter ->> ''payload'')::json')
        || ' ORDER BY a.id LIMIT $2),'
        'deleted AS ('
        ' DELETE FROM redrive.archived_letters d WHERE d.id = ANY (ARRAY(SELECT c.id FROM chosen c))'
        ' RETURNING d.id, d.letter - ''{payload,raw_base64,headers,history}''::text[]'
        '  || jsonb_build_object(''error_detail'', md5(d.letter ->> ''error_detail'')) AS letter)'
        'SELECT array_agg(d.id), jsonb_agg(d.letter), count(*), count(*) < (SELECT count(*) FROM chosen) FROM deleted d'
        INTO archived_ids, old_traces, changed, has_restored USING erase_batch.filter, max_rows;
    counts := counts || jsonb_build_object('archive', changed);

    EXECUTE
        'DELETE FROM redrive.letter_versions v USING redrive.dead_letters l WHERE l.id = v.letter_id AND '
        || redrive.filter_erasure(erase_batch.filter, 'l.id', 'l.queue', 'l.kind', 'v.payload')
        USING erase_batch.filter;
    GET DIAGNOSTICS versions = ROW_COUNT;
    EXECUTE
        'DELETE FROM redrive.letter_versions v USING redrive.archived_letters a WHERE a.id = v.letter_id AND '
        || redrive.filter_erasure(erase_batch.filter, 'a.id', 'a.queue', 'a.letter ->> ''kind''', 'v.payload')
        USING erase_batch.filter;
    GET DIAGNOSTICS changed = ROW_COUNT;
    counts := counts || jsonb_build_object('versions', versions + changed,
        'groups', redrive.erase_from_groups(coalesce(traces, '[]') || coalesce(old_traces, '[]')));

    -- A key may name a person, and windows and buckets outlive their jobs.
    DELETE FROM redrive.unique_windows w WHERE w.job_id = ANY (job_ids || letter_ids || archived_ids);
    DELETE FROM redrive.group_buckets b
    USING jsonb_array_elements(job_groups || coalesce(traces, '[]') || coalesce(old_traces, '[]')) g (job)
    WHERE b.queue = g.job ->> 'queue' AND b.group_key = g.job ->> 'group_key';

    UPDATE redrive.redrive_runs r
    SET filter = jsonb_set(r.filter, '{payload}', '"[erased]"')
    WHERE redrive.names_payload(r.filter ->> 'payload', predicate) AND r.state IN ('finished', 'cancelled');
    GET DIAGNOSTICS changed = ROW_COUNT;
    counts := counts || jsonb_build_object('runs', changed,
        'audit', CASE WHEN predicate IS NULL THEN 0 ELSE redrive.erase_from_audit(predicate) END);

    -- The next batch finds what another session has restored meanwhile.
    IF has_restored OR EXISTS (SELECT FROM jsonb_each(counts) c WHERE c.value <> '0') THEN
        act := redrive.record_act('erase', erase_batch.person, erase_batch.reason, NULL, (counts ->> 'letters')::bigint,
            counts || jsonb_strip_nulls(jsonb_build_object('batch_of', erase_batch.audit)));
        RETURN QUERY
        SELECT c.key, c.value::bigint, coalesce(erase_batch.audit, act) FROM jsonb_each_text(counts) c;
    END IF;
END
$$;

-- Erases everything that matches a filter, in the transaction of the caller; see `erase_batch`. Returns how many
-- rows changed in each place.
CREATE OR REPLACE FUNCTION redrive.erase(filter jsonb, reason text DEFAULT NULL, person text DEFAULT NULL)
    RETURNS TABLE (place text, entries bigint)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    batch  record;
    act    bigint;
    done   boolean;
    totals jsonb := '{}';
BEGIN
    LOOP
        done := true;
        FOR batch IN SELECT b.* FROM redrive.erase_batch(erase.filter, 5000, erase.person, erase.reason, act) b LOOP
            done := false;
            act := batch.audit_id;
            totals := totals || jsonb_build_object(
                batch.place, batch.entries + coalesce((totals ->> batch.place)::bigint, 0));
        END LOOP;
        EXIT WHEN done;
    END LOOP;
    RETURN QUERY SELECT t.key, t.value::bigint FROM jsonb_each_text(totals) t;
END
$$;
