-- Purpose: says which of the chores that any worker does for all there are to do.
-- Called by: worker/chores.rs, every third of the lease time.
-- $1 uuid      worker
-- $2 bigint    lease time in milliseconds, for leases whose worker has no row
-- Locks: none.
-- Index relied on: leases, workers, policies, breakers and the deltas are small; redrive_runs_running.
-- Rows: always one: the names of the chores.
SELECT array_remove(ARRAY[
    CASE WHEN EXISTS (
        SELECT FROM redrive.leases l
        LEFT JOIN redrive.workers w ON w.worker_id = l.worker_id
        WHERE coalesce(w.expires_at, l.claimed_at + $2::bigint * interval '1 millisecond')
              < statement_timestamp()
    ) OR EXISTS (
        SELECT FROM redrive.workers w WHERE w.expires_at < statement_timestamp() - interval '1 hour'
    ) THEN 'reap' END,
    CASE WHEN EXISTS (SELECT FROM redrive.letter_deltas) THEN 'fold' END,
    -- Not at every look of every worker: each fold leaves dead versions of the totals behind.
    CASE WHEN EXISTS (
        SELECT FROM redrive.metric_deltas d WHERE d.at < statement_timestamp() - interval '5 seconds'
    ) THEN 'fold_metrics' END,
    CASE WHEN EXISTS (SELECT FROM redrive.breakers b WHERE b.state <> 'closed') THEN 'breakers' END,
    -- Mine are kept mine also between two ticks.
    CASE WHEN EXISTS (
        SELECT FROM redrive.policies p
        WHERE p.mode <> 'paused' AND (p.next_at <= statement_timestamp() OR p.holder = $1::uuid)
    ) THEN 'policies' END,
    CASE WHEN EXISTS (SELECT FROM redrive.retention) THEN 'retention' END,
    CASE WHEN EXISTS (
        SELECT FROM redrive.redrive_runs r
        WHERE r.state = 'running'
            AND (r.driver IS NULL OR r.driver = $1::uuid OR r.driver_expires_at < statement_timestamp())
    ) THEN 'runs' END
], NULL) AS chores
