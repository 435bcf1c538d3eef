-- Purpose: Turning the ring of job segments.

-- Returns the bytes of a table that its rows use, including large values stored in its TOAST table.
CREATE OR REPLACE FUNCTION redrive.table_bytes(heap regclass) RETURNS bigint
    LANGUAGE sql VOLATILE STRICT
AS $$
    SELECT pg_relation_size(c.oid) + coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0)
    FROM pg_class c
    WHERE c.oid = table_bytes.heap
$$;

CREATE OR REPLACE FUNCTION redrive.segment_bytes(segment smallint) RETURNS bigint
    LANGUAGE sql VOLATILE STRICT
    RETURN redrive.table_bytes(format('redrive.jobs_%s', segment_bytes.segment)::regclass);

-- Returns whether the last pages of a segment hold a job. Jobs are claimed roughly in the order in which
-- they were stored, so this answers for most segments without reading all dead rows before them.
CREATE OR REPLACE FUNCTION redrive.ends_with_jobs(segment smallint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    heap  CONSTANT regclass := format('redrive.jobs_%s', segment);
    pages CONSTANT bigint := pg_relation_size(heap) / current_setting('block_size')::integer;
    has_jobs boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE ctid >= ''(%s,0)'')', heap, greatest(0, pages - 8))
        INTO has_jobs;
    RETURN has_jobs;
END
$$;

-- Returns whether another transaction keeps its lock on a table. A waiting ACCESS EXCLUSIVE lock blocks every
-- statement on the table, so wait for it only if the holders end within milliseconds, as those of claims do.
CREATE OR REPLACE FUNCTION redrive.is_held(heap regclass) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    before  text[];
    holders text[];
BEGIN
    FOR look IN 1..2 LOOP
        before := holders;
        holders := ARRAY(
            SELECT l.virtualtransaction
            FROM pg_locks l
            JOIN pg_class c ON l.relation IN (c.oid, c.reltoastrelid)
            WHERE c.oid = is_held.heap
                AND l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
                AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
        EXIT WHEN holders = '{}' OR look = 2;
        PERFORM pg_sleep(0.05);
    END LOOP;
    RETURN coalesce(before && holders, false);
END
$$;

-- Truncates a table, unless a transaction keeps its lock on it or one of its rows is still needed. Returns whether it did.
-- The caller is a function of the owner, because only the owner may TRUNCATE.
CREATE OR REPLACE FUNCTION redrive.truncate_drained(heap regclass, is_needed text DEFAULT 'true') RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '50ms'
AS $$
DECLARE
    occupied boolean;
BEGIN
    -- A lock that waits behind a dump would fail the other processes of the dump.
    IF redrive.is_held(heap) THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', heap);
    -- This sees every committed row, because no other session can write any more.
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s)', heap, is_needed) INTO occupied;
    IF NOT occupied THEN
        EXECUTE format('TRUNCATE %s', heap);
        RETURN true;
    END IF;
    -- A row was written in the meantime: release the lock at once.
    RAISE lock_not_available;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- Searches a segment and truncates it if it is drained: at first it only notes that the segment is drained, so
-- that the caller can wait for older snapshots. Returns `truncated`, `drained` or `nothing`. After `nothing`,
-- the next attempt waits 1 second, then twice as long each time, up to a minute.
CREATE OR REPLACE FUNCTION redrive.clear_segment(segment smallint) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    is_noted boolean;
    occupied boolean;
    xid      xid8;
    step     text;
BEGIN
    -- One statement, so that `xid` belongs to the snapshot that sees no job.
    EXECUTE format('SELECT EXISTS (SELECT FROM redrive.jobs_%s), pg_snapshot_xmax(pg_current_snapshot())', segment)
        INTO occupied, xid;
    SELECT s.drained_at IS NOT NULL INTO is_noted FROM redrive.ring_segments s WHERE s.segment = clear_segment.segment;
    step := CASE
        WHEN NOT occupied AND NOT is_noted THEN 'drained'
        WHEN NOT occupied AND redrive.truncate_drained(format('redrive.jobs_%s', segment)::regclass) THEN 'truncated'
        ELSE 'nothing' END;
    UPDATE redrive.ring_segments s
    SET drained_at = CASE WHEN step = 'drained' THEN clock_timestamp() WHEN step = 'nothing' AND NOT occupied THEN s.drained_at END,
        drained_xid = CASE WHEN step = 'drained' THEN xid WHEN step = 'nothing' AND NOT occupied THEN s.drained_xid END,
        truncated_at = CASE step WHEN 'truncated' THEN clock_timestamp() ELSE s.truncated_at END,
        refusals = CASE step WHEN 'nothing' THEN least(s.refusals + 1, 7) ELSE 0 END,
        retry_at = CASE step WHEN 'nothing' THEN
            clock_timestamp() + least(interval '1 minute', interval '1 second' * 2 ^ s.refusals) ELSE s.retry_at END
    WHERE s.segment = clear_segment.segment;
    RETURN step;
END
$$;

-- Moves the jobs of the first segment with at most `move_limit` of them into the current segment. Returns the number of
-- moved jobs. A segment with more jobs is not counted again for up to a minute.
CREATE OR REPLACE FUNCTION redrive.move_stragglers(segments smallint[], move_limit integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    each_one smallint;
    jobs     bigint;
    moved    redrive.job[];
BEGIN
    FOREACH each_one IN ARRAY segments LOOP
        EXECUTE format('SELECT count(*) FROM (SELECT FROM redrive.jobs_%s LIMIT $1) few', each_one)
            INTO jobs USING move_limit + 1;
        IF jobs > move_limit THEN
            UPDATE redrive.ring_segments s
            SET refusals = least(s.refusals + 1, 7),
                retry_at = clock_timestamp() + least(interval '1 minute', interval '1 second' * 2 ^ s.refusals)
            WHERE s.segment = each_one AND s.retry_at <= clock_timestamp();
            CONTINUE;
        END IF;
        EXECUTE format(
            'WITH left_behind AS MATERIALIZED ('
            '  SELECT ctid FROM redrive.jobs_%1$s FOR UPDATE SKIP LOCKED),'
            ' gone AS ('
            '  DELETE FROM redrive.jobs_%1$s s WHERE s.ctid = ANY (ARRAY(SELECT ctid FROM left_behind))'
            '  RETURNING redrive.ready_job(s::redrive.jobs) AS job)'
            ' SELECT array_agg(job) FROM gone',
            each_one)
            INTO moved;
        IF moved IS NOT NULL THEN
            RETURN redrive.requeue(moved, '{}', false);
        END IF;
    END LOOP;
    RETURN 0;
END
$$;

-- Turns the ring by at most one step. Every worker calls this; the lock on the row of the current segment
-- lets one through, and only the owner of the schema can hold it.
--   `drained`    a segment without jobs was noted; it is truncated once every recent snapshot sees that;
--   `truncated`  a drained segment was truncated, which returns its space and dead rows;
--   `turned`     the current segment was full, so new jobs go to the nearest clean one;
--   `moved`      no segment was clean, so the few jobs of one were moved to the current segment;
--   `nothing`    there was nothing to do, or another session held a lock.
-- SECURITY DEFINER, because only the owner may TRUNCATE.
CREATE OR REPLACE FUNCTION redrive.turn_ring(segment_bytes bigint, move_limit integer) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET enable_seqscan = on
AS $$
DECLARE
    here      smallint;
    others    smallint[];
    due       smallint[];
    candidate smallint;
    step      text;
BEGIN
    PERFORM redrive.require_read_committed('turn_ring');
    SELECT r.segment INTO here FROM redrive.ring r;
    -- The used segments that may be searched, the next one first.
    SELECT array_agg(s.segment ORDER BY (s.segment - here + 8) % 8),
           array_agg(s.segment ORDER BY (s.segment - here + 8) % 8) FILTER (
               WHERE s.retry_at <= clock_timestamp() AND redrive.segment_bytes(s.segment) > 0)
        INTO others, due
    FROM redrive.ring_segments s
    WHERE s.segment <> here;
    IF cardinality(others) = 7 IS NOT TRUE THEN
        RAISE EXCEPTION 'redrive: the table ring_segments lacks rows; it needs eight'
            USING ERRCODE = 'no_data_found', HINT = 'Was the schema restored without its data?';
    END IF;
    -- Search without the lock, because there is usually nothing to do and a row lock costs a commit.
    SELECT s.segment INTO candidate
    FROM unnest(due) WITH ORDINALITY AS d (segment, ordinal)
    JOIN redrive.ring_segments s USING (segment)
    WHERE CASE WHEN s.drained_at IS NULL THEN NOT redrive.ends_with_jobs(s.segment)
               -- An older snapshot would find the segment empty after TRUNCATE, and the lease of a job is too new for it. A
               -- snapshot can be held for days, so it is waited for at most 10 seconds.
               ELSE s.drained_at < clock_timestamp() - interval '10 seconds' OR NOT EXISTS (
                   SELECT FROM pg_stat_activity a
                   WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
                       AND age(a.backend_xmin) > age(s.drained_xid::xid)) END
    ORDER BY d.ordinal
    LIMIT 1;
    IF candidate IS NULL AND redrive.segment_bytes(here) < turn_ring.segment_bytes THEN
        RETURN 'nothing';
    END IF;
    PERFORM FROM redrive.ring_segments s WHERE s.segment = here FOR UPDATE SKIP LOCKED;
    -- Another session may hold the lock, or may just have turned the ring.
    IF NOT FOUND OR here <> (SELECT r.segment FROM redrive.ring r) THEN
        RETURN 'nothing';
    END IF;

    -- Another session may have truncated the candidate just now.
    IF redrive.segment_bytes(candidate) > 0 THEN
        step := redrive.clear_segment(candidate);
        IF step <> 'nothing' THEN
            RETURN step;
        END IF;
    END IF;
    IF redrive.segment_bytes(here) < turn_ring.segment_bytes THEN
        RETURN 'nothing';
    END IF;
    FOREACH candidate IN ARRAY others LOOP
        IF redrive.segment_bytes(candidate) = 0 THEN
            UPDATE redrive.ring_segments s SET turned_at = clock_timestamp() WHERE s.segment = candidate;
            PERFORM setval('redrive.ring_position', candidate);
            RETURN 'turned';
        END IF;
    END LOOP;
    -- No segment is clean. A drained one soon will be, and a backlog is left to be drained.
    IF EXISTS (SELECT FROM redrive.ring_segments s WHERE s.drained_at IS NOT NULL)
        OR redrive.move_stragglers(coalesce(due, '{}'), move_limit) = 0
    THEN
        RETURN 'nothing';
    END IF;
    RETURN 'moved';
END
$$;
