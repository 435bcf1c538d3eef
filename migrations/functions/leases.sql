-- Purpose: Workers, and the leases under which they hold jobs.

-- Returns the jobs of a lease, including settled ones. A new column gets its place here, so that the statements
-- of older workers need not know it.
CREATE OR REPLACE FUNCTION redrive.jobs_of(lease redrive.leases) RETURNS SETOF redrive.jobs
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT j.id, NULL::timestamptz, j.enqueued_at, coalesce(j.attempt, 1), coalesce(j.max_attempts, 5),
           coalesce(j.generation, 0), NULL::smallint, coalesce(j.priority, 0::smallint), coalesce(j.crashes, 0::smallint),
           coalesce(j.refunds, 0::smallint), lease.queue::redrive.short_text, j.kind, j.payload, j.history, j.unique_key,
           j.outage_since, j.headers, j.group_key
    FROM unnest(lease.ids, lease.kinds, lease.payloads, lease.enqueued_at, lease.priorities, lease.attempts,
                lease.max_attempts, lease.generations, lease.crashes, lease.refunds, lease.histories,
                lease.unique_keys, lease.outages_since, lease.headers, lease.group_keys)
        AS j (id, kind, payload, enqueued_at, priority, attempt, max_attempts, generation, crashes, refunds, history,
              unique_key, outage_since, headers, group_key);
END;

-- Returns the jobs of a lease with these ids, and perhaps others. For a few of many jobs, it does not unpack
-- the others. A subscript walks over the elements before it, so for many jobs that would take longer.
CREATE OR REPLACE FUNCTION redrive.some_jobs_of(lease redrive.leases, wanted bigint[]) RETURNS SETOF redrive.jobs
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT p.id, NULL::timestamptz, lease.enqueued_at[p.n], coalesce(lease.attempts[p.n], 1),
           coalesce(lease.max_attempts[p.n], 5), coalesce(lease.generations[p.n], 0), NULL::smallint,
           coalesce(lease.priorities[p.n], 0::smallint), coalesce(lease.crashes[p.n], 0::smallint),
           coalesce(lease.refunds[p.n], 0::smallint), lease.queue::redrive.short_text, lease.kinds[p.n],
           lease.payloads[p.n], lease.histories[p.n], lease.unique_keys[p.n], lease.outages_since[p.n],
           lease.headers[p.n], lease.group_keys[p.n]
    FROM (SELECT i.id, i.n::integer AS n FROM unnest(lease.ids) WITH ORDINALITY AS i (id, n)) p
    WHERE cardinality(wanted) * 8 < lease.job_count AND p.id = ANY (wanted)
    UNION ALL
    SELECT j.*
    FROM redrive.jobs_of(lease) j
    WHERE cardinality(wanted) * 8 >= lease.job_count;
END;

-- Notifies the idle workers of a queue. This is a hint: polling finds the job too. Without an idle
-- worker it sends nothing, because committing a NOTIFY takes a lock shared by all databases.
CREATE OR REPLACE FUNCTION redrive.wake(queue text) RETURNS boolean
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_notify('redrive_ready', wake.queue) IS NOT NULL
    FROM redrive.workers w
    WHERE w.queue = wake.queue AND w.waiting AND w.expires_at > statement_timestamp()
    LIMIT 1
$$;

-- Returns whether a queue holds no live job: none ready, delayed or leased. Callers poll this while a
-- queue drains, so the settings below keep it from reading a long queue to find one row. The lock comes before
-- the snapshot, so that a job whose segment is truncated in between is found in its lease, and a lease that is
-- rewritten in between is found too.
CREATE OR REPLACE FUNCTION redrive.is_drained(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
AS $$
BEGIN
    PERFORM redrive.require_read_committed('is_drained');
    LOCK TABLE redrive.jobs, redrive.leases IN ACCESS SHARE MODE;
    RETURN NOT EXISTS (SELECT FROM redrive.jobs j WHERE j.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.queue = is_drained.queue);
END
$$;
