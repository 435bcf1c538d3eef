-- Purpose: Rate limits: how many jobs of a queue, of a kind or of each group may start within a time, in all processes
--          together.

-- Returns the seconds within which a job must start once it has a token.
CREATE OR REPLACE FUNCTION redrive.token_hold(a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    RETURN greatest(0.02, least(1, CASE a_limit.burst WHEN 1 THEN 0.05 ELSE 0.25 * a_limit.burst END / a_limit.rate));

-- Returns the tokens that the bucket of a limit gains per second.
CREATE OR REPLACE FUNCTION redrive.token_refill(a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    RETURN CASE a_limit.burst
        WHEN 1 THEN a_limit.rate / (1 + a_limit.rate * redrive.token_hold(a_limit))
        ELSE least(a_limit.rate, (a_limit.burst - 1) / redrive.token_hold(a_limit))
    END;

-- Returns the tokens that the bucket of a limit holds at most.
CREATE OR REPLACE FUNCTION redrive.token_capacity(a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    RETURN CASE a_limit.burst WHEN 1 THEN 1 ELSE a_limit.burst - redrive.token_refill(a_limit) * redrive.token_hold(a_limit) END;

-- Returns the tokens of a bucket now; none if it is missing. A clock that was set back adds none.
CREATE OR REPLACE FUNCTION redrive.tokens_now(bucket redrive.rate_buckets, a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql VOLATILE
    RETURN least(
        redrive.token_capacity(a_limit),
        coalesce(bucket.tokens + redrive.token_refill(a_limit)
            * greatest(0, extract(epoch FROM clock_timestamp() - bucket.counted_at)::double precision), 0));

-- Sets the rate limit of a queue, of a kind in it, or of each group: at most `starts` jobs start per `period`, in all
-- processes together. With a limit of each group, jobs with a group wait for it, also without a policy; jobs without a
-- group are not limited. After a quiet time, up to `burst` jobs start at once; NULL: as many as `starts`. Returns the id of the audit record.
CREATE OR REPLACE FUNCTION redrive.set_rate_limit(
    queue text, starts integer, period interval DEFAULT '1 second', burst integer DEFAULT NULL,
    kind text DEFAULT NULL, each_group boolean DEFAULT false, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    old redrive.rate_limits;
    new redrive.rate_limits;
BEGIN
    PERFORM redrive.check_name('queue', set_rate_limit.queue);
    PERFORM redrive.check_name('kind', coalesce(set_rate_limit.kind, '?'));
    PERFORM redrive.refuse(CASE
        WHEN redrive.flag_of('each_group', set_rate_limit.each_group) AND set_rate_limit.kind IS NOT NULL
            THEN 'a rate limit of each group has no kind'
        WHEN set_rate_limit.starts BETWEEN 1 AND 1000000 IS NOT TRUE THEN format(
            'the rate limit allows %s starts; it must allow 1 to 1000000; to stop all jobs, pause the queue',
            coalesce(set_rate_limit.starts::text, 'NULL'))
        WHEN set_rate_limit.period BETWEEN '1 millisecond' AND '31 days' IS NOT TRUE THEN format(
            'the period is %s; it must be from 1 millisecond to 31 days', coalesce(set_rate_limit.period::text, 'NULL'))
        WHEN set_rate_limit.burst NOT BETWEEN 1 AND 1000000
            THEN format('the burst is %s; it must be 1 to 1000000', set_rate_limit.burst)
    END);
    SELECT l.* INTO old FROM redrive.rate_limits l
    WHERE l.queue = set_rate_limit.queue AND l.kind = coalesce(set_rate_limit.kind, '')
        AND l.each_group = set_rate_limit.each_group
    FOR UPDATE;
    INSERT INTO redrive.rate_limits AS l (queue, kind, each_group, starts, period, burst, person, reason)
    VALUES (set_rate_limit.queue, coalesce(set_rate_limit.kind, ''), set_rate_limit.each_group, set_rate_limit.starts, set_rate_limit.period,
            coalesce(set_rate_limit.burst, set_rate_limit.starts), left(set_rate_limit.person, 200), left(set_rate_limit.reason, 1024))
    ON CONFLICT ON CONSTRAINT rate_limits_pkey DO UPDATE
    SET starts = excluded.starts, period = excluded.period, burst = excluded.burst, set_at = excluded.set_at,
        person = excluded.person, reason = excluded.reason
    RETURNING l.* INTO new;
    -- The tokens of a bucket remain, up to the new capacity, so that a change grants none.
    IF new.each_group THEN
        -- Workers look for jobs that wait if there is a row; it stays after the limit.
        INSERT INTO redrive.group_policies (queue, mode, job_limit, on_death) VALUES (new.queue, 'none', 1, 'continue')
        ON CONFLICT ON CONSTRAINT group_policies_pkey DO NOTHING;
        UPDATE redrive.group_buckets b
        SET full_at = clock_timestamp() + interval '1 microsecond' * ceil(1e6 / redrive.token_refill(new)
            * (redrive.token_capacity(new) - least(redrive.token_capacity(new), redrive.token_capacity(old)
                - redrive.token_refill(old) * greatest(0, extract(epoch FROM b.full_at - clock_timestamp())))))
        WHERE b.queue = new.queue AND b.full_at > clock_timestamp();
    ELSE
        INSERT INTO redrive.rate_buckets AS b (queue, kind, tokens)
        VALUES (new.queue, new.kind, redrive.token_capacity(new))
        ON CONFLICT ON CONSTRAINT rate_buckets_pkey DO UPDATE
        SET tokens = least(b.tokens, excluded.tokens);
    END IF;
    RETURN redrive.record_gate('set_rate_limit', set_rate_limit.person, set_rate_limit.reason, jsonb_build_object(
        'queue', new.queue, 'kind', set_rate_limit.kind, 'each_group', new.each_group, 'starts', new.starts,
        'period', new.period, 'burst', new.burst));
END
$$;

-- Removes the rate limit of a queue, of a kind in it, or of each group. Jobs that wait for their group are claimed under its
-- policy. Returns whether there was one.
CREATE OR REPLACE FUNCTION redrive.remove_rate_limit(
    queue text, kind text DEFAULT NULL, each_group boolean DEFAULT false, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    SELECT redrive.check_name('queue', $1), redrive.flag_of('each_group', $3);
    WITH gone AS (
        DELETE FROM redrive.rate_limits l
        WHERE l.queue = $1 AND l.kind = coalesce($2, '') AND l.each_group = $3
        RETURNING l.queue, l.kind, l.each_group
    ),
    of_groups AS (
        DELETE FROM redrive.group_buckets b USING gone g WHERE g.each_group AND b.queue = g.queue
    ),
    of_queue AS (
        DELETE FROM redrive.rate_buckets b USING gone g WHERE NOT g.each_group AND b.queue = g.queue AND b.kind = g.kind
    )
    SELECT count(redrive.record_gate('remove_rate_limit', $4, $5, jsonb_build_object(
        'queue', g.queue, 'kind', $2, 'each_group', g.each_group))) > 0
    FROM gone g;
$$;
