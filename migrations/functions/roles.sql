-- Purpose: Least privilege: grants for each kind of role.

-- Grants a role what professions need:
--   app       what an ordinary service does: enqueues, runs jobs, captures, sets its schedules and group policies, and
--             publishes its metrics; acts on no letter by hand
--   enqueuer  enqueues, and reads no payload
--   worker    runs jobs and does chores, and the ticks of schedules; enqueues other jobs only if it is an enqueuer too
--   capturer  captures failures, and reads nothing
--   operator  acts on letters, runs, queues, schedules, breakers and waiting jobs; reads everything; appends to the
--             audit but cannot change it; can create jobs, because redriving does
--   reader    reads every job, letter, run, schedule and audit record, and changes nothing
--   exporter  reads the metrics: numbers, and the names of queues, kinds and error classes
-- Create the role first: CREATE ROLE shop LOGIN PASSWORD '...'. Only a superuser can grant `pg_monitor`, which an
-- exporter needs to see the transactions of other roles. Grant again after a migration, because a newer version may need
-- more. REVOKE and DROP OWNED BY undo it. Returns what remains to be done; empty: nothing.
CREATE OR REPLACE FUNCTION redrive.grant_role(role text, VARIADIC professions text[]) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    -- The functions that compute only with their arguments, which everybody has. With the types of these, because
    -- another function may have the same name.
    pure CONSTANT text := (
        SELECT string_agg(p.oid::regprocedure::text, ', ')
        FROM pg_proc p
        WHERE p.pronamespace = 'redrive'::regnamespace AND p.provolatile = 'i' AND p.prokind = 'f'
            AND pg_has_role(p.proowner, 'USAGE'));
    -- Names are of the schema.
    everybody CONSTANT text[] := ARRAY['SELECT ON migrations'];
    -- Only these columns: a role that writes the others could change how often a job is attempted.
    enqueuer CONSTANT text[] := ARRAY[
        'USAGE ON SEQUENCE job_id',
        'SELECT (id), INSERT (id, segment, rank, queue, kind, payload, meta) ON jobs',
        'INSERT (id, run_at, queue, kind, payload, meta) ON jobs_delayed',
        'SELECT ON unique_keys, unique_windows',
        'INSERT (segment, queue, keys, counts) ON metric_deltas',
        'SELECT ON ring, metric_ring, group_policies',
        'SELECT (queue, job_id) ON group_slots',
        'SELECT (queue, waiting, expires_at) ON workers',
        'EXECUTE ON FUNCTION enqueue, take_keys, wake, entry_segment'];
    -- Needed to write, move, count and delete letters.
    letters CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON dead_letters, letter_versions, groups, details, failure_hours,
            letter_deltas, run_deltas, run_letters, run_chunks, breakers',
        'SELECT, INSERT, DELETE ON unique_keys, group_slots',
        -- To lock the row of a task; no other name is valid.
        'SELECT, UPDATE (task) ON exclusive_tasks',
        'SELECT (id), INSERT ON audit, archived_letters',
        'SELECT, INSERT ON metric_deltas',
        'SELECT, UPDATE ON redrive_runs, rate_buckets',
        'SELECT ON ring, metric_ring, counter_keys, retention, captured_pieces, redactions, runs, failure_groups,
            group_rules, group_policies, protections, queue_pauses, paused_queues, rate_limits',
        'EXECUTE ON FUNCTION require_read_committed, wake, jobs_of, some_jobs_of, group_of, ruled_group, rule_part,
            detail_of, redact, redact_messages, redacted_text, full_history, past_failures, next_version,
            is_same_failure, fold_letters, fold_runs, fold_run, filter_condition, filter_letters, record_act,
            act_event, send_back, retake_keys, retaken_key, lock_diverted, hold_letters, entry_segment, lock_turns,
            requeue, bury, tried, check_allowed, check_size, has_pieces, refusal, refused_letters,
            take_run, send_members, drive_chunk, drive_run, live_waits, held_queues, archive_json, remove_letters,
            remove_locked, policy_delay, queues_with_letters, retention_by_queue, apply_retention, prune_groups,
            is_drained, tokens_now, fewest_tokens'];
    worker CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON jobs, jobs_0, jobs_1, jobs_2, jobs_3, jobs_4, jobs_5, jobs_6, jobs_7,
            jobs_waiting, jobs_delayed, leases, workers, claim_marks, delayed_marks',
        'SELECT ON SEQUENCE job_id',
        -- To compute the next tick of a schedule, and to store an error.
        'SELECT, UPDATE (next_at, retry_at, last_error) ON schedules',
        'SELECT ON compactions, queues',
        'SELECT, UPDATE (status, retry_count, retry_after, error_reason, error_stacktrace, updated_at) ON dlq_events',
        -- To lock the slot of a held group.
        'UPDATE (held_at, job_id) ON group_slots',
        'SELECT, INSERT, UPDATE (since) ON diverted_groups',
        'INSERT ON done_jobs',
        'SELECT, INSERT, UPDATE, DELETE ON group_buckets',
        'EXECUTE ON FUNCTION take_group_tokens, forget_full_buckets, take_jobs, make_ready, take_slots, free_slots,
            pass_slots, queues_with_held_groups, divert, hold_diverted, settle_own, has_refused_death, turn_ring,
            fold_metrics, compact, expired_done_slots, done_slot, table_bytes, is_policy_held, check_filter,
            filter_jobs, waiting_query, take_waiting, bury_waiting, bury_unhandled, age_jobs, next_tick, tick_schedule,
            lease_jobs, start_jobs, with_headers'];
    capturer CONSTANT text[] := ARRAY[
        'INSERT ON dlq_events',
        'EXECUTE ON FUNCTION capture, capture_letters, capture_many'];
    settings CONSTANT text[] := ARRAY[
        'INSERT, UPDATE ON group_policies',
        -- No policy: an ordinary service redrives nothing.
        'INSERT (name, cron, zone, every, queue, kind, payload, priority, max_attempts, headers, missed, missed_ticks,
            missed_age, overlap, next_at), UPDATE (cron, zone, every, queue, kind, payload, priority, max_attempts,
            headers, missed, missed_ticks, missed_age, overlap, next_at, version, retry_at, last_error, changed_at) ON
            schedules',
        'DELETE ON diverted_groups',
        'EXECUTE ON FUNCTION schedule, set_schedule, checked_rhythm, set_group_policy'];
    operator CONSTANT text[] := ARRAY[
        -- Cancels a waiting job, or reinserts it with another priority; marks a running one as cancelled.
        'SELECT, INSERT, UPDATE, DELETE ON jobs, jobs_delayed, dlq_events, schedules, schedule_ticks',
        'SELECT, UPDATE (cancelled) ON leases',
        'SELECT ON workers, live_jobs, all_jobs, letters, queues, served_queues, audit, archived_letters, held_groups,
            unique_windows',
        'SELECT, INSERT ON dlq_events_archive',
        'INSERT ON redrive_runs',
        'INSERT, UPDATE, DELETE ON retention, redactions, queue_pauses, rate_limits, rate_buckets, group_policies',
        'SELECT, UPDATE, DELETE ON group_buckets',
        'SELECT, DELETE ON diverted_groups',
        'INSERT, DELETE ON group_rules, captured_pieces',
        'USAGE ON SEQUENCE job_id, redrive_runs_id_seq',
        'EXECUTE ON FUNCTION take_keys, capture, capture_letters, capture_many,
            import_letters, imported, readmitted, unarchived, filter_archive, list_archived, count_archived,
            restore_archived, delete_archived, keep_pieces, drop_redacted_pieces, erase, erase_batch, erasable,
            prune_audit, list_letters, count_letters, count_letters_by, lock_letters, check_filter, filter_condition,
            page_letters, page_editable, queues_with_held_groups, redrive, redrive_letters, redrive_order,
            preview_redrive, blocked_letters, discard, discard_letters, reopen_discarded, create_run, overlapping_runs,
            change_run, edit_letter, edit_letters, restore_letters, lock_for_edit, change_group, add_group_rule,
            remove_group_rule, regroup_letters, set_policy, checked_policy, run_policy, due_letters,
            queues_protected_from, is_policy_held, forget_ticks, set_retention, remove_retention, retention_due,
            prune_letters, add_redaction, remove_redaction, redact_letters, redact_groups, open_breaker, close_breaker,
            pause_queue, resume_queue, set_rate_limit, remove_rate_limit, set_group_policy, release_group,
            audit_counters, repair, fold_metrics, filter_jobs, list_jobs, count_jobs, waiting_query, page_waiting,
            take_waiting, bury_waiting, free_slots, hold_diverted, change_jobs, schedule, checked_rhythm, set_schedule,
            pause_schedule, remove_schedule, trigger_schedule, run_ticks'];
    -- No lease_id, which proves that a worker holds a lease.
    reader CONSTANT text[] := ARRAY[
        'SELECT ON jobs, jobs_delayed, done_jobs, live_jobs, all_jobs, workers, queues, served_queues, unique_keys,
            unique_windows, dead_letters, letters, letter_versions, captured_pieces, details, dlq_events,
            archived_letters, groups, group_rules, protections, failure_groups, failure_hours, letter_deltas, runs,
            redrive_runs, run_letters, retention, redactions, breakers, queue_pauses, paused_queues, rate_limits,
            rate_buckets, group_buckets, group_policies, group_slots, diverted_groups, held_groups, audit, schedules,
            schedule_ticks',
        'SELECT (queue, worker_id, ids, kinds, done, job_count, claimed_at) ON leases',
        'EXECUTE ON FUNCTION jobs_of, filter_jobs, list_jobs, count_jobs, waiting_query, filter_condition,
            page_waiting, rule_part, filter_letters, check_filter, unarchived, filter_archive, list_archived,
            count_archived, list_letters, count_letters, count_letters_by, page_letters, page_editable,
            queues_with_held_groups, redrive_order, retaken_key, has_pieces, refusal, preview_redrive, blocked_letters,
            overlapping_runs, retention_due, retention_by_queue, queues_with_letters, held_queues, is_policy_held,
            metric_totals, metrics_queues, metrics_letters, metrics_operations, metrics_tables, tokens_now,
            fewest_tokens'];
    exporter CONSTANT text[] := ARRAY[
        'EXECUTE ON FUNCTION metric_totals, metrics_queues, metrics_letters, metrics_operations, metrics_tables,
            metrics_server, fold_metrics'];
    profession text;
    granted    text[];
    each_grant text;
    remaining  text := '';
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_role.role) THEN
        RAISE EXCEPTION 'redrive: role % does not exist', coalesce(quote_ident(grant_role.role), 'NULL')
            USING ERRCODE = 'undefined_object', HINT = 'CREATE ROLE ... LOGIN';
    END IF;
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
        IF pure IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', pure, grant_role.role);
        END IF;
        FOREACH each_grant IN ARRAY everybody || granted LOOP
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
