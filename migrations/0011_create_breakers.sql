-- Purpose: breakers: while something that jobs need is down, nobody claims them.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: yes, they claim on.
-- breaking: no

-- One row a breaker that was ever open. It gates claims and nothing else: jobs stay ready, no
-- attempt is charged, and letters are written as ever.
--   `open`       nobody claims the jobs concerned until `probe_at`;
--   `half_open`  from then on one process has the right to one of them, the probe, until the next
--                `probe_at`, so that a prober that is gone is replaced; `probes` is its fence;
--   `closed`     all is well: the probe met no outage.
CREATE TABLE redrive.breakers (
    name       text        COLLATE "C" NOT NULL PRIMARY KEY,
    state      text        COLLATE "C" NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    why        text        COLLATE "C" NOT NULL CHECK (why IN ('outage', 'flood', 'operator')),
    message    text,
    kinds      text[]      COLLATE "C" NOT NULL DEFAULT '{}',
    outages    bigint      NOT NULL DEFAULT 0 CHECK (outages >= 0),
    openings   bigint      NOT NULL DEFAULT 1 CHECK (openings > 0),
    probes     bigint      NOT NULL DEFAULT 0 CHECK (probes >= 0),
    prober     uuid,
    delay_ms   bigint      NOT NULL CHECK (delay_ms > 0),
    opened_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    probe_at   timestamptz,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT breakers_have_a_name
        CHECK (length(name) BETWEEN 1 AND 106 AND name = btrim(name) AND name !~ '[[:cntrl:]]'),
    CONSTRAINT breakers_probe_unless_closed CHECK ((state = 'closed') = (probe_at IS NULL))
) WITH (fillfactor = 50);

COMMENT ON TABLE redrive.breakers IS 'What is down, or was: while a breaker is not closed, the jobs concerned are not claimed.';
COMMENT ON COLUMN redrive.breakers.name IS 'A dependency, as handlers name it; or `queue:` and the name of a queue, all of whose jobs are concerned.';
COMMENT ON COLUMN redrive.breakers.why IS 'outage: handlers said so; flood: a worker wrote too many letters; operator: somebody opened it.';
COMMENT ON COLUMN redrive.breakers.kinds IS 'The kinds that wait for this dependency, as far as workers told; empty for a queue.';
COMMENT ON COLUMN redrive.breakers.outages IS 'Outages in a row that count: those that opened it, and the probes since.';
COMMENT ON COLUMN redrive.breakers.delay_ms IS 'The wait before a probe; it doubles with each that meets an outage.';
COMMENT ON COLUMN redrive.breakers.probe_at IS 'When the next probe may begin; infinity: somebody has to close it.';

-- Raises a clear error for a name that no breaker can have.
CREATE FUNCTION redrive.check_breaker_name(name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF name LIKE 'queue:%' THEN
        PERFORM redrive.check_name('queue', substr(name, 7));
    ELSE
        PERFORM redrive.check_name('dependency', name);
    END IF;
END
$$;

-- Opens a breaker by hand: a pause. For so long, then a probe decides; NULL: until it is closed.
-- Answers the id of the act in the audit.
CREATE FUNCTION redrive.open_breaker(
    name text, lasting interval DEFAULT NULL, person text DEFAULT NULL, why text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM redrive.check_breaker_name(open_breaker.name);
    IF open_breaker.lasting <= '0' OR open_breaker.lasting > '3650 days' THEN
        RAISE EXCEPTION 'redrive: % is not a time from now to 3650 days', open_breaker.lasting
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.breakers AS b (name, state, why, message, delay_ms, probe_at)
    VALUES (open_breaker.name, 'open', 'operator', left(open_breaker.why, 1024), 1000,
            coalesce(clock_timestamp() + open_breaker.lasting, 'infinity'))
    ON CONFLICT ON CONSTRAINT breakers_pkey DO UPDATE
    SET state = 'open', why = 'operator', message = excluded.message, delay_ms = excluded.delay_ms,
        openings = b.openings + CASE b.state WHEN 'closed' THEN 1 ELSE 0 END,
        outages = CASE b.state WHEN 'closed' THEN 0 ELSE b.outages END, prober = NULL,
        opened_at = CASE b.state WHEN 'closed' THEN excluded.opened_at ELSE b.opened_at END,
        probe_at = excluded.probe_at, changed_at = clock_timestamp();
    PERFORM pg_notify('redrive_breaker', open_breaker.name);
    RETURN redrive.record_act('open_breaker', open_breaker.person, open_breaker.why, NULL, 0,
        jsonb_build_object('breaker', open_breaker.name, 'lasting', open_breaker.lasting));
END
$$;

-- Closes a breaker by hand, whoever opened it. Answers whether it was open.
CREATE FUNCTION redrive.close_breaker(name text, person text DEFAULT NULL, why text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM redrive.check_breaker_name(close_breaker.name);
    UPDATE redrive.breakers b
    SET state = 'closed', probe_at = NULL, prober = NULL, changed_at = clock_timestamp()
    WHERE b.name = close_breaker.name AND b.state <> 'closed';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('close_breaker', close_breaker.person, close_breaker.why, NULL, 0,
        jsonb_build_object('breaker', close_breaker.name));
    PERFORM pg_notify('redrive_breaker', close_breaker.name);
    RETURN true;
END
$$;

-- Whether nobody claims jobs of this queue and kind right now; what acts on letters may ask, so as
-- not to send them into an outage.
CREATE FUNCTION redrive.is_gated(queue text, kind text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (
        SELECT FROM redrive.breakers b
        WHERE b.state <> 'closed'
            AND (b.name = 'queue:' || is_gated.queue
                 OR (b.name NOT LIKE 'queue:%' AND is_gated.kind = ANY (b.kinds))))
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
