-- Purpose: begins a handler's transaction: tells which server, session and transaction it is, and whether it keeps its
--          first snapshot, and lets the server end it if the worker, or the worker's host, vanishes.
-- Called by: worker/own_transaction.rs and testing/run.rs, before the handler runs.
-- Rows: always one.
SELECT pg_catalog.pg_postmaster_start_time() AS server_started, pg_catalog.pg_backend_pid() AS pid,
       pg_catalog.transaction_timestamp() AS began,
       pg_catalog.current_setting('transaction_read_only')::boolean AS is_read_only,
       pg_catalog.current_setting('transaction_isolation') IN ('repeatable read', 'serializable') AS keeps_snapshot,
       pg_catalog.set_config('tcp_keepalives_idle', '30s', true),
       pg_catalog.set_config('tcp_keepalives_interval', '10s', true),
       pg_catalog.set_config('tcp_keepalives_count', '3', true),
       pg_catalog.set_config('tcp_user_timeout', '60s', true)
