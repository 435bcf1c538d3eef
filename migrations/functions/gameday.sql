-- Purpose: Removing everything that a rehearsal (`redrive gameday`) left in its queue.

-- Removes every row of the queue of a rehearsal, except its audit, and records that. The name of the queue is
-- `gameday-` and 12 hexadecimal digits; every other name is refused. It removes jobs, leases, letters, versions,
-- archived letters, failure groups, the runs that selected the queue, its breaker, its worker and its counters.
-- The metrics name 100 queues. Counts that were folded into `__other__`, because the queue was not among them, stay
-- there. Returns the number of jobs and letters that it removed; leased jobs count.
--
-- It runs with the owner's privileges, because no other role may change the counters.
CREATE OR REPLACE FUNCTION redrive.remove_gameday(queue text, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = on
    SET jit = off
AS $$
DECLARE
    run_ids   bigint[];
    group_ids bigint[];
    leased    bigint;
    ready     bigint;
    delayed   bigint;
    letters   bigint;
BEGIN
    PERFORM redrive.require_read_committed('remove_gameday');
    IF NOT coalesce(remove_gameday.queue ~ '^gameday-[0-9a-f]{12}$', false) THEN
        RAISE EXCEPTION 'redrive: % is not the queue of a rehearsal', coalesce(quote_literal(remove_gameday.queue), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Expected gameday- and 12 hexadecimal digits.';
    END IF;
    -- A fold that has read deltas of the queue would add them to its totals after they are gone.
    PERFORM FROM redrive.exclusive_tasks t
    WHERE t.task IN ('fold_letters', 'fold_metrics') ORDER BY t.task FOR UPDATE;

    DELETE FROM redrive.workers w WHERE w.queue = remove_gameday.queue;
    WITH gone AS (
        DELETE FROM redrive.leases s WHERE s.queue = remove_gameday.queue RETURNING s.job_count, s.done
    )
    SELECT coalesce(sum(g.job_count - cardinality(g.done)), 0) INTO leased FROM gone g;
    DELETE FROM redrive.jobs j WHERE j.queue = remove_gameday.queue;
    GET DIAGNOSTICS ready = ROW_COUNT;
    DELETE FROM redrive.jobs_delayed j WHERE j.queue = remove_gameday.queue;
    GET DIAGNOSTICS delayed = ROW_COUNT;
    DELETE FROM redrive.unique_keys k WHERE k.queue = remove_gameday.queue;
    DELETE FROM redrive.unique_windows w WHERE w.queue = remove_gameday.queue;
    DELETE FROM redrive.group_slots s WHERE s.queue = remove_gameday.queue;
    DELETE FROM redrive.diverted_groups d WHERE d.queue = remove_gameday.queue;
    DELETE FROM redrive.group_policies p WHERE p.queue = remove_gameday.queue;

    SELECT array_agg(r.id) INTO run_ids FROM redrive.redrive_runs r WHERE r.filter ->> 'queue' = remove_gameday.queue;
    DELETE FROM redrive.run_letters m WHERE m.run_id = ANY (run_ids);
    DELETE FROM redrive.run_chunks c WHERE c.run_id = ANY (run_ids);
    DELETE FROM redrive.redrive_runs r WHERE r.id = ANY (run_ids);

    -- Triggers delete the versions, and add deltas that are deleted below.
    DELETE FROM redrive.dead_letters l WHERE l.queue = remove_gameday.queue;
    GET DIAGNOSTICS letters = ROW_COUNT;
    DELETE FROM redrive.run_deltas d WHERE d.run_id = ANY (run_ids);
    DELETE FROM redrive.archived_letters a WHERE a.queue = remove_gameday.queue;

    SELECT array_agg(g.id) INTO group_ids FROM redrive.groups g WHERE g.queue = remove_gameday.queue;
    DELETE FROM redrive.letter_deltas d WHERE d.group_id = ANY (group_ids);
    DELETE FROM redrive.failure_hours h WHERE h.group_id = ANY (group_ids);
    DELETE FROM redrive.details d WHERE d.group_id = ANY (group_ids);
    DELETE FROM redrive.group_rules r WHERE r.group_id = ANY (group_ids) OR r.into_id = ANY (group_ids);
    DELETE FROM redrive.groups g WHERE g.id = ANY (group_ids);
    DELETE FROM redrive.pruned_regressions p WHERE p.queue = remove_gameday.queue;
    DELETE FROM redrive.breakers b WHERE b.name = 'queue:' || remove_gameday.queue;
    DELETE FROM redrive.queue_pauses p WHERE p.queue = remove_gameday.queue;
    DELETE FROM redrive.rate_limits l WHERE l.queue = remove_gameday.queue;
    DELETE FROM redrive.rate_buckets b WHERE b.queue = remove_gameday.queue;
    DELETE FROM redrive.group_buckets b WHERE b.queue = remove_gameday.queue;
    DELETE FROM redrive.claim_marks m WHERE m.queue = remove_gameday.queue;
    DELETE FROM redrive.delayed_marks m WHERE m.queue = remove_gameday.queue;

    DELETE FROM redrive.metric_deltas d WHERE d.queue = remove_gameday.queue;
    DELETE FROM redrive.metric_values v WHERE v.queue = remove_gameday.queue;
    DELETE FROM redrive.metric_slots s
    WHERE s.queue = remove_gameday.queue OR s.label = 'queue' AND s.name = remove_gameday.queue;
    DELETE FROM redrive.metric_drift d WHERE d.queue = remove_gameday.queue;

    PERFORM redrive.record_act('remove_gameday', remove_gameday.person, remove_gameday.reason, NULL, letters,
        jsonb_build_object('queue', remove_gameday.queue, 'jobs', leased + ready + delayed));
    RETURN leased + ready + delayed + letters;
END
$$;
