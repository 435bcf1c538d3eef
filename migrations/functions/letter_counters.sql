-- Purpose: Triggers that count letters, their deaths, redrives, recoveries and discards, and the end of a job in its
--          handler's transaction.

-- Triggers count letters once per statement, so that no caller can skip it, for the totals of their failure groups and for
-- the metrics. Counts letters that were added or removed.
CREATE OR REPLACE FUNCTION redrive.count_moved_letters() RETURNS trigger
    LANGUAGE plpgsql
AS $$
DECLARE
    sign CONSTANT integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    INSERT INTO redrive.letter_deltas (group_id, state, hour, letters, died_at, deaths)
    SELECT a.group_id, a.state, date_trunc('hour', a.died_at, 'UTC'), sign * count(*), max(a.died_at),
           coalesce(sum(a.deaths) FILTER (WHERE a.died_at IS NOT NULL), 0)
    FROM (
        SELECT m.group_id, m.state, m.deaths,
               -- The deaths of a letter from the archive were counted when it died.
               CASE WHEN sign > 0 AND m.events -> -1 ->> 'event' IS DISTINCT FROM 'restored' THEN m.died_at END AS died_at
        FROM moved m
    ) a
    GROUP BY 1, 2, 3;
    INSERT INTO redrive.metric_deltas (queue, keys, labels, buckets, counts, sums)
    SELECT c.queue, array_agg(c.key), array_agg(c.label), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT g.queue, x.key, x.label, x.bucket, sum(CASE x.key WHEN 'letters' THEN sign ELSE 1 END * g.count)::bigint AS count,
               sum(x.sum) AS sum
        FROM (
            SELECT a.queue::text AS queue, a.kind::text AS kind, a.state, a.cause,
                   left(a.error_class, 200) AS class, count(*) AS count, sum(a.attempts) AS attempts,
                   -- A value on a bound belongs below it, and both are whole numbers.
                   CASE WHEN a.cause <> 'captured' THEN width_bucket(a.attempts - 0.5::double precision, (
                       SELECT w.bounds FROM redrive.counter_keys w WHERE w.key = 'attempts_dead')) END AS bucket,
                   -- The deaths of a letter from the archive or from a file were counted where it died.
                   sign < 0 OR coalesce(a.events -> -1 ->> 'event' IN ('restored', 'imported'), false) AS is_old,
                   CASE WHEN a.cause = 'captured' THEN a.source END AS source
            FROM moved a
            GROUP BY 1, 2, 3, 4, 5, 8, 9, 10
        ) g
        CROSS JOIN LATERAL (VALUES
            ('letters', g.state, NULL::smallint, NULL::double precision),
            ('pruned', CASE WHEN sign < 0 THEN '' END, NULL, NULL),
            ('dead', g.cause, NULL, NULL),
            ('dead_kind', g.kind, NULL, NULL),
            ('dead_class', g.class, NULL, NULL),
            ('captured', g.source, NULL, NULL),
            ('attempts_dead', NULL, g.bucket::smallint, g.attempts::double precision)
        ) AS x (key, label, bucket, sum)
        WHERE (x.label IS NOT NULL OR x.bucket IS NOT NULL) AND (x.key IN ('letters', 'pruned') OR NOT g.is_old)
        GROUP BY 1, 2, 3, 4
    ) c
    GROUP BY 1;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION redrive.count_changed_letters() RETURNS trigger
    LANGUAGE plpgsql
    -- Whatever the caller turned off: a plan that must use it anyway costs so much that a sort seems as cheap as a hash.
    SET enable_seqscan = on
    SET enable_hashjoin = on
    SET enable_mergejoin = on
AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM became) THEN
        RETURN NULL;
    END IF;
    INSERT INTO redrive.letter_deltas (group_id, state, hour, letters, died_at, deaths)
    SELECT c.group_id, c.state, date_trunc('hour', c.at, 'UTC'), sum(c.letters), max(c.died_at), sum(c.deaths)
    FROM was
    -- A full join, because it can only be hashed or merged; see settle.sql. The condition below must not
    -- be strict: the planner would turn it into an inner join with nested loops.
    FULL JOIN became ON became.id = was.id
    CROSS JOIN LATERAL (SELECT CASE WHEN became.deaths > was.deaths THEN became.died_at END AS died_at,
        -- A letter that changes its group takes its last death along.
        CASE WHEN became.deaths = was.deaths AND became.group_id <> was.group_id THEN was.died_at END AS moved) d
    CROSS JOIN LATERAL (VALUES
        (was.group_id, was.state, -1, d.moved, NULL::timestamptz, -num_nonnulls(d.moved)),
        (became.group_id, became.state, 1, coalesce(d.died_at, d.moved), d.died_at,
         became.deaths - was.deaths + num_nonnulls(d.moved))
    ) AS c (group_id, state, letters, at, died_at, deaths)
    WHERE was.state IS DISTINCT FROM became.state OR was.deaths IS DISTINCT FROM became.deaths
        OR was.group_id IS DISTINCT FROM became.group_id
    GROUP BY 1, 2, 3;
    INSERT INTO redrive.metric_deltas (queue, keys, labels, buckets, counts, sums)
    SELECT c.queue, array_agg(c.key), array_agg(c.label), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT x.queue, x.key, x.label, x.bucket, sum(x.sign * g.count)::bigint AS count, sum(x.sum) AS sum
        FROM (
            SELECT was.queue::text AS old_queue, was.state AS old_state, became.queue::text AS queue,
                   became.state, became.kind::text AS kind, became.cause,
                   left(became.error_class, 200) AS class, became.deaths > was.deaths AS has_died,
                   -- As for those that were added.
                   width_bucket(became.attempts - 0.5::double precision, (
                       SELECT w.bounds FROM redrive.counter_keys w WHERE w.key = 'attempts_dead')) AS attempted,
                   width_bucket(date_part('epoch', moment - was.died_at), (
                       SELECT w.bounds FROM redrive.counter_keys w WHERE w.key = 'residence')) AS stayed,
                   CASE WHEN became.cause = 'captured' THEN became.source END AS source,
                   count(*) AS count, sum(became.attempts) AS attempts, sum(moment - was.died_at) AS age
            FROM was
            -- As above.
            FULL JOIN became ON became.id = was.id
            WHERE was.state IS DISTINCT FROM became.state OR was.deaths IS DISTINCT FROM became.deaths
                OR was.queue IS DISTINCT FROM became.queue
            GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        ) g
        CROSS JOIN LATERAL (VALUES
            (true, g.old_queue, 'letters', g.old_state, NULL::integer, -1, NULL::double precision),
            (true, g.queue, 'letters', g.state, NULL, 1, NULL),
            (g.has_died, g.queue, 'dead', g.cause, NULL, 1, NULL),
            (g.has_died, g.queue, 'dead_kind', g.kind, NULL, 1, NULL),
            (g.has_died, g.queue, 'dead_class', g.class, NULL, 1, NULL),
            (g.has_died AND g.cause = 'captured', g.queue, 'captured', g.source, NULL, 1, NULL),
            -- A captured failure is no death of a redriven job, and made no attempts. A job that an operator cancelled or
            -- that a letter of its group diverted did not fail again.
            (g.has_died AND g.cause NOT IN ('captured', 'manual', 'diverted'), g.queue, 'dead_again', NULL, NULL, 1, NULL),
            (g.has_died AND g.cause <> 'captured', g.queue, 'attempts_dead', NULL, g.attempted, 1, g.attempts::double precision),
            (g.state = 'recovered', g.queue, 'recovered', NULL, NULL, 1, NULL),
            (g.state = 'discarded', g.old_queue, 'discarded', NULL, NULL, 1, NULL),
            (g.state = 'redriving', g.old_queue, 'redriven', NULL, NULL, 1, NULL),
            (g.state = 'redriving', g.queue, 'returned', NULL, NULL, 1, NULL),
            (g.state IN ('redriving', 'discarded'), g.old_queue, 'residence',
             CASE g.state WHEN 'discarded' THEN 'discarded' ELSE 'redriven' END, g.stayed, 1,
             greatest(0, date_part('epoch', g.age)))
        ) AS x (happened, queue, key, label, bucket, sign, sum)
        WHERE x.happened
            AND (g.old_state <> g.state OR x.key IN ('letters', 'attempts_dead') OR x.key LIKE 'dead%')
        GROUP BY 1, 2, 3, 4
        HAVING sum(x.sign * g.count) <> 0
    ) c
    GROUP BY 1;
    RETURN NULL;
END
$$;

-- Settles a job as done in its handler's transaction, which began at `began`, so that the handler's writes and the end of
-- the job commit or roll back together. Returns the id of the transaction; NULL: the lease, which holds only this job, is
-- lost. A function keeps its plans on any connection; planning these statements costs more than running them.
-- Locks: the lease row, the letter of a redriven job, its unique key and its slot, until the commit, which follows.
-- Index: the primary keys of leases and dead_letters; unique_keys_by_job; group_slots_by_job.
CREATE OR REPLACE FUNCTION redrive.settle_own(
    lease uuid, job bigint, generation integer, is_unique boolean, has_group boolean, began timestamptz,
    keys text[], labels text[], buckets smallint[], counts bigint[], sums double precision[]) RETURNS text
    LANGUAGE plpgsql
    -- Pinned as on a worker's connection, because this may be a user's; see db/session.rs.
    SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    ended text;
BEGIN
    IF settle_own.began <> transaction_timestamp() THEN
        RAISE EXCEPTION 'redrive: the handler of job % ended its transaction with its own COMMIT or ROLLBACK', settle_own.job
            USING ERRCODE = 'invalid_transaction_termination';
    END IF;
    DELETE FROM redrive.leases l WHERE l.lease_id = settle_own.lease RETURNING l.queue INTO ended;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO redrive.metric_deltas (queue, keys, labels, buckets, counts, sums)
    VALUES (ended, settle_own.keys, settle_own.labels, settle_own.buckets, settle_own.counts, settle_own.sums);
    -- An update of no row runs the triggers too.
    IF settle_own.generation > 0 THEN
        -- The expression on the state rules out an index on it; see settle.sql.
        UPDATE redrive.dead_letters l
        SET state = 'recovered', changed_at = clock_timestamp()
        WHERE l.id = settle_own.job AND l.state || '' = 'redriving';
    END IF;
    IF settle_own.is_unique THEN
        DELETE FROM redrive.unique_keys k WHERE k.job_id = settle_own.job;
    END IF;
    IF settle_own.has_group THEN
        PERFORM redrive.free_slots(ARRAY[settle_own.job], '{}');
    END IF;
    RETURN pg_current_xact_id();
END
$$;
