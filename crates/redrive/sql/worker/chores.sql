-- Purpose: lists the chores that are due, and returns when the next schedule ticks. Any worker can do them on behalf
--          of all.
-- Called by: worker/chores.rs, every third of the lease time.
-- $1 uuid[]    rows of the worker
-- $2 bigint    lease time in milliseconds, for leases whose worker has no row
-- Index relied on: redrive_runs_running; group_buckets_by_time; leases, workers, schedules and the deltas are small, and the
--                  chore `compact` keeps them small.
-- Rows: always one: the names of the chores, and the milliseconds until the next tick of a schedule; NULL: none ticks.
SELECT array_remove(ARRAY[
    -- A table is large enough to be searched for dead rows, or finished jobs can be truncated.
    CASE WHEN EXISTS (
        SELECT FROM redrive.compactions c
        WHERE c.retry_at <= statement_timestamp() AND redrive.table_bytes(c.relation::regclass) >= c.min_bytes
    ) OR EXISTS (SELECT FROM redrive.expired_done_slots()) THEN 'compact' END,
    CASE WHEN EXISTS (
        SELECT FROM redrive.leases l
        LEFT JOIN redrive.workers w ON w.worker_id = l.worker_id
        WHERE coalesce(w.expires_at, l.claimed_at + $2::bigint * interval '1 millisecond')
              < statement_timestamp()
            AND l.worker_id <> ALL ($1::uuid[])
    ) OR EXISTS (
        SELECT FROM redrive.workers w WHERE w.expires_at < statement_timestamp() - interval '1 hour'
    ) THEN 'reap' END,
    CASE WHEN EXISTS (SELECT FROM redrive.letter_deltas) THEN 'fold_letters' END,
    CASE WHEN EXISTS (SELECT FROM redrive.run_deltas) THEN 'fold_runs' END,
    -- Only once a change has waited 5 seconds, because each fold leaves dead row versions of the totals.
    CASE WHEN EXISTS (
        SELECT FROM redrive.metric_deltas d WHERE d.at < statement_timestamp() - interval '5 seconds'
    ) THEN 'fold_counters' END,
    CASE WHEN EXISTS (SELECT FROM redrive.retention) THEN 'retention' END,
    CASE WHEN EXISTS (
        SELECT FROM redrive.group_policies p
        WHERE EXISTS (
            SELECT FROM redrive.group_buckets b WHERE b.queue || '' = p.queue AND b.full_at <= statement_timestamp())
    ) THEN 'buckets' END,
    CASE WHEN EXISTS (
        SELECT FROM redrive.redrive_runs r
        WHERE r.state = 'running'
            AND (r.driver IS NULL OR r.driver_expires_at < statement_timestamp())
    ) THEN 'runs' END
], NULL) AS chores,
redrive.next_tick() AS schedules_ms
