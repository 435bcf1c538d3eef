-- Purpose: Gauges of the server.

-- Returns who holds the xmin horizon, replication slots, locks and connections. It runs with the privileges
-- of its caller. Without pg_read_all_stats it would only see the transactions of the caller, and report zeros, so it fails.
CREATE OR REPLACE FUNCTION redrive.metrics_server()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF NOT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') THEN
        RAISE EXCEPTION 'redrive: % cannot see the sessions of other roles; as a superuser: GRANT pg_monitor TO %',
            current_user, quote_ident(current_user)
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN QUERY
    WITH activity AS MATERIALIZED (
        SELECT a.datname = current_database() AS is_here, a.state, a.backend_type, a.wait_event_type,
               extract(epoch FROM clock_timestamp() - a.xact_start) AS seconds,
               -- A VACUUM FULL and an ANALYZE are not listed there.
               coalesce(a.leader_pid, a.pid) IN (SELECT v.pid FROM pg_stat_progress_vacuum v) AS is_vacuum
        FROM pg_stat_activity a
        WHERE a.pid <> pg_backend_pid()
    ),
    slots AS MATERIALIZED (
        SELECT s.slot_name::text AS name, s.active,
               pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                    ELSE pg_current_wal_lsn() END, s.restart_lsn) AS retained
        FROM pg_replication_slots s
        ORDER BY 3 DESC NULLS LAST, 1
        LIMIT 20
    )
    -- Holders that are not there are 0; see metrics/zero.rs.
    SELECT v.metric, ARRAY[h.holder], greatest(0, max(v.value))
    FROM redrive.horizon_holders() h
    CROSS JOIN LATERAL (VALUES
        ('redrive_pg_oldest_horizon_age_transactions', age(h.xid)::double precision),
        ('redrive_pg_oldest_horizon_age_seconds', extract(epoch FROM clock_timestamp() - h.since))
    ) v (metric, value)
    -- Slots and standbys have no timestamp.
    WHERE v.value IS NOT NULL
    GROUP BY 1, 2
    UNION ALL
    SELECT 'redrive_pg_oldest_transaction_age_seconds', '{}', greatest(0, coalesce(max(a.seconds), 0))::double precision
    FROM activity a
    WHERE a.is_here AND NOT a.is_vacuum
    UNION ALL
    SELECT 'redrive_pg_replication_slot_active', ARRAY[s.name], s.active::integer FROM slots s
    UNION ALL
    SELECT 'redrive_pg_replication_slot_retained_wal_bytes', ARRAY[s.name], greatest(0, coalesce(s.retained, 0))
    FROM slots s
    UNION ALL
    -- The oldest one of any database stops the writes of all.
    SELECT v.metric, v.labels, v.value
    FROM (SELECT max(age(d.datfrozenxid)) AS transactions, max(mxid_age(d.datminmxid)) AS multixacts FROM pg_database d) o
    CROSS JOIN LATERAL (VALUES
        ('redrive_pg_frozen_id_age', '{transaction}'::text[], o.transactions::double precision),
        ('redrive_pg_frozen_id_age', '{multixact}', o.multixacts)
    ) v (metric, labels, value)
    UNION ALL
    SELECT 'redrive_pg_lock_waiters', '{}', count(*) FROM activity a WHERE a.is_here AND a.wait_event_type = 'Lock'
    UNION ALL
    -- Include this connection, which counts as active.
    SELECT 'redrive_pg_connections', ARRAY[s.state], sum(s.connections)
    FROM (
        SELECT a.state, 1 AS connections FROM activity a
        WHERE a.backend_type = 'client backend' AND a.state IS NOT NULL
        UNION ALL
        VALUES ('active', 1), ('idle', 0), ('idle in transaction', 0)
    ) s
    GROUP BY s.state
    UNION ALL
    SELECT 'redrive_pg_connections_limit', '{}', current_setting('max_connections')::double precision;
END
$$;
