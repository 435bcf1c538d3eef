-- Purpose: least privilege: what a role of yours needs for a profession, granted by one function; the view
--          `queues`, which counts without showing anything; and keys of unique jobs that nobody can change.
-- Locks: unique_keys against writers, for a moment: it gets a trigger.
-- Safe under running workers of the previous version: yes.
-- breaking: no

-- Every queue with its numbers: what `redrive stats` shows, without a word of any error.
CREATE VIEW redrive.queues AS
    WITH ready AS (
        SELECT j.queue::text AS queue, count(*) AS jobs, min(j.ready_at) AS oldest
        FROM redrive.jobs j
        GROUP BY 1
    ),
    delayed AS (
        SELECT d.queue::text AS queue, count(*) AS jobs
        FROM redrive.jobs_delayed d
        GROUP BY 1
    ),
    leased AS (
        SELECT l.queue::text AS queue, sum(l.job_count - cardinality(l.done)) AS jobs
        FROM redrive.leases l
        GROUP BY 1
    ),
    served AS (
        SELECT w.queue::text AS queue, count(*) AS workers, sum(w.slots) AS slots
        FROM redrive.workers w
        WHERE w.expires_at > statement_timestamp()
        GROUP BY 1
    ),
    dead AS (
        SELECT g.queue::text AS queue, sum(g.open) AS open, sum(g.redriving) AS redriving,
               sum(g.recovered) AS recovered, sum(g.discarded) AS discarded, sum(g.quarantined) AS quarantined
        FROM redrive.failure_groups g
        GROUP BY 1
    )
    SELECT queue,
           coalesce(ready.jobs, 0)::bigint AS ready,
           coalesce(delayed.jobs, 0)::bigint AS delayed,
           coalesce(leased.jobs, 0)::bigint AS leased,
           ready.oldest AS oldest_ready,
           coalesce(served.workers, 0)::bigint AS workers,
           coalesce(served.slots, 0)::bigint AS slots,
           coalesce(dead.open, 0)::bigint AS open,
           coalesce(dead.redriving, 0)::bigint AS redriving,
           coalesce(dead.recovered, 0)::bigint AS recovered,
           coalesce(dead.discarded, 0)::bigint AS discarded,
           coalesce(dead.quarantined, 0)::bigint AS quarantined
    FROM ready
    FULL JOIN delayed USING (queue)
    FULL JOIN leased USING (queue)
    FULL JOIN served USING (queue)
    FULL JOIN dead USING (queue);

COMMENT ON VIEW redrive.queues IS 'Every queue with its numbers; counted row by row, for a person.';

-- An enqueue of a key in use updates the row, to wait for whoever is at it, but changes nothing. It
-- needs the right to, and with that right somebody could give a key away that is not theirs.
CREATE FUNCTION redrive.keep_unique_key() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'redrive: the key of a unique job does not change' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER keep_unique_key BEFORE UPDATE ON redrive.unique_keys
    FOR EACH ROW WHEN (OLD.key IS DISTINCT FROM NEW.key OR OLD.queue IS DISTINCT FROM NEW.queue
        OR OLD.job_id IS DISTINCT FROM NEW.job_id)
    EXECUTE FUNCTION redrive.keep_unique_key();

-- Grants a role what a profession needs:
--   enqueuer  enqueues, and reads no payload
--   worker    runs jobs, and does the chores of a worker; enqueues only if it is an enqueuer, too
--   operator  every verb on letters, runs, policies, breakers and waiting jobs; reads everything, and writes
--             the audit, but cannot change it; who may send letters back may make jobs
--   reader    looks at numbers and at the life of jobs and letters, without a payload or a word of an error
--   exporter  what grant_metrics grants
-- Make the role first: CREATE ROLE shop LOGIN PASSWORD '…'. A role may have several professions. Grant
-- again after a migration: a newer version may need more. REVOKE and DROP OWNED BY take it back.
-- Answers what is left to be done, empty when nothing is.
CREATE FUNCTION redrive.grant_role(role text, profession text) RETURNS text
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    everybody CONSTANT text[] := ARRAY[
        'USAGE ON SCHEMA redrive',
        'SELECT ON redrive.migrations'];
    -- Only these columns: whoever may write the others decides how often a job has been tried.
    enqueuer CONSTANT text[] := ARRAY[
        'USAGE ON SEQUENCE redrive.job_id',
        'SELECT (id), INSERT (id, segment, queue, kind, payload, priority, max_attempts, unique_key) ON redrive.jobs',
        'INSERT (id, run_at, queue, kind, payload, priority, max_attempts, unique_key) ON redrive.jobs_delayed',
        -- Which job has a key is the answer to an enqueue; `keep_unique_key` guards the update.
        'SELECT, INSERT, UPDATE (key) ON redrive.unique_keys',
        'INSERT (segment, queue, words, counts) ON redrive.metric_deltas',
        'SELECT ON redrive.ring, redrive.metric_ring',
        'SELECT (queue, waiting, expires_at) ON redrive.workers',
        'EXECUTE ON FUNCTION redrive.enqueue, redrive.check_name, redrive.wake'];
    -- What it takes to write, move, count and take away letters.
    letters CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON redrive.dead_letters, redrive.letter_versions, redrive.groups, '
            'redrive.details, redrive.failure_hours, redrive.letter_deltas, redrive.run_deltas, '
            'redrive.run_letters, redrive.run_stretches, redrive.unique_keys, redrive.breakers',
        'SELECT (id), INSERT ON redrive.audit',
        'INSERT ON redrive.archived_letters',
        'SELECT, INSERT ON redrive.metric_deltas',
        'SELECT, INSERT, UPDATE ON redrive.forgotten_regressions',
        'SELECT, UPDATE ON redrive.policies, redrive.redrive_runs',
        'SELECT ON redrive.ring, redrive.metric_ring, redrive.metric_words, redrive.retention, '
            'redrive.redactions, redrive.runs, redrive.failure_groups',
        'EXECUTE ON FUNCTION redrive.check_name, redrive.wake, redrive.clip, redrive.mask, redrive.fingerprint, '
            'redrive.group_of, redrive.detail_of, redrive.redact, redrive.redact_text, redrive.redact_bytes, '
            'redrive.tell, redrive.spelled, redrive.cut_history, redrive.remember, redrive.remember_before, '
            'redrive.told_history, redrive.is_alike, redrive.metric_bucket, redrive.fold_letters, '
            'redrive.fold_runs, redrive.filter_letters, redrive.record_act, redrive.send_back, '
            'redrive.refused_letters, redrive.take_run, redrive.send_members, redrive.drive_stretch, '
            'redrive.drive_run, redrive.queues_with_open_breaker, redrive.archived, redrive.take_away, '
            'redrive.queues_with_letters, redrive.retention_by_queue, redrive.apply_retention, '
            'redrive.forget_groups, redrive.is_drained'];
    worker CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON redrive.jobs, redrive.jobs_0, redrive.jobs_1, redrive.jobs_2, '
            'redrive.jobs_3, redrive.jobs_delayed, redrive.leases, redrive.workers',
        'EXECUTE ON FUNCTION redrive.turn_ring, redrive.fold_metrics, redrive.run_policies, '
            'redrive.due_letters, redrive.policy_wait, redrive.is_hour_allowed'];
    operator CONSTANT text[] := ARRAY[
        -- A waiting job is cancelled, or inserted anew with another priority; a running one is told.
        'SELECT, INSERT, UPDATE, DELETE ON redrive.jobs, redrive.jobs_delayed',
        'SELECT, UPDATE (cancelled) ON redrive.leases',
        'SELECT ON redrive.workers, redrive.live_jobs, redrive.letters, redrive.dlq_events, redrive.queues, '
            'redrive.audit, redrive.archived_letters',
        'INSERT ON redrive.redrive_runs',
        'INSERT, UPDATE, DELETE ON redrive.policies, redrive.retention, redrive.redactions',
        'USAGE ON SEQUENCE redrive.job_id, redrive.redrive_runs_id_seq',
        'EXECUTE ON FUNCTION redrive.capture, redrive.capture_letters, redrive.json_of, redrive.list_letters, '
            'redrive.count_letters, redrive.lock_letters, redrive.words_of_filter, redrive.groups_of_filter, '
            'redrive.page_letters, redrive.page_editable, redrive.redrive, redrive.redrive_letters, '
            'redrive.check_redrive, redrive.preview_redrive, redrive.unserved_letters, redrive.discard, '
            'redrive.discard_letters, redrive.create_run, redrive.change_run, redrive.edit_letter, '
            'redrive.edit_letters, redrive.restore_letter, redrive.lock_for_edit, redrive.mark_group, '
            'redrive.note_group, redrive.own_group, redrive.set_policy, redrive.set_policy_mode, '
            'redrive.remove_policy, redrive.set_retention, redrive.remove_retention, redrive.retention_due, '
            'redrive.prune_letters, redrive.add_redaction, redrive.remove_redaction, redrive.open_breaker, '
            'redrive.close_breaker, redrive.check_breaker_name, redrive.audit_counters, redrive.fold_metrics, '
            'redrive.policy_wait, redrive.is_hour_allowed'];
    -- No payload, no text of an error, no note, no lease_id: that is what proves a lease.
    reader CONSTANT text[] := ARRAY[
        'SELECT ON redrive.queues, redrive.workers',
        'SELECT (id, queue, kind, state, priority, attempt, max_attempts, generation, crashes, run_at, enqueued_at, '
            'worker_id, claimed_at, outage_since) ON redrive.live_jobs',
        'SELECT (id, queue, kind, state, reason, error_class, content_type, seen, priority, attempts, max_attempts, '
            'generation, crashes, worker_id, host, version, enqueued_at, died_at, changed_at, group_id, pid, deaths, '
            'alike, run_id, policy_id) ON redrive.letters',
        'SELECT (id, queue, kind, error_class, state, owner, first_seen, first_version, last_seen, resolved_at, '
            'regressed_at, regressions, deaths, open, redriving, recovered, discarded, quarantined) '
            'ON redrive.failure_groups',
        'SELECT (id, event_type, status, retry_count, retry_after, created_at, updated_at) ON redrive.dlq_events',
        'SELECT (id, state, person, is_driven, total, cursor, sent, skipped, recovered, died_alike, '
            'died_differently, still_running, created_at, started_at, ended_at) ON redrive.runs',
        'EXECUTE ON FUNCTION redrive.metric_totals, redrive.metrics_queues, redrive.metrics_letters, '
            'redrive.metrics_operations, redrive.metrics_tables'];
    granted text[];
    each_grant text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_role.role) THEN
        RAISE EXCEPTION 'redrive: there is no role %', coalesce(quote_ident(grant_role.role), 'NULL')
            USING ERRCODE = 'undefined_object', HINT = 'CREATE ROLE … LOGIN';
    END IF;
    IF grant_role.profession = 'exporter' THEN
        RETURN redrive.grant_metrics(grant_role.role);
    END IF;
    granted := CASE grant_role.profession
        WHEN 'enqueuer' THEN enqueuer
        WHEN 'worker' THEN letters || worker
        WHEN 'operator' THEN letters || operator
        WHEN 'reader' THEN reader
    END;
    IF granted IS NULL THEN
        RAISE EXCEPTION 'redrive: there is no profession %', coalesce(quote_literal(grant_role.profession), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'It is one of enqueuer, worker, operator, reader and exporter.';
    END IF;
    FOREACH each_grant IN ARRAY everybody || granted LOOP
        EXECUTE format('GRANT %s TO %I', each_grant, grant_role.role);
    END LOOP;
    RETURN '';
END
$$;

-- Nobody has anything that was not granted to them.
REVOKE ALL ON SCHEMA redrive FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA redrive FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA redrive FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
