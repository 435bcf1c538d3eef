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
-- exporter needs to see the transactions of other roles. Grant again
-- after a migration, because a newer version may need more. REVOKE and DROP OWNED BY undo it. Returns what
-- remains to be done; empty: nothing.
CREATE OR REPLACE FUNCTION redrive.grant_role(role text, VARIADIC professions text[]) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    everybody CONSTANT text[] := ARRAY[
        'USAGE ON SCHEMA redrive',
        'SELECT ON redrive.migrations, redrive.definitions'];
    -- Only these columns: a role that writes the others could change how often a job is attempted.
    enqueuer CONSTANT text[] := ARRAY[
        'USAGE ON SEQUENCE redrive.job_id',
        'SELECT (id), INSERT (id, segment, rank, queue, kind, payload, meta) ON redrive.jobs',
        'INSERT (id, run_at, queue, kind, payload, meta) ON redrive.jobs_delayed',
        'SELECT ON redrive.unique_keys, redrive.unique_windows',
        'INSERT (segment, queue, keys, counts) ON redrive.metric_deltas',
        'SELECT ON redrive.ring, redrive.metric_ring, redrive.group_policies',
        'SELECT (queue, job_id) ON redrive.group_slots',
        'SELECT (queue, waiting, expires_at) ON redrive.workers',
        'EXECUTE ON FUNCTION redrive.enqueue, redrive.take_keys, redrive.replace_keys, redrive.replace_waiting, '
            'redrive.have_reserved_header, redrive.check_name, redrive.wake, redrive.entry_segment, redrive.new_meta'];
    -- Needed to write, move, count and delete letters.
    letters CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON redrive.dead_letters, redrive.letter_versions, redrive.groups, '
            'redrive.details, redrive.failure_hours, redrive.letter_deltas, redrive.run_deltas, '
            'redrive.run_letters, redrive.run_chunks, redrive.breakers',
        'SELECT, INSERT, DELETE ON redrive.unique_keys, redrive.group_slots',
        'SELECT ON redrive.group_policies',
        -- To lock the row of a task; no other name is valid.
        'SELECT, UPDATE (task) ON redrive.exclusive_tasks',
        'SELECT (id), INSERT ON redrive.audit',
        'SELECT (id), INSERT ON redrive.archived_letters',
        'SELECT, INSERT ON redrive.metric_deltas',
        'SELECT, INSERT, UPDATE ON redrive.pruned_regressions',
        'SELECT, UPDATE ON redrive.redrive_runs, redrive.rate_buckets',
        'SELECT ON redrive.ring, redrive.metric_ring, redrive.counter_keys, redrive.retention, redrive.captured_pieces, '
            'redrive.redactions, redrive.runs, redrive.failure_groups, redrive.group_rules, '
            'redrive.protections, redrive.queue_pauses, redrive.paused_queues, redrive.rate_limits',
        'EXECUTE ON FUNCTION redrive.check_name, redrive.refuse, redrive.require_read_committed, redrive.limit_of, redrive.wake, redrive.clip, redrive.cleaned_name, redrive.fingerprint, '
            'redrive.mask, redrive.mask_ids, redrive.mask_rest, redrive.mask_quotes, redrive.mask_places, redrive.mask_numbers, redrive.mask_tokens, '
            'redrive.top_frame, '
            'redrive.readable_payload, redrive.checked_payload, redrive.jobs_of, redrive.some_jobs_of, redrive.job_of, redrive.rank_of, redrive.meta_of, redrive.kept_meta, '
            'redrive.group_of, redrive.ruled_group, redrive.rule_part, redrive.detail_of, redrive.redact, redrive.redact_text, redrive.redact_messages, redrive.redacted_text, redrive.redact_bytes, '
            'redrive.pointer_parts, redrive.pointer_paths, redrive.redact_values, redrive.still_redacted, '
            'redrive.add_event, redrive.expand_record, redrive.cut_history, redrive.add_attempt, redrive.history_before, '
            'redrive.full_history, redrive.past_failures, redrive.next_version, redrive.is_same_failure, redrive.fold_letters, '
            'redrive.fold_runs, redrive.fold_run, redrive.filter_condition, redrive.filter_keys, redrive.filter_letters, redrive.record_act, redrive.send_back, redrive.retake_keys, redrive.retaken_key, redrive.lock_diverted, redrive.hold_letters, redrive.entry_segment, redrive.lock_turns, redrive.segment_of_returned, redrive.requeue, redrive.bury, redrive.ready_job, redrive.delayed_job, redrive.tried, redrive.altered, redrive.place_of, redrive.check_allowed, redrive.check_size, redrive.captured_headers, '
            'redrive.has_pieces, redrive.refusal, redrive.refused_letters, redrive.take_run, redrive.send_members, redrive.drive_chunk, '
            'redrive.drive_run, redrive.live_waits, redrive.held_queues, redrive.archive_json, redrive.remove_letters, redrive.remove_locked, redrive.policy_wait, redrive.policy_delay, '
            'redrive.queues_with_letters, redrive.retention_by_queue, redrive.apply_retention, '
            'redrive.prune_groups, redrive.is_drained, '
            'redrive.token_hold, redrive.token_refill, redrive.token_capacity, redrive.tokens_now, redrive.fewest_tokens'];
    worker CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON redrive.jobs, redrive.jobs_0, redrive.jobs_1, redrive.jobs_2, '
            'redrive.jobs_3, redrive.jobs_4, redrive.jobs_5, redrive.jobs_6, redrive.jobs_7, redrive.jobs_waiting, redrive.jobs_delayed, redrive.leases, redrive.workers, redrive.claim_marks, redrive.delayed_marks',
        'SELECT ON SEQUENCE redrive.job_id',
        -- To compute the next tick of a schedule, and to store an error.
        'SELECT, UPDATE (next_at, retry_at, last_error) ON redrive.schedules',
        'SELECT ON redrive.compactions, redrive.served_queues',
        'SELECT, UPDATE (status, retry_count, retry_after, error_reason, error_stacktrace, updated_at) ON redrive.dlq_events',
        -- To lock the slot of a held group.
        'UPDATE (held_at, job_id) ON redrive.group_slots',
        'SELECT, INSERT, UPDATE (since) ON redrive.diverted_groups',
        'INSERT ON redrive.done_jobs',
        'SELECT, INSERT, UPDATE, DELETE ON redrive.group_buckets',
        'EXECUTE ON FUNCTION redrive.take_group_tokens, redrive.forget_full_buckets, redrive.take_jobs, redrive.make_ready, redrive.take_slots, redrive.free_slots, redrive.pass_slots, redrive.queues_with_held_groups, redrive.divert, redrive.hold_diverted, redrive.settle_own, redrive.has_refused_death, redrive.turn_ring, '
            'redrive.fold_metrics, redrive.compact, redrive.expired_done_slots, redrive.done_slot, redrive.table_bytes, redrive.is_policy_held, '
            'redrive.filter_values, redrive.check_filter, redrive.filter_jobs, redrive.waiting_query, redrive.take_waiting, redrive.bury_waiting, redrive.bury_unhandled, '
            'redrive.age_jobs, redrive.next_tick, redrive.tick_schedule, redrive.free_started_keys, redrive.lease_jobs, redrive.start_jobs, redrive.with_headers'];
    capturer CONSTANT text[] := ARRAY[
        'INSERT ON redrive.dlq_events',
        'EXECUTE ON FUNCTION redrive.capture, redrive.capture_letters, redrive.capture_many'];
    settings CONSTANT text[] := ARRAY[
        'INSERT, UPDATE ON redrive.group_policies',
        -- No policy: an ordinary service redrives nothing.
        'INSERT (name, cron, zone, every, queue, kind, payload, priority, max_attempts, headers, missed, missed_ticks, '
            'missed_age, overlap, next_at), UPDATE (cron, zone, every, queue, kind, payload, priority, max_attempts, headers, '
            'missed, missed_ticks, missed_age, overlap, next_at, version, retry_at, last_error, changed_at) '
            'ON redrive.schedules',
        'DELETE ON redrive.diverted_groups',
        'EXECUTE ON FUNCTION redrive.schedule, redrive.have_reserved_header, redrive.set_schedule, redrive.checked_rhythm, redrive.set_group_policy'];
    operator CONSTANT text[] := ARRAY[
        -- Cancels a waiting job, or reinserts it with another priority; marks a running one as cancelled.
        'SELECT, INSERT, UPDATE, DELETE ON redrive.jobs, redrive.jobs_delayed',
        'SELECT, UPDATE (cancelled) ON redrive.leases',
        'SELECT ON redrive.workers, redrive.live_jobs, redrive.all_jobs, redrive.letters, redrive.queues, '
            'redrive.served_queues, redrive.audit, redrive.archived_letters',
        'SELECT, INSERT, UPDATE, DELETE ON redrive.dlq_events',
        'SELECT, INSERT ON redrive.dlq_events_archive',
        'INSERT ON redrive.redrive_runs',
        'INSERT, UPDATE, DELETE ON redrive.retention, redrive.redactions, redrive.queue_pauses, '
            'redrive.rate_limits, redrive.rate_buckets, redrive.group_policies',
        'SELECT, UPDATE, DELETE ON redrive.group_buckets',
        'SELECT ON redrive.held_groups, redrive.unique_windows',
        'SELECT, DELETE ON redrive.diverted_groups',
        'SELECT, INSERT, UPDATE, DELETE ON redrive.schedules, redrive.schedule_ticks',
        'INSERT, DELETE ON redrive.group_rules, redrive.captured_pieces',
        'USAGE ON SEQUENCE redrive.job_id, redrive.redrive_runs_id_seq',
        'EXECUTE ON FUNCTION redrive.new_meta, redrive.take_keys, redrive.replace_keys, redrive.replace_waiting, redrive.capture, redrive.capture_letters, redrive.capture_many, '
            'redrive.import_letters, redrive.imported, redrive.readmitted, redrive.unarchived, redrive.filter_archive, '
            'redrive.list_archived, redrive.count_archived, redrive.restore_archived, redrive.delete_archived, redrive.shortened, '
            'redrive.headers_with_long, redrive.keep_pieces, redrive.drop_redacted_pieces, '
            'redrive.erase, redrive.erase_batch, redrive.erasable, redrive.prune_audit, redrive.json_of, '
            'redrive.list_letters, '
            'redrive.count_letters, redrive.count_letters_by, redrive.payload_value, redrive.lock_letters, redrive.filter_values, redrive.check_filter, redrive.filter_condition, redrive.filter_keys, '
            'redrive.page_letters, redrive.page_editable, redrive.queues_with_held_groups, redrive.redrive, redrive.redrive_letters, '
            'redrive.check_redrive, redrive.redrive_order, redrive.preview_redrive, redrive.blocked_letters, redrive.discard, '
            'redrive.discard_letters, redrive.flag_of, redrive.last_discard, redrive.reopen_discarded, redrive.create_run, '
            'redrive.overlapping_runs, redrive.change_run, redrive.edit_letter, redrive.edit_letters, '
            'redrive.restore_letter, redrive.restore_letters, redrive.lock_for_edit, redrive.change_group, '
            'redrive.add_group_rule, redrive.remove_group_rule, '
            'redrive.regroup_letters, redrive.set_policy, redrive.checked_policy, '
            'redrive.run_policy, redrive.due_letters, redrive.queues_protected_from, redrive.is_policy_held, redrive.forget_ticks, redrive.set_retention, redrive.remove_retention, redrive.retention_due, '
            'redrive.prune_letters, redrive.add_redaction, redrive.remove_redaction, redrive.redact_letters, redrive.redact_groups, '
            'redrive.open_breaker, '
            'redrive.close_breaker, redrive.check_breaker_name, redrive.pause_queue, redrive.resume_queue, redrive.set_rate_limit, redrive.remove_rate_limit, redrive.set_group_policy, redrive.release_group, redrive.audit_counters, redrive.repair, redrive.fold_metrics, '
            'redrive.filter_jobs, '
            'redrive.list_jobs, redrive.count_jobs, redrive.waiting_query, redrive.page_waiting, '
            'redrive.take_waiting, redrive.bury_waiting, redrive.free_slots, redrive.hold_diverted, redrive.change_jobs, redrive.schedule, redrive.have_reserved_header, '
            'redrive.checked_rhythm, redrive.set_schedule, redrive.refuse, redrive.pause_schedule, redrive.remove_schedule, redrive.trigger_schedule, redrive.run_ticks'];
    -- No lease_id, which proves that a worker holds a lease.
    reader CONSTANT text[] := ARRAY[
        'SELECT ON redrive.jobs, redrive.jobs_delayed, redrive.done_jobs, redrive.live_jobs, redrive.all_jobs, redrive.workers, redrive.queues, redrive.served_queues, redrive.unique_keys, redrive.unique_windows, '
            'redrive.dead_letters, redrive.letters, redrive.letter_versions, redrive.captured_pieces, redrive.details, redrive.dlq_events, '
            'redrive.archived_letters, redrive.groups, redrive.group_rules, redrive.protections, redrive.failure_groups, '
            'redrive.failure_hours, redrive.letter_deltas, redrive.runs, redrive.redrive_runs, redrive.run_letters, '
            'redrive.retention, redrive.redactions, redrive.breakers, redrive.queue_pauses, redrive.paused_queues, redrive.rate_limits, redrive.rate_buckets, redrive.group_buckets, redrive.group_policies, redrive.group_slots, redrive.diverted_groups, redrive.held_groups, redrive.audit, redrive.schedules, redrive.schedule_ticks',
        'SELECT (queue, worker_id, ids, kinds, done, job_count, claimed_at) ON redrive.leases',
        'EXECUTE ON FUNCTION redrive.jobs_of, redrive.filter_jobs, redrive.list_jobs, redrive.count_jobs, '
            'redrive.waiting_query, redrive.filter_condition, redrive.filter_keys, redrive.page_waiting, redrive.job_of, redrive.ready_job, redrive.delayed_job, redrive.place_of, redrive.readable_payload, redrive.payload_value, redrive.checked_payload, redrive.rule_part, '
            'redrive.filter_letters, redrive.filter_values, redrive.check_filter, redrive.unarchived, redrive.filter_archive, redrive.list_archived, redrive.count_archived, '
            'redrive.list_letters, redrive.count_letters, redrive.count_letters_by, '
            'redrive.page_letters, redrive.page_editable, redrive.queues_with_held_groups, redrive.redrive_order, redrive.retaken_key, redrive.has_pieces, redrive.refusal, redrive.check_name, redrive.refuse, redrive.check_redrive, redrive.preview_redrive, redrive.blocked_letters, '
            'redrive.overlapping_runs, redrive.retention_due, redrive.retention_by_queue, '
            'redrive.queues_with_letters, redrive.held_queues, redrive.is_policy_held, '
            'redrive.mask, redrive.mask_ids, redrive.mask_rest, redrive.mask_quotes, redrive.mask_places, '
            'redrive.mask_numbers, redrive.mask_tokens, '
            'redrive.metric_totals, redrive.metrics_queues, redrive.metrics_letters, '
            'redrive.metrics_operations, redrive.metrics_tables, '
            'redrive.token_hold, redrive.token_refill, redrive.token_capacity, redrive.tokens_now, redrive.fewest_tokens'];
    exporter CONSTANT text[] := ARRAY[
        'EXECUTE ON FUNCTION redrive.metric_totals, redrive.metrics_queues, redrive.metrics_letters, '
            'redrive.metrics_operations, redrive.metrics_tables, redrive.metrics_bloat, redrive.metrics_server, redrive.fold_metrics'];
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
        FOREACH each_grant IN ARRAY everybody || granted LOOP
            EXECUTE format('GRANT %s TO %I', each_grant, grant_role.role);
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
