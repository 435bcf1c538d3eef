-- Purpose: Workers, and the leases under which they hold jobs.

-- Returns the jobs of a lease, including settled ones, each with the attempt that the claim charged.
CREATE OR REPLACE FUNCTION redrive.jobs_of(lease redrive.leases) RETURNS SETOF redrive.job
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT (redrive.job_of(j.id, NULL, j.enqueued_at, NULL, lease.queue, j.kind, j.payload, j.meta, 1)).*
    -- In step; not in FROM, which would unpack each meta into its columns.
    FROM (
        SELECT unnest(lease.ids) AS id, unnest(lease.kinds) AS kind, unnest(lease.payloads) AS payload,
               unnest(lease.enqueued_at) AS enqueued_at, unnest(lease.metas) AS meta
    ) j;
END;

-- Returns the jobs of a lease with these ids, and perhaps others. If they are a few of many, it builds no others; for more, it
-- does not compare ids.
CREATE OR REPLACE FUNCTION redrive.some_jobs_of(lease redrive.leases, wanted bigint[]) RETURNS SETOF redrive.job
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT j.* FROM redrive.jobs_of(lease) j WHERE cardinality(wanted) * 8 < lease.job_count AND j.id = ANY (wanted)
    UNION ALL
    SELECT j.* FROM redrive.jobs_of(lease) j WHERE cardinality(wanted) * 8 >= lease.job_count;
END;

-- Returns the metas of claimed jobs as arrays, for a client that knows no composite types. Frees the keys of jobs that
-- hold them only until they start. The statement of the claim calls it, so no session sees a started job with such a key.
CREATE OR REPLACE FUNCTION redrive.start_jobs(ids bigint[], enqueued_at timestamptz[], metas redrive.job_meta[])
    RETURNS redrive.claimed_metas
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    arrays  redrive.claimed_metas;
    started bigint[];
BEGIN
    SELECT array_agg(coalesce((j.meta).ready_at, j.enqueued_at)), array_agg(coalesce((j.meta).priority, 0::smallint)),
           array_agg(coalesce((j.meta).attempt, 0) + 1), array_agg(coalesce((j.meta).max_attempts, 5)),
           array_agg(coalesce((j.meta).generation, 0)), array_agg(coalesce((j.meta).crashes, 0::smallint)),
           array_agg((j.meta).unique_key), array_agg((j.meta).outage_since), array_agg((j.meta).headers),
           array_agg((j.meta).group_key)
    INTO arrays
    FROM (SELECT unnest(start_jobs.enqueued_at) AS enqueued_at, unnest(start_jobs.metas) AS meta) j;
    IF array_remove(arrays.unique_keys, NULL) <> '{}' THEN
        started := ARRAY(
            SELECT j.id FROM unnest(start_jobs.ids, arrays.headers) AS j (id, headers)
            WHERE j.headers ->> 'redrive-unique-until' = 'started');
    END IF;
    IF started <> '{}' THEN
        DELETE FROM redrive.unique_keys k WHERE k.job_id = ANY (started);
        arrays.unique_keys := ARRAY(
            SELECT CASE WHEN j.id <> ALL (started) THEN j.key END
            FROM unnest(start_jobs.ids, arrays.unique_keys) WITH ORDINALITY AS j (id, key, place)
            ORDER BY j.place);
    END IF;
    RETURN arrays;
END
$$;

-- Moves picked jobs, which the caller has locked, into leases and returns these. A lease can hold all of them if the
-- caller names one. If not, each segment has a lease, each job that must be alone has its own, and jobs after `max_bytes`
-- are left out. Of suspects, the first decides: it is the only one if it has at least `lonely_crashes`, or those that
-- have are left out.
--
-- It deletes by an array of ctids. A join with the partitioned parent costs a third more, and a join row by row looks up
-- the size of the table for each row. The order of the jobs is irrelevant, because later statements name jobs by id.
CREATE OR REPLACE FUNCTION redrive.lease_jobs(
    queue text, worker uuid, lease uuid, segments smallint[], tids tid[], bytes integer[], crashes smallint[],
    are_alone boolean[], max_bytes bigint, lonely_crashes integer
) RETURNS TABLE (
    lease_id uuid, ids bigint[], kinds text[], payloads json[], enqueued_at timestamptz[], started redrive.claimed_metas
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    first_crashes CONSTANT smallint := (array_remove(crashes, 0::smallint))[1];
BEGIN
    RETURN QUERY
    WITH planned AS (
        SELECT lease AS lease_id, segments[1] AS segment, tids
        WHERE lease IS NOT NULL
        UNION ALL
        SELECT gen_random_uuid(), u.segment, array_agg(u.tid)
        FROM (
            SELECT w.segment, w.tid, w.crashes, CASE WHEN w.is_alone THEN w.place END AS alone,
                   sum(w.bytes) OVER so_far - w.bytes AS bytes_before,
                   count(*) FILTER (WHERE w.crashes > 0) OVER so_far AS suspects
            FROM unnest(segments, tids, bytes, crashes, are_alone)
                WITH ORDINALITY AS w (segment, tid, bytes, crashes, is_alone, place)
            WHERE lease IS NULL
            WINDOW so_far AS (ORDER BY w.place ROWS UNBOUNDED PRECEDING)
        ) u
        WHERE u.bytes_before < max_bytes
            AND (u.crashes = 0
                OR CASE WHEN first_crashes >= lonely_crashes THEN u.suspects = 1 ELSE u.crashes < lonely_crashes END)
        GROUP BY u.segment, u.alone
    ),
    leased AS (
        INSERT INTO redrive.leases AS l (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, metas)
        SELECT c.lease_id, worker, lease_jobs.queue, t.*
        FROM planned c
        CROSS JOIN LATERAL (
            SELECT array_agg(j.id), array_agg(j.kind::text), array_agg(j.payload), array_agg(j.enqueued_at),
                   CASE WHEN count(j.meta) > 0 THEN array_agg(j.meta) END
            FROM redrive.take_jobs(c.segment, c.tids) j
        ) t
        RETURNING l.lease_id, l.job_count, l.ids, l.kinds, l.payloads, l.enqueued_at, l.metas
    ),
    counted AS (
        INSERT INTO redrive.metric_deltas (queue, keys, counts)
        SELECT lease_jobs.queue, '{claimed}', ARRAY[c.jobs]
        FROM (SELECT sum(l.job_count) AS jobs FROM leased l) c
        WHERE c.jobs > 0
    )
    SELECT l.lease_id, l.ids, l.kinds, l.payloads, l.enqueued_at,
           CASE WHEN l.metas IS NOT NULL THEN redrive.start_jobs(l.ids, l.enqueued_at, l.metas) END
    FROM leased l;
END
$$;

-- Returns the metas of a lease with further headers of some of its jobs. Headers beyond the limit are left out, because
-- they would keep the job from being stored anywhere else.
CREATE OR REPLACE FUNCTION redrive.with_headers(lease redrive.leases, ids bigint[], headers jsonb[]) RETURNS redrive.job_meta[]
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    metas redrive.job_meta[] := coalesce(lease.metas, array_fill(NULL::redrive.job_meta, ARRAY[lease.job_count]));
    place integer;
    all_of jsonb;
BEGIN
    FOR n IN 1..cardinality(ids) LOOP
        place := array_position(lease.ids, ids[n]);
        all_of := coalesce((metas[place]).headers, '{}') || with_headers.headers[n];
        IF octet_length(all_of::text) <= 65536 THEN
            metas[place].headers := all_of;
        END IF;
    END LOOP;
    RETURN metas;
END
$$;

-- Notifies the idle workers of a queue. This is a hint: polling finds the job too. Without an idle
-- worker it sends nothing, because committing a NOTIFY takes a lock shared by all databases.
CREATE OR REPLACE FUNCTION redrive.wake(queue text) RETURNS boolean
    -- An enqueue of one job would plan a function in SQL again each time.
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM pg_notify('redrive_ready', wake.queue)
    FROM redrive.workers w
    WHERE w.queue = wake.queue AND w.waiting AND w.expires_at > statement_timestamp()
    LIMIT 1;
    RETURN FOUND;
END
$$;

-- Returns whether none of these queues holds a live job: none ready, delayed or leased. All are read in one snapshot, because
-- the end of a job in one of them may add a job to another. Callers poll this while a
-- queue drains, so the settings below keep it from reading a long queue to find one row. The lock comes before
-- the snapshot, so that a job whose segment is truncated in between is found in its lease, and a lease that is
-- rewritten in between is found too.
CREATE OR REPLACE FUNCTION redrive.is_drained(queues text[]) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off
AS $$
BEGIN
    PERFORM redrive.require_read_committed('is_drained');
    LOCK TABLE redrive.jobs, redrive.leases IN ACCESS SHARE MODE;
    RETURN NOT EXISTS (SELECT FROM redrive.jobs j WHERE j.queue = ANY (is_drained.queues))
        AND NOT EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.queue = ANY (is_drained.queues))
        AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.queue = ANY (is_drained.queues));
END
$$;
