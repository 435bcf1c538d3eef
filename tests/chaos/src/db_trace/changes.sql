-- Records every change of the small tables, as JSON: the row before it and the row after it. The views have what the
-- checker reads.
CREATE TABLE chaos.changes (
    -- In one sequence with the trace.
    seq      bigint NOT NULL DEFAULT nextval('chaos.trace_seq_seq'),
    at       bigint NOT NULL DEFAULT chaos.micros(clock_timestamp()),
    began    bigint NOT NULL DEFAULT chaos.micros(statement_timestamp()),
    tx       bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    process  text   NOT NULL DEFAULT current_setting('application_name'),
    relation text   NOT NULL,
    change   text   NOT NULL,
    o        jsonb,
    n        jsonb
);
CREATE INDEX ON chaos.changes (relation);

CREATE FUNCTION chaos.record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A compaction inserts the same rows again.
    IF current_query() NOT LIKE '%redrive.compact()%' THEN
        INSERT INTO chaos.changes (relation, change, o, n)
        VALUES (TG_TABLE_NAME, CASE TG_OP WHEN 'DELETE' THEN 'o' WHEN 'INSERT' THEN 'i' ELSE 'u' END,
                CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END);
    END IF;
    RETURN NULL;
END
$$;

DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY ARRAY['breakers', 'group_slots', 'schedule_ticks'] LOOP
        -- Fires after redrive's triggers, which may still change the row.
        EXECUTE format('CREATE TRIGGER zz_chaos_row AFTER INSERT OR UPDATE OR DELETE ON redrive.%I '
                       'FOR EACH ROW EXECUTE FUNCTION chaos.record()', relation);
    END LOOP;
END
$$;

CREATE TRIGGER zz_chaos_row AFTER INSERT OR UPDATE OF expires_at ON redrive.workers
    FOR EACH ROW EXECUTE FUNCTION chaos.record();

-- The renewals of the leases of workers.
CREATE VIEW chaos.renewals AS
SELECT c.seq, c.at, c.began, c.process, (c.n ->> 'worker_id')::uuid AS worker
FROM chaos.changes c
WHERE c.relation = 'workers' AND (c.o IS NULL OR c.o -> 'expires_at' <> c.n -> 'expires_at');

CREATE VIEW chaos.breakers AS
SELECT c.seq, c.at, c.began, c.tx, c.process, b.name, b.state, b.kinds, b.outages, b.probes,
    -- NULL: the breaker is closed, or an operator must close it.
    CASE WHEN isfinite(b.probe_at) THEN chaos.micros(b.probe_at) END AS probe_at
FROM chaos.changes c CROSS JOIN LATERAL jsonb_populate_record(NULL::redrive.breakers, c.n) b
WHERE c.relation = 'breakers' AND c.change <> 'o';

-- The turns of groups. One that passes from a job to another one ends and begins.
CREATE VIEW chaos.slots AS
SELECT c.seq, c.at, c.tx, c.process, s.job_id AS job, s.queue, s.group_key,
    CASE WHEN v.is_end THEN 'o' WHEN s.held_at IS NOT NULL THEN 'h' ELSE 'i' END AS change
FROM chaos.changes c
CROSS JOIN LATERAL (VALUES (c.o, true), (c.n, false)) AS v (r, is_end)
CROSS JOIN LATERAL jsonb_populate_record(NULL::redrive.group_slots, v.r) s
WHERE c.relation = 'group_slots' AND v.r IS NOT NULL
    AND (NOT v.is_end OR c.o -> 'job_id' IS DISTINCT FROM c.n -> 'job_id');

-- The library keeps only the latest ticks.
CREATE VIEW chaos.ticks AS
SELECT c.seq, c.at AS written, c.n ->> 'schedule' AS schedule, c.n ->> 'outcome' AS outcome,
    chaos.micros((c.n ->> 'tick_at')::timestamptz) AS at, (c.n ->> 'job_id')::bigint AS job, (c.n ->> 'ticks')::bigint AS ticks
FROM chaos.changes c
WHERE c.relation = 'schedule_ticks' AND c.change = 'i';
