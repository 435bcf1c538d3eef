-- Purpose: Takes and promotes jobs.

-- Deletes jobs of one segment, which the caller has locked, and returns them. A claim calls this for each segment
-- that it found jobs in. Starting a DELETE for each of eight segments would cost a small claim half its time.
CREATE OR REPLACE FUNCTION redrive.take_jobs(segment smallint, tids tid[]) RETURNS SETOF redrive.jobs
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CASE segment
        WHEN 0 THEN RETURN QUERY DELETE FROM redrive.jobs_0 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 1 THEN RETURN QUERY DELETE FROM redrive.jobs_1 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 2 THEN RETURN QUERY DELETE FROM redrive.jobs_2 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 3 THEN RETURN QUERY DELETE FROM redrive.jobs_3 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 4 THEN RETURN QUERY DELETE FROM redrive.jobs_4 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 5 THEN RETURN QUERY DELETE FROM redrive.jobs_5 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 6 THEN RETURN QUERY DELETE FROM redrive.jobs_6 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 7 THEN RETURN QUERY DELETE FROM redrive.jobs_7 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 8 THEN RETURN QUERY DELETE FROM redrive.jobs_waiting j WHERE j.ctid = ANY (tids) RETURNING j.*;
    END CASE;
END
$$;

-- Moves delayed jobs, which the caller has locked, into the current segment, or into that of waiting jobs if their
-- group has a policy. A suspect waits only for a turn. Returns how many. They are deleted by ctid, because a join planned on an empty table would run nested loops over the whole table.
CREATE OR REPLACE FUNCTION redrive.make_ready(tids tid[]) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    moved bigint;
BEGIN
    WITH gone AS (
        DELETE FROM redrive.jobs_delayed d
        WHERE d.ctid = ANY (tids)
        RETURNING d.id, d.run_at, d.enqueued_at, d.attempt, d.max_attempts, d.generation, d.priority,
                  d.crashes, d.refunds, d.queue, d.kind, d.payload, d.history, d.unique_key,
                  d.outage_since, d.headers, d.group_key
    )
    INSERT INTO redrive.jobs
        (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
         refunds, queue, kind, payload, history, unique_key, outage_since, headers, group_key)
    SELECT CASE WHEN g.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                ELSE redrive.segment_of_waiting(g.queue, g.group_key, g.id, g.crashes) END, g.id, g.run_at, g.enqueued_at, g.attempt, g.max_attempts, g.generation,
           g.priority, g.crashes, g.refunds, g.queue, g.kind, g.payload, g.history, g.unique_key,
           g.outage_since, g.headers, g.group_key
    FROM gone g;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$$;
