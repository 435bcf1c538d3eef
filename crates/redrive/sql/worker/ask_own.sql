-- Purpose: asks what became of a handler's transaction whose connection ended.
-- Called by: worker/own_transaction.rs, on another connection.
-- $1 timestamptz start of the server of the transaction
-- $2 text      id of the transaction; NULL: it had not settled its job
-- Rows: always one: whether the same server still runs, and whether the transaction committed.
SELECT pg_postmaster_start_time() = $1::timestamptz AS is_same_server,
       coalesce(CASE WHEN pg_postmaster_start_time() = $1::timestamptz
           THEN pg_xact_status($2::text::xid8) = 'committed' END, false) AS has_committed
