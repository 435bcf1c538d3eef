-- Purpose: Rewriting tables that are small but change all the time, and truncating finished jobs whose time has passed.

-- Returns the transactions whose dead rows vacuum keeps for a session, a replication slot, a standby or a prepared
-- transaction, and since when, as far as is known. All roles see the transactions of the sessions of others.
CREATE OR REPLACE FUNCTION redrive.horizon_holders() RETURNS TABLE (holder text, xid xid, since timestamptz)
    LANGUAGE sql VOLATILE
AS $$
    SELECT CASE WHEN a.datname IS NULL THEN 'standby_feedback'
                WHEN a.state LIKE 'idle in transaction%' THEN 'idle_in_transaction'
                ELSE 'backend' END, k.xid, a.xact_start
    FROM pg_stat_activity a
    CROSS JOIN LATERAL unnest(ARRAY[a.backend_xmin, a.backend_xid]) AS k (xid)
    -- Walsenders have a user and no database. Vacuum disregards the snapshots of vacuums and of the server's own
    -- processes, but not those of VACUUM FULL and ANALYZE. Most roles see no type.
    WHERE k.xid IS NOT NULL AND coalesce(a.datname = current_database(), a.usesysid IS NOT NULL)
        AND a.pid <> pg_backend_pid() AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
        AND coalesce(a.leader_pid, a.pid) NOT IN (SELECT v.pid FROM pg_stat_progress_vacuum v)
    UNION ALL
    -- The catalog_xmin of a logical slot only affects catalog tables.
    SELECT 'slot', s.xmin, NULL
    FROM pg_replication_slots s
    WHERE s.xmin IS NOT NULL AND s.wal_status IS DISTINCT FROM 'lost'
    UNION ALL
    SELECT 'prepared', p.transaction, p.prepared FROM pg_prepared_xacts p WHERE p.database = current_database()
$$;

-- Rewrites a table if at least three quarters of it are dead rows and no transaction keeps a lock on it. `kept` only
-- passes the type of its rows. Returns whether it did.
CREATE OR REPLACE FUNCTION redrive.rewrite(heap regclass, kept anyarray, max_rows bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '50ms'
AS $$
DECLARE
    live_rows  bigint;
    live_bytes bigint;
    columns    text;
BEGIN
    EXECUTE format('SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0) FROM (SELECT * FROM %s LIMIT $1) t', heap)
        INTO live_rows, live_bytes USING max_rows + 1;
    IF live_rows > max_rows OR live_bytes > 16777216 OR live_bytes * 4 > redrive.table_bytes(heap) OR redrive.is_held(heap) THEN
        RETURN false;
    END IF;
    SELECT string_agg(quote_ident(a.attname), ', ') INTO columns
    FROM pg_attribute a
    WHERE a.attrelid = heap AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', heap);
    -- A new snapshot, which sees every row, because no other session can write any more.
    EXECUTE format('SELECT array_agg(t) FROM %s t', heap) INTO kept;
    EXECUTE format('TRUNCATE %s', heap);
    EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM unnest($1)', heap, columns) USING kept;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- Rewrites or truncates one table, if one is due. Returns its name; NULL: none was. Each table takes at most a
-- twentieth of the time. SECURITY DEFINER, because only the owner may TRUNCATE.
CREATE OR REPLACE FUNCTION redrive.compact() RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET enable_seqscan = on
AS $$
DECLARE
    begun CONSTANT timestamptz := clock_timestamp();
    due   redrive.compactions;
    kept  xid;
    is_rewritten boolean;
BEGIN
    PERFORM redrive.require_read_committed('compact');
    SELECT c.* INTO due
    FROM redrive.compactions c
    WHERE c.retry_at <= begun AND redrive.table_bytes(c.relation::regclass) >= c.min_bytes
    ORDER BY c.retry_at, c.relation
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN (
            SELECT t.heap
            FROM redrive.expired_done_slots() AS s (slot)
            CROSS JOIN LATERAL (SELECT format('redrive.done_jobs_%s', s.slot) AS heap) t
            -- A clock may have been set back.
            WHERE redrive.truncate_drained(t.heap::regclass, 'keep_until > clock_timestamp()')
            LIMIT 1);
    END IF;
    SELECT h.xid INTO kept FROM redrive.horizon_holders() h ORDER BY age(h.xid) DESC LIMIT 1;
    -- Many transactions end while a table waits for its next turn, so one that is still the oldest is held.
    IF redrive.table_bytes(due.relation::regclass) >= due.vacuum_bytes OR kept = due.kept_xid THEN
        EXECUTE format('SELECT redrive.rewrite($1, NULL::%s[], $2)', due.relation)
            INTO is_rewritten USING due.relation::regclass, due.max_rows;
    END IF;
    UPDATE redrive.compactions c
    SET retry_at = clock_timestamp() + interval '5 seconds' + 20 * (clock_timestamp() - begun), kept_xid = kept
    WHERE c.relation = due.relation;
    RETURN CASE WHEN is_rewritten THEN due.relation END;
END
$$;
