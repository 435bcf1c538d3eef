-- Records every change of a breaker.
CREATE TABLE chaos.breakers (
    seq       bigint GENERATED ALWAYS AS IDENTITY,
    at        bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    began     bigint NOT NULL DEFAULT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,
    tx        bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    process   text   NOT NULL DEFAULT current_setting('application_name'),
    name      text   NOT NULL,
    state     text   NOT NULL,
    cause     text   NOT NULL,
    kinds     text[] NOT NULL,
    outages   bigint NOT NULL,
    openings  bigint NOT NULL,
    probes    bigint NOT NULL,
    prober    uuid,
    delay_ms  bigint NOT NULL,
    -- NULL: the breaker is closed, or an operator must close it.
    probe_at  bigint
);

CREATE FUNCTION chaos.trace_breaker() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.breakers (name, state, cause, kinds, outages, openings, probes, prober, delay_ms, probe_at)
    VALUES (NEW.name, NEW.state, NEW.cause, NEW.kinds, NEW.outages, NEW.openings, NEW.probes, NEW.prober, NEW.delay_ms,
            CASE WHEN isfinite(NEW.probe_at) THEN chaos.micros(NEW.probe_at) END);
    RETURN NULL;
END
$$;

CREATE TRIGGER chaos AFTER INSERT OR UPDATE ON redrive.breakers
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_breaker();
