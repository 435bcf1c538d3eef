-- Records which columns of jobs and leases are updated. Most changes delete a row and insert another one.
CREATE TABLE chaos.updates (
    seq     bigint GENERATED ALWAYS AS IDENTITY,
    at      bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    process text   NOT NULL DEFAULT current_setting('application_name'),
    relation text  NOT NULL,
    job     bigint,
    changed text[] NOT NULL
);

CREATE FUNCTION chaos.trace_update() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    n jsonb := to_jsonb(NEW);
    o jsonb := to_jsonb(OLD);
BEGIN
    INSERT INTO chaos.updates (relation, job, changed)
    VALUES (TG_ARGV[0], coalesce((n ->> 'id')::bigint, (n -> 'ids' ->> 0)::bigint), ARRAY(
        SELECT e.key FROM jsonb_each(n) e WHERE e.value IS DISTINCT FROM o -> e.key ORDER BY e.key));
    RETURN NULL;
END
$$;

CREATE TRIGGER chaos_update AFTER UPDATE ON redrive.jobs
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_update('jobs');
CREATE TRIGGER chaos_update AFTER UPDATE ON redrive.jobs_delayed
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_update('jobs_delayed');
CREATE TRIGGER chaos_update AFTER UPDATE ON redrive.leases
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_update('leases');
