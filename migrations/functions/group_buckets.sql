-- Purpose: The tokens of groups, under a rate limit of each group.

-- Takes a token of its group for each of these jobs, in the order of their ids while there are tokens. A bucket that
-- another session has locked grants none. Returns a row per job: whether it has a token; the microseconds from the
-- start of the statement within which it must start then (NULL: there is no limit any more); and, without a token,
-- those until its group may have one.
--
-- Times are rounded up to microseconds, in favour of the limit; two are left out of the time for the start, because a
-- sum of rounded times may exceed the capacity by as much.
CREATE OR REPLACE FUNCTION redrive.take_group_tokens(queue text, group_keys text[], job_ids bigint[])
    RETURNS TABLE (job_id bigint, is_granted boolean, start_us bigint, wait_us bigint)
    LANGUAGE plpgsql VOLATILE STRICT
    SET enable_seqscan = off
AS $$
DECLARE
    us       CONSTANT interval    := '1 microsecond';
    now      CONSTANT timestamptz := clock_timestamp();
    a_limit  redrive.rate_limits;
    refill   double precision;
    capacity double precision;
BEGIN
    SELECT l.* INTO a_limit FROM redrive.rate_limits l WHERE l.queue = take_group_tokens.queue AND l.each_group;
    IF NOT FOUND THEN
        RETURN QUERY SELECT j.id, true, NULL::bigint, 0::bigint FROM unnest(job_ids) AS j (id);
        RETURN;
    END IF;
    refill := redrive.token_refill(a_limit);
    capacity := redrive.token_capacity(a_limit);
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT w.key, w.id, row_number() OVER (PARTITION BY w.key ORDER BY w.id) AS nth
        FROM unnest(group_keys, job_ids) AS w (key, id)
    ),
    locked AS MATERIALIZED (
        SELECT b.group_key::text AS key, greatest(0, extract(epoch FROM b.full_at - now)) AS missing
        FROM redrive.group_buckets b
        WHERE b.queue = take_group_tokens.queue AND b.group_key = ANY (group_keys)
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    counted AS MATERIALIZED (
        SELECT w.key, w.jobs, k.missing, floor(capacity - refill * coalesce(k.missing, 0) + 1e-9)::bigint AS tokens
        FROM (SELECT v.key, count(*) AS jobs FROM wanted v GROUP BY v.key) w
        LEFT JOIN locked k ON k.key = w.key
        WHERE k.key IS NOT NULL OR NOT EXISTS (
            SELECT FROM redrive.group_buckets b WHERE b.queue = take_group_tokens.queue AND b.group_key = w.key)
    ),
    charged AS (
        INSERT INTO redrive.group_buckets AS b (queue, group_key, full_at)
        SELECT take_group_tokens.queue, c.key, now + ceil(least(c.jobs, c.tokens) / refill * 1e6) * us
        FROM counted c
        WHERE c.tokens > 0
        -- In a fixed order, so that two claims cannot deadlock.
        ORDER BY c.key
        ON CONFLICT ON CONSTRAINT group_buckets_pkey DO UPDATE
        SET full_at = greatest(b.full_at, now) + (excluded.full_at - now)
        WHERE greatest(b.full_at, now) + (excluded.full_at - now) <= now + (ceil(capacity / refill * 1e6) + 1) * us
        RETURNING b.group_key::text AS key
    )
    SELECT w.id, w.nth <= c.tokens AND h.key IS NOT NULL,
           -- The clock may have been set back meanwhile.
           floor(1e6 * (greatest(0, extract(epoch FROM now - statement_timestamp())) + redrive.token_hold(a_limit)))::bigint - 2,
           CASE WHEN w.nth <= c.tokens AND h.key IS NOT NULL THEN 0
                -- Another session has the bucket.
                WHEN c.key IS NULL OR c.tokens > 0 AND h.key IS NULL THEN 20000
                ELSE greatest(20000, ceil((least(c.jobs, c.tokens) / refill + coalesce(c.missing, 0)
                                           - (capacity - 1) / refill) * 1e6)) END::bigint
    FROM wanted w
    LEFT JOIN counted c ON c.key = w.key
    LEFT JOIN charged h ON h.key = w.key;
END
$$;

-- Returns the tokens of the group that has the fewest, under a limit of each group.
CREATE OR REPLACE FUNCTION redrive.fewest_tokens(a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql VOLATILE
AS $$
    SELECT redrive.token_capacity(a_limit) - redrive.token_refill(a_limit) * greatest(0, extract(epoch FROM (
        SELECT max(b.full_at) FROM redrive.group_buckets b WHERE b.queue || '' = a_limit.queue) - clock_timestamp())::double precision)
$$;

-- Deletes up to `max_rows` buckets that are full. Returns their number.
CREATE OR REPLACE FUNCTION redrive.forget_full_buckets(max_rows integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET enable_seqscan = off
AS $$
DECLARE
    gone bigint;
BEGIN
    DELETE FROM redrive.group_buckets b
    WHERE b.ctid = ANY (ARRAY(
            SELECT f.tid
            FROM redrive.group_policies p
            CROSS JOIN LATERAL (
                SELECT k.ctid AS tid
                FROM redrive.group_buckets k
                WHERE k.queue || '' = p.queue AND k.full_at <= statement_timestamp()
                ORDER BY k.full_at
                LIMIT forget_full_buckets.max_rows
                FOR UPDATE SKIP LOCKED
            ) f
            LIMIT forget_full_buckets.max_rows));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END
$$;
