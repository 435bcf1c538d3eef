-- Purpose: folds counters while no worker does, so that reading them stays cheap.
-- Called by: metrics/reader.rs, before it reads the counters.
-- Locks: those of redrive.fold_metrics: its task, which is skipped if another session holds it; the totals.
-- Index relied on: none; it reads unfolded rows.
-- Rows: the number of folded rows. Zero rows: the backlog is at most 8 MB, the role may not fold, or the server is a standby.
SELECT redrive.fold_metrics() AS folded
FROM (
    SELECT sum(pg_relation_size(c.oid)) AS bytes
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'redrive.metric_deltas'::regclass
) b
WHERE b.bytes > 8388608 AND NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'off'
    AND has_function_privilege('redrive.fold_metrics(integer, bigint)', 'EXECUTE')
