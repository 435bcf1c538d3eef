-- Records every change of a job's rows, by triggers in the transaction that makes it.
-- Uses the tables of redrive, but none of its functions.
CREATE SCHEMA chaos;

CREATE TABLE chaos.trace (
    seq          bigint  GENERATED ALWAYS AS IDENTITY,
    at           bigint  NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    began        bigint  NOT NULL DEFAULT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,
    tx           bigint  NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    process      text    NOT NULL DEFAULT current_setting('application_name'),
    job          bigint  NOT NULL,
    place        text  NOT NULL,
    change       text  NOT NULL,
    attempt      integer,
    max_attempts integer,
    generation   integer,
    crashes      integer,
    refunds      integer,
    lease        uuid,
    worker       uuid,
    state        text,
    cause        text,
    unique_key   text,
    due          bigint,
    -- Since when a ready job waits.
    ready_at     bigint,
    kind         text,
    priority     integer,
    payload      text,
    enqueued     bigint,
    headers      text,
    group_key    text,
    queue        text,
    is_waiting   boolean,
    is_archived  boolean
);

-- Written by transactional handlers, in the transaction that completes their job.
CREATE TABLE chaos.effects (job bigint NOT NULL, generation integer NOT NULL);

-- Returns microseconds since 1970.
CREATE FUNCTION chaos.micros(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
    RETURN (extract(epoch FROM at) * 1000000)::bigint;

-- Returns when a transaction committed that changed something at a time.
CREATE FUNCTION chaos.committed(tx bigint, at bigint) RETURNS bigint LANGUAGE sql
    RETURN coalesce(chaos.micros(pg_xact_commit_timestamp(tx::text::xid)), at);

-- A job that is ready or delayed. Only rows that come or change have a content.
CREATE FUNCTION chaos.trace_waiting() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r     record := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    m     redrive.job_meta := r.meta;
    place text := TG_ARGV[0];
    due   bigint := chaos.micros((to_jsonb(r) ->> 'run_at')::timestamptz);
BEGIN
    INSERT INTO chaos.trace (job, place, change, attempt, max_attempts, generation, crashes, refunds, unique_key, due,
                             kind, priority, payload, enqueued, headers, group_key, queue, is_waiting, ready_at)
    VALUES (r.id, place, CASE TG_OP WHEN 'DELETE' THEN 'o' WHEN 'INSERT' THEN 'i' ELSE 'e' END, coalesce(m.attempt, 0),
            coalesce(m.max_attempts, 5), coalesce(m.generation, 0), coalesce(m.crashes, 0), coalesce(m.refunds, 0), m.unique_key,
            due, CASE WHEN TG_OP <> 'DELETE' THEN r.kind END, coalesce(m.priority, 0), r.payload, chaos.micros(r.enqueued_at),
            m.headers, m.group_key, r.queue, TG_TABLE_NAME = 'jobs_waiting',
            CASE place WHEN 'r' THEN chaos.micros(coalesce(m.ready_at, r.enqueued_at)) END);
    RETURN NULL;
END
$$;
CREATE FUNCTION chaos.trace_lease() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    l      redrive.leases := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    was    redrive.leases := CASE TG_OP WHEN 'INSERT' THEN NEW ELSE OLD END;
    change text := CASE WHEN TG_OP = 'INSERT' THEN 'i' WHEN TG_ARGV[0] = 'checkpoints' THEN 'e' ELSE 'o' END;
BEGIN
    -- A compaction inserts the same rows again.
    IF current_query() LIKE '%redrive.compact()%' THEN
        RETURN NULL;
    END IF;
    INSERT INTO chaos.trace (job, place, change, attempt, max_attempts, generation, crashes, refunds, lease, worker,
                             unique_key, kind, priority, payload, enqueued, headers, group_key, queue)
    SELECT j.id, 'l', change, j.attempt, j.max_attempts, j.generation,
           j.crashes, j.refunds, l.lease_id, l.worker_id, (j.meta).unique_key,
           CASE WHEN change <> 'o' THEN j.kind END, j.priority, j.payload, chaos.micros(j.enqueued_at), (j.meta).headers,
           (j.meta).group_key, l.queue
    FROM redrive.jobs_of(l) j
    WHERE CASE change
        WHEN 'i' THEN true
        WHEN 'e' THEN j.id <> ALL (l.done) AND (j.meta).headers IS DISTINCT FROM
            (SELECT (o.meta).headers FROM redrive.jobs_of(was) o WHERE o.id = j.id)
        ELSE j.id <> ALL (was.done) AND (TG_OP = 'DELETE' OR j.id = ANY (l.done)) END;
    RETURN NULL;
END
$$;
CREATE FUNCTION chaos.trace_letter() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    d redrive.dead_letters := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    change text := CASE TG_OP WHEN 'DELETE' THEN 'o' WHEN 'INSERT' THEN 'i' ELSE 'u' END;
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.state = NEW.state AND OLD.generation = NEW.generation THEN
        IF ROW(OLD.kind, OLD.priority, OLD.payload::text, OLD.enqueued_at, OLD.headers, OLD.group_key, OLD.unique_key)
            IS NOT DISTINCT FROM ROW(NEW.kind, NEW.priority, NEW.payload::text, NEW.enqueued_at, NEW.headers, NEW.group_key,
                                     NEW.unique_key)
        THEN
            RETURN NULL;
        END IF;
        change := 'e';
    END IF;
    INSERT INTO chaos.trace (job, place, change, attempt, max_attempts, generation, crashes, state, cause, worker,
                             unique_key, kind, priority, payload, enqueued, headers, group_key, queue, is_archived)
    VALUES (d.id, 'x', change, d.attempts, d.max_attempts, d.generation, d.crashes, d.state, d.cause, d.worker_id,
            d.unique_key, d.kind, d.priority, d.payload, chaos.micros(d.enqueued_at), d.headers, d.group_key, d.queue,
            TG_OP <> 'UPDATE' AND EXISTS (SELECT FROM redrive.archived_letters a WHERE a.id = d.id));
    RETURN NULL;
END
$$;

-- A truncation loses the rows that are still in the segment.
CREATE FUNCTION chaos.trace_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO chaos.trace (job, place, change) SELECT id, ''r'', ''t'' FROM %I.%I',
                   TG_TABLE_SCHEMA, TG_TABLE_NAME);
    RETURN NULL;
END
$$;

CREATE TRIGGER chaos AFTER INSERT OR UPDATE OR DELETE ON redrive.jobs
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_waiting('r');
CREATE TRIGGER chaos AFTER INSERT OR UPDATE OR DELETE ON redrive.jobs_delayed
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_waiting('d');
CREATE TRIGGER chaos AFTER INSERT OR UPDATE OF done OR DELETE ON redrive.leases
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_lease('jobs');
-- A worker stores checkpoints.
CREATE TRIGGER chaos_content AFTER UPDATE OF metas ON redrive.leases
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_lease('checkpoints');
-- Fires after redrive's triggers, which may still change the state.
CREATE TRIGGER zz_chaos AFTER INSERT OR UPDATE OR DELETE ON redrive.dead_letters
    FOR EACH ROW EXECUTE FUNCTION chaos.trace_letter();
DO $$
DECLARE
    segment regclass;
BEGIN
    FOR segment IN SELECT i.inhrelid::regclass FROM pg_inherits i WHERE i.inhparent = 'redrive.jobs'::regclass LOOP
        EXECUTE format('CREATE TRIGGER chaos_truncated BEFORE TRUNCATE ON %s '
                       'FOR EACH STATEMENT EXECUTE FUNCTION chaos.trace_truncate()', segment);
    END LOOP;
END
$$;
CREATE TRIGGER chaos_truncated BEFORE TRUNCATE ON redrive.jobs_delayed
    FOR EACH STATEMENT EXECUTE FUNCTION chaos.trace_truncate();
