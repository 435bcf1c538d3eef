-- Purpose: Least privilege: grants for each kind of role.

-- Grants a role what professions need: enqueuer, worker, capturer, operator, reader and exporter, of which SECURITY.md
-- says what they can do; and app, an ordinary service, which is all of these but operator and reader, and has settings.
-- Create the role first: CREATE ROLE shop LOGIN PASSWORD '...'. Only a superuser can grant `pg_monitor`, which an
-- exporter needs to see the transactions of other roles. A migration grants what a newer version needs to each role that
-- still has its column of `professions`. DROP OWNED BY undoes it. Returns what remains to be done; empty: nothing.
CREATE OR REPLACE FUNCTION redrive.grant_role(role text, VARIADIC professions text[]) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    -- What only an operator does, although workers may write the same tables.
    acts CONSTANT text[] := '{redrive, redrive_letters, discard, discard_letters, reopen_discarded,
        edit_letters, import_letters, change_jobs, create_run, change_run, change_group, add_group_rule,
        remove_group_rule, regroup_letters, set_policy, run_policy, set_retention, remove_retention, prune_letters,
        add_redaction, remove_redaction, redact_letters, redact_groups, pause_queue, resume_queue, release_group,
        set_rate_limit, remove_rate_limit, open_breaker, close_breaker, pause_schedule, remove_schedule,
        trigger_schedule, apply_retention}';
    -- Everybody has the other functions that run with the rights of their caller: they do no more than the grants on
    -- tables allow. With the types of their arguments, because another function may have the same name.
    shared CONSTANT text := (
        SELECT string_agg(p.oid::regprocedure::text, ', ')
        FROM pg_proc p
        WHERE p.pronamespace = 'redrive'::regnamespace AND p.prokind = 'f' AND NOT p.prosecdef
            AND p.proname::text <> ALL (acts || 'grant_role'::text)
            AND pg_has_role(p.proowner, 'USAGE'));
    -- Names are of the schema. Only these columns: a role that writes the others could change how often a job is attempted.
    enqueuer CONSTANT text[] := ARRAY[
        'USAGE ON SEQUENCE job_id',
        'SELECT (id), INSERT (id, segment, rank, queue, kind, payload, meta) ON jobs',
        'INSERT (id, run_at, queue, kind, payload, meta) ON jobs_delayed',
        'INSERT (queue, keys, counts) ON metric_deltas',
        'SELECT ON ring, metric_ring_position',
        'SELECT (queue, waiting, expires_at) ON workers',
        'EXECUTE ON FUNCTION store_jobs'];
    -- Needed to write, move, count and delete letters.
    letters CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON dead_letters, letter_versions, groups, details, failure_hours,
            letter_deltas, run_deltas, run_letters, run_chunks, breakers',
        'SELECT, INSERT, DELETE ON unique_keys, group_slots',
        -- To lock the row of a task; no other name is valid.
        'SELECT, UPDATE (task) ON exclusive_tasks',
        'SELECT (id), INSERT ON audit',
        'SELECT (id, group_id), INSERT ON archived_letters',
        'SELECT, INSERT ON metric_deltas',
        'SELECT, UPDATE ON redrive_runs, rate_buckets',
        'SELECT ON letters, ring, metric_ring_position, counter_keys, retention, redactions, runs, failure_groups,
            group_rules, group_policies, protections, queue_pauses, paused_queues, rate_limits',
        'EXECUTE ON FUNCTION lock_turns'];
    worker CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON jobs, jobs_0, jobs_1, jobs_2, jobs_3, jobs_4, jobs_5, jobs_6, jobs_7,
            jobs_waiting, jobs_delayed, leases, workers, delayed_marks',
        'SELECT ON SEQUENCE job_id',
        -- To compute the next tick of a schedule, and to store an error.
        'SELECT, UPDATE (retry_at, last_error) ON schedules',
        'SELECT ON compactions, queues',
        'SELECT, UPDATE (status, retry_count, retry_after, error_reason, error_stacktrace, updated_at) ON dlq_events',
        -- To lock the slot of a held group.
        'UPDATE (held_at, job_id) ON group_slots',
        'SELECT ON diverted_groups',
        'INSERT ON done_jobs, rate_buckets',
        'SELECT, INSERT, UPDATE, DELETE ON group_buckets',
        'EXECUTE ON FUNCTION queues_with_held_groups, hold_diverted, divert, turn_ring, fold_metrics, compact,
            tick_schedule, apply_retention'];
    capturer CONSTANT text[] := ARRAY[
        'INSERT ON dlq_events',
        'EXECUTE ON FUNCTION capture, capture_letters'];
    settings CONSTANT text[] := ARRAY[
        'INSERT, UPDATE ON group_policies',
        -- No policy: an ordinary service redrives nothing.
        'INSERT (name, cron, zone, every, queue, kind, payload, priority, max_attempts, headers, missed, overlap, next_at),
            UPDATE (cron, zone, every, queue, kind, payload, priority, max_attempts, headers, missed, overlap, next_at,
            version, retry_at, last_error, changed_at) ON schedules',
        'DELETE ON diverted_groups'];
    operator CONSTANT text[] := ARRAY[
        -- Cancels a waiting job, or reinserts it with another priority; marks a running one as cancelled.
        'SELECT, INSERT, UPDATE, DELETE ON jobs, jobs_delayed, dlq_events, schedules, schedule_ticks',
        'SELECT, UPDATE (cancelled) ON leases',
        'SELECT ON workers, live_jobs, all_jobs, stored_letters, queues, served_queues, audit, archived_letters, held_groups,
            unique_windows',
        'SELECT, INSERT ON dlq_events_archive',
        'INSERT ON redrive_runs',
        'INSERT, UPDATE, DELETE ON retention, redactions, queue_pauses, rate_limits, rate_buckets, group_policies',
        'SELECT, UPDATE, DELETE ON group_buckets',
        'SELECT, DELETE ON diverted_groups',
        'INSERT, UPDATE, DELETE ON group_rules',
        'USAGE ON SEQUENCE job_id, redrive_runs_id_seq',
        'EXECUTE ON FUNCTION store_jobs, capture, capture_letters, restore_archived, delete_archived,
            erase_batch, erasable, prune_audit, queues_with_held_groups, audit_counters, repair, fold_metrics,
            hold_diverted',
        'EXECUTE ON FUNCTION ' || array_to_string(acts, ', ')];
    -- No lease_id, which proves that a worker holds a lease.
    reader CONSTANT text[] := ARRAY[
        'SELECT ON jobs, jobs_delayed, done_jobs, live_jobs, all_jobs, workers, queues, served_queues, unique_keys,
            unique_windows, dead_letters, letters, stored_letters, letter_versions, details, dlq_events,
            archived_letters, groups, group_rules, protections, failure_groups, failure_hours, letter_deltas, runs,
            redrive_runs, run_letters, retention, redactions, breakers, queue_pauses, paused_queues, rate_limits,
            rate_buckets, group_buckets, group_policies, group_slots, diverted_groups, held_groups, audit, schedules,
            schedule_ticks',
        'SELECT (queue, worker_id, ids, kinds, done, job_count, claimed_at) ON leases',
        'EXECUTE ON FUNCTION queues_with_held_groups, metric_totals, metrics_queues, metrics_letters, metrics_operations,
            metrics_tables'];
    exporter CONSTANT text[] := ARRAY[
        'EXECUTE ON FUNCTION metric_totals, metrics_queues, metrics_letters, metrics_operations, metrics_tables,
            fold_metrics'];
    profession text;
    granted    text[];
    each_grant text;
    remaining  text := '';
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_role.role) THEN
        RAISE EXCEPTION 'redrive: role % does not exist', coalesce(quote_ident(grant_role.role), 'NULL')
            USING ERRCODE = 'undefined_object', HINT = 'CREATE ROLE ... LOGIN';
    END IF;
    IF shared IS NULL THEN
        RAISE EXCEPTION 'redrive: % may grant nothing; the owner of the schema grants roles', current_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- One at a time, and not while a worker truncates a table: both write the same rows of the catalog.
    LOCK TABLE redrive.migrations IN SHARE ROW EXCLUSIVE MODE;
    EXECUTE (
        SELECT 'LOCK TABLE ' || string_agg(c.oid::regclass::text, ', ') || ' IN ACCESS SHARE MODE'
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind IN ('r', 'p') AND pg_has_role(c.relowner, 'USAGE'));
    FOREACH profession IN ARRAY professions LOOP
        granted := CASE profession
            WHEN 'app' THEN enqueuer || letters || worker || capturer || settings || exporter
            WHEN 'enqueuer' THEN enqueuer
            WHEN 'worker' THEN letters || worker
            WHEN 'capturer' THEN capturer
            WHEN 'operator' THEN letters || operator
            WHEN 'reader' THEN reader
            WHEN 'exporter' THEN exporter
        END;
        IF granted IS NULL THEN
            RAISE EXCEPTION 'redrive: unknown profession %', coalesce(quote_literal(profession), 'NULL')
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Expected app, enqueuer, worker, capturer, operator, reader or exporter.';
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA redrive TO %I', grant_role.role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', shared, grant_role.role);
        FOREACH each_grant IN ARRAY granted || ARRAY['SELECT ON migrations', format('SELECT (%s) ON professions', profession)] LOOP
            EXECUTE format('GRANT %s TO %I', regexp_replace(each_grant, '\w+(?=,|$)(?!.*\sON\s)', 'redrive.\&', 'g'),
                           grant_role.role);
        END LOOP;
        CONTINUE WHEN profession NOT IN ('app', 'exporter') OR pg_has_role(grant_role.role, 'pg_read_all_stats', 'USAGE');
        BEGIN
            EXECUTE format('GRANT pg_monitor TO %I', grant_role.role);
        EXCEPTION WHEN insufficient_privilege THEN
            remaining := format('as a superuser: GRANT pg_monitor TO %I', grant_role.role);
        END;
    END LOOP;
    RETURN remaining;
END
$$;
