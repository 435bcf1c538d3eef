-- Purpose: Takes and promotes jobs.

-- Deletes jobs of one segment, which the caller has locked, and returns what a lease holds of them. A claim calls this for
-- each segment that it found jobs in. Starting a DELETE for each of eight segments would cost a small claim half its time,
-- and returning whole rows costs a large one a tenth.
CREATE OR REPLACE FUNCTION redrive.take_jobs(segment smallint, tids tid[])
    RETURNS TABLE (id bigint, kind redrive.kind_text, payload json, enqueued_at timestamptz, meta redrive.job_meta)
    LANGUAGE plpgsql VOLATILE
AS $$
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

-- Moves up to `max_jobs` due jobs of a queue from jobs_delayed to jobs, the longest overdue first, and about 32 MiB at
-- most: a thousand of the largest jobs are too large for one statement. Returns their number; when the next job is due, in
-- milliseconds (NULL: not within `within_ms`); and when a call reads all due jobs next, if they start at a mark (NULL: each
-- call does). `failed_ms` is how long the calls before took that failed in a row.
--
-- While a transaction holds the xmin horizon, vacuum cannot remove the rows of promoted jobs, and a call that reads all
-- due jobs reads past them: 0.2 s for two million. After a slow call in a table of more than 16 MB, the queue therefore
-- has a mark, at which the calls of all processes start: when the last promoted job was due or, if nothing was left, 5 s
-- ago, so that a job whose transaction commits within that time is above it. A job can lie below the mark: its
-- transaction committed late, another session had locked it, or the clock was set back. In 5 % of the time, calls
-- therefore read all due jobs, and after a cheap one the mark is gone.
--
-- Locks: the jobs; those that another session has locked are skipped. At the end, the row of the mark.
-- Index: jobs_delayed_for_promote.
CREATE OR REPLACE FUNCTION redrive.promote(queue text, max_jobs bigint, within_ms bigint, failed_ms bigint DEFAULT 0)
    RETURNS TABLE (moved bigint, next_due_ms bigint, whole_in_ms bigint)
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off
AS $$
DECLARE
    began    CONSTANT timestamptz := clock_timestamp();
    settled  CONSTANT timestamptz := began - interval '5 seconds';
    is_large CONSTANT boolean     := pg_relation_size('redrive.jobs_delayed') > 16777216;
    mark     redrive.delayed_marks;
    is_whole boolean;
    is_full  boolean;
    tids     tid[];
    last_at  timestamptz;
    took     interval;
BEGIN
    SELECT m.* INTO mark FROM redrive.delayed_marks m WHERE m.queue = promote.queue;
    -- The clock was set back, or a call that started at the mark failed as well.
    IF mark.noted_at > began + interval '5 seconds' OR failed_ms >= 20000 THEN
        mark.run_at := NULL;
        mark.whole_at := NULL;
    END IF;
    -- After a call that took too long, the next one does not do the same.
    is_whole := NOT is_large OR failed_ms = 0 AND coalesce(mark.whole_at <= began, true);
    SELECT array_agg(f.tid) FILTER (WHERE f.fits), max(f.run_at) FILTER (WHERE f.fits),
           count(*) = max_jobs OR NOT bool_and(f.fits)
    INTO tids, last_at, is_full
    FROM (
        SELECT l.tid, l.run_at, sum(l.bytes) OVER (ROWS UNBOUNDED PRECEDING) - l.bytes < 33554432 AS fits
        FROM (
            SELECT d.ctid AS tid, d.run_at, d.id, pg_column_size(d.payload) + coalesce(pg_column_size(d.meta), 0) AS bytes
            FROM redrive.jobs_delayed d
            WHERE d.queue = promote.queue AND d.run_at <= statement_timestamp()
                AND d.run_at >= CASE WHEN is_whole THEN 'epoch' ELSE least(mark.run_at, settled) END
            ORDER BY d.run_at, d.id
            LIMIT max_jobs
            FOR UPDATE SKIP LOCKED
        ) l
    ) f;
    moved := CASE WHEN tids IS NULL THEN 0 ELSE redrive.make_ready(tids) END;
    next_due_ms := CASE WHEN is_full THEN 0 ELSE (
        SELECT greatest(0, extract(epoch FROM d.run_at - clock_timestamp()) * 1000)::bigint
        FROM redrive.jobs_delayed d
        WHERE d.queue = promote.queue AND d.run_at > statement_timestamp()
            AND d.run_at <= statement_timestamp() + within_ms * interval '1 millisecond'
        ORDER BY d.run_at
        LIMIT 1) END;
    took := clock_timestamp() - began;
    IF is_whole AND (NOT is_large OR took <= interval '5 milliseconds' + moved * interval '0.1 milliseconds') THEN
        DELETE FROM redrive.delayed_marks m WHERE m.queue = mark.queue;
        RETURN NEXT;
        RETURN;
    END IF;
    -- Soon after a failure, because perhaps the server was away.
    mark.whole_at := CASE
        WHEN is_whole THEN began + 20 * took
        WHEN mark.whole_at > began THEN mark.whole_at
        ELSE began + CASE WHEN mark.whole_at IS NULL THEN 2 ELSE 20 END * least(failed_ms, 20000) * interval '1 millisecond' END;
    IF is_whole OR failed_ms > 0 OR mark.noted_at BETWEEN settled AND began IS NOT TRUE THEN
        INSERT INTO redrive.delayed_marks AS m (queue, run_at, whole_at, noted_at)
        VALUES (promote.queue, CASE WHEN is_full THEN last_at ELSE settled END, mark.whole_at, began)
        ON CONFLICT ON CONSTRAINT delayed_marks_pkey DO UPDATE
        SET run_at = excluded.run_at, whole_at = excluded.whole_at, noted_at = excluded.noted_at;
        -- Without waiting, because the session of another queue may do the same.
        DELETE FROM redrive.delayed_marks m
        WHERE m.queue = ANY (ARRAY(
            SELECT o.queue
            FROM redrive.delayed_marks o
            WHERE o.noted_at < began - interval '1 day' AND o.queue <> promote.queue
            FOR UPDATE SKIP LOCKED));
    END IF;
    whole_in_ms := greatest(0, extract(epoch FROM mark.whole_at - clock_timestamp()) * 1000);
    RETURN NEXT;
END
$$;
