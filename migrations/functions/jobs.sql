-- Purpose: Takes and promotes jobs.

-- Deletes jobs of one segment, which the caller has locked, and returns what a lease holds of them. A claim calls this for
-- each segment that it found jobs in. Starting a DELETE for each of eight segments would cost a small claim half its time,
-- and returning whole rows costs a large one a tenth.
CREATE OR REPLACE FUNCTION redrive.take_jobs(segment smallint, tids tid[])
    RETURNS TABLE (id bigint, kind redrive.kind_text, payload json, enqueued_at timestamptz, meta redrive.job_meta)
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    CASE segment
        WHEN 0 THEN RETURN QUERY DELETE FROM redrive.jobs_0 j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
        WHEN 1 THEN RETURN QUERY DELETE FROM redrive.jobs_1 j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
        WHEN 2 THEN RETURN QUERY DELETE FROM redrive.jobs_2 j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
        WHEN 3 THEN RETURN QUERY DELETE FROM redrive.jobs_3 j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
        WHEN 4 THEN RETURN QUERY DELETE FROM redrive.jobs_4 j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
        WHEN 5 THEN RETURN QUERY DELETE FROM redrive.jobs_5 j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
        WHEN 6 THEN RETURN QUERY DELETE FROM redrive.jobs_6 j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
        WHEN 7 THEN RETURN QUERY DELETE FROM redrive.jobs_7 j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
        WHEN 8 THEN RETURN QUERY DELETE FROM redrive.jobs_waiting j WHERE j.ctid = ANY (tids)
            RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta;
    END CASE;
END
$$;

-- Makes delayed jobs ready, which the caller has locked. Returns how many. They are deleted by ctid, because a join
-- planned on an empty table would run nested loops over the whole table.
CREATE OR REPLACE FUNCTION redrive.make_ready(tids tid[]) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    jobs redrive.job[];
BEGIN
    WITH gone AS (
        DELETE FROM redrive.jobs_delayed d
        WHERE d.ctid = ANY (tids)
        RETURNING redrive.delayed_job(d) AS job
    )
    SELECT array_agg(g.job) INTO jobs FROM gone g;
    PERFORM redrive.requeue(jobs, '{}', false);
    RETURN coalesce(cardinality(jobs), 0);
END
$$;
