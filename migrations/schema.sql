-- The schema as the migrations create it, dumped from PostgreSQL 15. A test keeps it
-- up to date; see README.md. Do not edit it.

-- Name: redrive; Type: SCHEMA; Schema: -; Owner: -

CREATE SCHEMA redrive;

-- Name: SCHEMA redrive; Type: COMMENT; Schema: -; Owner: -

COMMENT ON SCHEMA redrive IS 'redrive: jobs, leases and dead letters';

-- Name: attempt_limit; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.attempt_limit AS integer
    CONSTRAINT attempt_limit_check CHECK (((VALUE >= 1) AND (VALUE <= 1000)));

-- Name: counter; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.counter AS integer
    CONSTRAINT counter_check CHECK ((VALUE >= 0));

-- Name: group_key; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.group_key AS text COLLATE pg_catalog."C"
    CONSTRAINT group_key_check CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 200)));

-- Name: headers; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.headers AS jsonb
    CONSTRAINT headers_check CHECK (((jsonb_typeof(VALUE) = 'object'::text) AND (octet_length((VALUE)::text) <= 65536)));

-- Name: leased_job; Type: TYPE; Schema: redrive; Owner: -

CREATE TYPE redrive.leased_job AS (
    id bigint,
    kind text,
    priority smallint,
    payload json,
    attempt integer,
    max_attempts integer,
    generation integer,
    crashes smallint,
    refunds smallint,
    enqueued_at timestamp with time zone,
    history jsonb,
    unique_key text,
    outage_since timestamp with time zone,
    headers jsonb,
    group_key text
);

-- Name: metric_tally; Type: TYPE; Schema: redrive; Owner: -

CREATE TYPE redrive.metric_tally AS (
    queue text,
    key text,
    label text,
    cause text,
    bucket smallint,
    count bigint,
    sum double precision,
    first_at timestamp with time zone,
    last_at timestamp with time zone
);

-- Name: name; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.name AS text COLLATE pg_catalog."C"
    CONSTRAINT name_check CHECK ((((length(VALUE) >= 1) AND (length(VALUE) <= 100)) AND (VALUE = btrim(VALUE)) AND (VALUE !~ '[[:cntrl:]]'::text)));

-- Name: priority; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.priority AS smallint
    CONSTRAINT priority_check CHECK (((VALUE >= '-1000'::integer) AND (VALUE <= 1000)));

-- Name: run_time; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.run_time AS timestamp with time zone
    CONSTRAINT run_time_check CHECK (((VALUE > '2000-01-01 00:00:00+00'::timestamp with time zone) AND (VALUE < '3000-01-01 00:00:00+00'::timestamp with time zone)));

-- Name: short_text; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.short_text AS text COLLATE pg_catalog."C"
    CONSTRAINT short_text_check CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 100)));

-- Name: small_counter; Type: DOMAIN; Schema: redrive; Owner: -

CREATE DOMAIN redrive.small_counter AS smallint
    CONSTRAINT small_counter_check CHECK ((VALUE >= 0));

-- Name: waiting_job; Type: TYPE; Schema: redrive; Owner: -

CREATE TYPE redrive.waiting_job AS (
    place jsonb,
    id bigint,
    run_at timestamp with time zone,
    enqueued_at timestamp with time zone,
    attempt integer,
    max_attempts integer,
    generation integer,
    priority smallint,
    crashes smallint,
    refunds smallint,
    queue text,
    kind text,
    payload json,
    history jsonb,
    unique_key text,
    outage_since timestamp with time zone,
    headers jsonb,
    group_key text
);

-- Name: history_before(jsonb, jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.history_before(history jsonb, attempt jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    words CONSTANT text[] := '{generation,outcome,error_class,error_message,worker,host,version,pid}';
    facts CONSTANT text[] := '{attempt,run_ms,ended_at}';
    last jsonb := history -> -1;
BEGIN
    IF last IS NULL THEN
        RETURN '[]';
    END IF;
    IF NOT last ?& words THEN
        last := (SELECT coalesce(jsonb_object_agg(w, NULL), '{}') FROM unnest(words) w WHERE attempt ? w) || last;
    END IF;
    last := last - ARRAY[
        CASE WHEN last -> 'generation' = attempt -> 'generation' THEN 'generation' END,
        CASE WHEN last -> 'outcome' = attempt -> 'outcome' THEN 'outcome' END,
        CASE WHEN last -> 'error_class' = attempt -> 'error_class' THEN 'error_class' END,
        CASE WHEN last -> 'error_message' = attempt -> 'error_message' THEN 'error_message' END,
        CASE WHEN last -> 'worker' = attempt -> 'worker' THEN 'worker' END,
        CASE WHEN last -> 'host' = attempt -> 'host' THEN 'host' END,
        CASE WHEN last -> 'version' = attempt -> 'version' THEN 'version' END,
        CASE WHEN last -> 'pid' = attempt -> 'pid' THEN 'pid' END];
    IF last ?& facts AND last - facts - 'outcome' = '{}' THEN
        last := jsonb_build_array(last -> 'attempt', last -> 'run_ms', to_char(
            (last ->> 'ended_at')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
            || CASE WHEN last ? 'outcome' THEN jsonb_build_array(last -> 'outcome') ELSE '[]' END;
    END IF;
    RETURN redrive.cut_history((history - -1) || jsonb_build_array(last), 19);
END
$$;

-- Name: add_attempt(jsonb, jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.add_attempt(history jsonb, attempt jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT (redrive.history_before(history, attempt) || jsonb_build_array(attempt));
END;

-- Name: add_counts(bigint[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.add_counts(one bigint[], other bigint[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN (other IS NULL) THEN one
             WHEN (one IS NULL) THEN other
             ELSE ( SELECT array_agg((COALESCE(b.one, (0)::bigint) + COALESCE(b.other, (0)::bigint)) ORDER BY b.place) AS array_agg
                FROM UNNEST(add_counts.one, add_counts.other) WITH ORDINALITY b(one, other, place))
         END AS array_agg;
END;

-- Name: add_event(jsonb, jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.add_event(events jsonb, event jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT (
         CASE
             WHEN (jsonb_array_length(events) < 50) THEN events
             ELSE (events - 5)
         END || event);
END;

-- Name: add_group_rule(bigint, text, bigint, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.add_group_rule(group_id bigint, action text, into_id bigint, pattern text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    missing bigint := (
        SELECT min(n.id) FROM unnest(ARRAY[group_id, into_id]) AS n (id)
        WHERE NOT EXISTS (SELECT FROM redrive.groups g WHERE g.id = n.id));
    added bigint;
BEGIN
    IF group_id IS NULL OR missing IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: failure group % does not exist', coalesce(missing::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'redrive dlq groups lists the groups.';
    END IF;
    IF into_id = group_id OR EXISTS (
        WITH RECURSIVE way (id) AS (
            SELECT add_group_rule.into_id
            UNION
            SELECT r.into_id FROM way w JOIN redrive.group_rules r ON r.group_id = w.id AND r.action = 'merge'
        )
        SELECT FROM way w WHERE w.id = add_group_rule.group_id)
    THEN
        RAISE EXCEPTION 'redrive: group % cannot be merged into group %, which is the same group or is merged into it', group_id, into_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF action = 'error' THEN
        BEGIN
            PERFORM '' ~ pattern;
        EXCEPTION WHEN invalid_regular_expression THEN
            RAISE EXCEPTION 'redrive: % is not a regular expression: %', quote_literal(pattern), SQLERRM
                USING ERRCODE = 'invalid_parameter_value';
        END;
    END IF;
    IF EXISTS (
        SELECT FROM redrive.group_rules r
        WHERE r.group_id = add_group_rule.group_id AND r.action = add_group_rule.action
            AND r.pattern IS NOT DISTINCT FROM add_group_rule.pattern)
    THEN
        RAISE EXCEPTION 'redrive: group % has this rule already', group_id
            USING ERRCODE = 'invalid_parameter_value', HINT = 'redrive dlq groups rules list';
    END IF;
    INSERT INTO redrive.group_rules AS r (group_id, action, into_id, pattern, person, reason)
    VALUES (add_group_rule.group_id, add_group_rule.action, add_group_rule.into_id, add_group_rule.pattern,
            left(add_group_rule.person, 200), left(add_group_rule.reason, 1024))
    RETURNING r.id INTO added;
    PERFORM redrive.record_act(
        CASE add_group_rule.action WHEN 'merge' THEN 'merge_group' ELSE 'split_group' END,
        add_group_rule.person, add_group_rule.reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
            'rule', added, 'group', add_group_rule.group_id, 'into', add_group_rule.into_id,
            'by', nullif(add_group_rule.action, 'merge'), 'pattern', add_group_rule.pattern)));
    RETURN added;
END
$$;

-- Name: add_redaction(text, text, text[], text[], text, text, boolean); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.add_redaction(queue text, kind text, paths text[] DEFAULT '{}'::text[], patterns text[] DEFAULT '{}'::text[], person text DEFAULT NULL::text, reason text DEFAULT NULL::text, keep_types boolean DEFAULT false) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    added bigint;
BEGIN
    IF add_redaction.queue IS NOT NULL THEN
        PERFORM redrive.check_name('queue', add_redaction.queue);
    END IF;
    IF add_redaction.kind IS NOT NULL THEN
        PERFORM redrive.check_name('kind', add_redaction.kind);
    END IF;
    INSERT INTO redrive.redactions AS r (queue, kind, paths, patterns, keep_types)
    VALUES (add_redaction.queue, add_redaction.kind, coalesce(add_redaction.paths, '{}'),
            coalesce(add_redaction.patterns, '{}'), add_redaction.keep_types)
    RETURNING r.id INTO added;
    PERFORM redrive.record_act(
        'add_redaction', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
            'redaction', added, 'queue', add_redaction.queue, 'kind', add_redaction.kind,
            'paths', add_redaction.paths, 'patterns', add_redaction.patterns,
            'keep_types', nullif(add_redaction.keep_types, false))));
    RETURN added;
END
$$;

-- Name: add_to_events(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.add_to_events() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NEW.id IS NOT NULL OR NEW.status NOT IN ('PENDING', 'PROCESSING', 'SUCCEEDED', 'FAILED_PERMANENTLY') THEN
        RAISE EXCEPTION 'redrive: an INSERT into dlq_events needs a valid status and no id; redrive assigns the id'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The status is PENDING (default), PROCESSING, SUCCEEDED or FAILED_PERMANENTLY.';
    END IF;
    NEW.id := (SELECT c.id FROM redrive.capture(
        'dlq_events', gen_random_uuid()::text, 'dlq_events', NEW.event_type, convert_to(NEW.payload::text, 'UTF8'),
        error_message => NEW.error_reason, error_detail => NEW.error_stacktrace) c);
    UPDATE redrive.dead_letters l
    SET earlier_attempts = coalesce(NEW.retry_count, 0), died_at = least(NEW.created_at, l.died_at)
    WHERE l.id = NEW.id;
    IF NEW.status <> 'PENDING' OR NEW.retry_after > clock_timestamp() THEN
        PERFORM redrive.claim_event(NEW.id);
        IF NEW.status <> 'PROCESSING' THEN
            PERFORM redrive.settle_event(
                NEW.id, CASE NEW.status WHEN 'PENDING' THEN 'release' WHEN 'SUCCEEDED' THEN 'done' ELSE 'dead' END,
                NEW.retry_after, NEW.error_reason, NEW.error_stacktrace);
        END IF;
    END IF;
    RETURN NEW;
END
$$;

-- Name: age_jobs(text, bigint, integer, integer, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.age_jobs(queue text, waited_ms bigint, priority integer, after_rank integer, max_jobs bigint, OUT aged bigint, OUT rank integer) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_variable
DECLARE
    before  timestamptz := statement_timestamp() - waited_ms * interval '1 millisecond';
    is_due  boolean;
    last_id bigint;
    jobs    redrive.waiting_job[];
BEGIN
    SELECT f.rank, bool_or(f.ready_at < before), max(f.id) INTO rank, is_due, last_id
    FROM (
        SELECT (j.generation > 0)::integer - 2 * j.priority AS rank, j.id, j.ready_at FROM redrive.jobs j
        WHERE j.queue = age_jobs.queue AND j.segment < 8
            AND (j.generation > 0)::integer - 2 * j.priority > greatest(after_rank, -2 * age_jobs.priority)
        ORDER BY (j.generation > 0)::integer - 2 * j.priority, j.id
        LIMIT max_jobs
    ) f
    GROUP BY f.rank ORDER BY f.rank LIMIT 1;
    IF is_due THEN
        SELECT array_agg(ROW('{"state": "ready"}', j.id, j.ready_at, j.enqueued_at, j.attempt, j.max_attempts,
                   j.generation, age_jobs.priority + (j.generation > 0)::integer, j.crashes, j.refunds, j.queue, j.kind,
                   j.payload, j.history, j.unique_key, j.outage_since,
                   CASE WHEN octet_length(h.headers::text) <= 65536 THEN h.headers ELSE j.headers END,
                   j.group_key)::redrive.waiting_job)
        INTO jobs
        FROM (
            SELECT w.segment, array_agg(w.tid) AS tids
            FROM (
                SELECT k.segment, k.ctid AS tid FROM redrive.jobs k
                WHERE k.queue = age_jobs.queue AND k.segment < 8 AND (k.generation > 0)::integer - 2 * k.priority = rank
                    AND k.id <= last_id AND k.ready_at < before
                ORDER BY (k.generation > 0)::integer - 2 * k.priority, k.id
                FOR UPDATE SKIP LOCKED
            ) w GROUP BY w.segment
        ) s
        CROSS JOIN LATERAL redrive.take_jobs(s.segment, s.tids) j
        CROSS JOIN LATERAL (
            SELECT jsonb_build_object('redrive-priority', j.priority::text) || coalesce(j.headers, '{}')) AS h (headers);
        PERFORM redrive.put_back(jobs);
    END IF;
    aged := coalesce(cardinality(jobs), 0);
END
$$;

-- Name: apply_retention(bigint, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.apply_retention(max_letters bigint DEFAULT 5000, if_busy text DEFAULT 'wait'::text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    AS $$
DECLARE
    chosen record;
    moved  bigint;
    taken  bigint := 0;
BEGIN
    IF if_busy IN ('wait', 'skip') IS NOT TRUE THEN
        RAISE EXCEPTION 'redrive: if_busy must be wait or skip, not %', coalesce(if_busy, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT EXISTS (SELECT FROM redrive.retention) THEN
        RETURN 0;
    END IF;
    IF if_busy = 'skip' THEN
        PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'apply_retention' FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSE
        PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'apply_retention' FOR UPDATE;
    END IF;
    -- In random order, so that no queue is always last.
    FOR chosen IN SELECT r.* FROM redrive.retention_by_queue() r ORDER BY random() LOOP
        EXIT WHEN taken >= max_letters;
        moved := redrive.remove_letters(chosen.queue, chosen.state, chosen.keep, chosen.action, max_letters - taken);
        IF moved > 0 THEN
            PERFORM redrive.record_act(
                'apply_retention', person, reason, jsonb_build_object('queue', chosen.queue, 'state', chosen.state), moved,
                jsonb_build_object('rule', chosen.rule, 'action', chosen.action, 'keep', chosen.keep));
        END IF;
        taken := taken + moved;
    END LOOP;
    IF taken BETWEEN 1 AND max_letters - 1 THEN
        PERFORM redrive.prune_groups('90 days');
    END IF;
    RETURN taken;
END
$$;

-- Name: archive_event(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.archive_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF redrive.remove_event(NEW.id, 'archive') THEN
        RETURN NEW;
    ELSIF NEW.status = 'SUCCEEDED' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'redrive: event % is %; only closed events can be archived', NEW.id, NEW.status
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'redrive.discard closes a letter.';
END
$$;

-- Name: job_id; Type: SEQUENCE; Schema: redrive; Owner: -

CREATE SEQUENCE redrive.job_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

-- Name: dead_letters; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.dead_letters (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    queue redrive.name NOT NULL,
    kind redrive.name NOT NULL,
    state text DEFAULT 'open'::text NOT NULL COLLATE pg_catalog."C",
    cause text NOT NULL COLLATE pg_catalog."C",
    error_class text NOT NULL COLLATE pg_catalog."C",
    error_message text NOT NULL,
    error_detail text,
    payload jsonb,
    raw bytea,
    content_type text,
    headers redrive.headers,
    source text COLLATE pg_catalog."C",
    "position" text COLLATE pg_catalog."C",
    seen bigint DEFAULT 1 NOT NULL,
    priority smallint DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    earlier_attempts integer DEFAULT 0 NOT NULL,
    max_attempts integer DEFAULT 5 NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    crashes smallint DEFAULT 0 NOT NULL,
    history jsonb DEFAULT '[]'::jsonb NOT NULL,
    worker_id uuid,
    host text,
    version text,
    discard_reason text,
    enqueued_at timestamp with time zone NOT NULL,
    died_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    group_id bigint NOT NULL,
    detail_id bigint,
    pid integer,
    run_ms integer,
    deaths integer DEFAULT 1 NOT NULL,
    alike smallint DEFAULT 0 NOT NULL,
    edits integer DEFAULT 0 NOT NULL,
    events jsonb DEFAULT '[]'::jsonb NOT NULL,
    run_id bigint,
    run_ordinal bigint,
    policy_id bigint,
    unique_key text COLLATE pg_catalog."C",
    group_key redrive.group_key,
    audit_id bigint,
    redacted text[],
    failed_redrives smallint DEFAULT 0 NOT NULL,
    failure_key text COLLATE pg_catalog."C",
    CONSTRAINT dead_letters_alike_check CHECK ((alike >= 0)),
    CONSTRAINT dead_letters_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT dead_letters_captured_have_a_source CHECK ((((source IS NULL) = ("position" IS NULL)) AND ((cause <> 'captured'::text) OR (source IS NOT NULL)))),
    CONSTRAINT dead_letters_cause_check CHECK ((cause = ANY (ARRAY['exhausted'::text, 'rejected'::text, 'undecodable'::text, 'unhandled'::text, 'timeout'::text, 'worker_lost'::text, 'expired'::text, 'captured'::text, 'manual'::text, 'diverted'::text]))),
    CONSTRAINT dead_letters_crashes_check CHECK ((crashes >= 0)),
    CONSTRAINT dead_letters_deaths_check CHECK ((deaths > 0)),
    CONSTRAINT dead_letters_discarded_have_a_reason CHECK (((state = 'discarded'::text) = (discard_reason IS NOT NULL))),
    CONSTRAINT dead_letters_earlier_attempts_check CHECK ((earlier_attempts >= 0)),
    CONSTRAINT dead_letters_edits_check CHECK ((edits >= 0)),
    CONSTRAINT dead_letters_events_check CHECK ((jsonb_typeof(events) = 'array'::text)),
    CONSTRAINT dead_letters_failed_redrives_check CHECK ((failed_redrives >= 0)),
    CONSTRAINT dead_letters_failure_key_check CHECK (((octet_length(failure_key) >= 1) AND (octet_length(failure_key) <= 1024))),
    CONSTRAINT dead_letters_generation_check CHECK ((generation >= 0)),
    CONSTRAINT dead_letters_history_check CHECK ((jsonb_typeof(history) = 'array'::text)),
    CONSTRAINT dead_letters_keep_what_failed CHECK (((payload IS NOT NULL) OR (raw IS NOT NULL))),
    CONSTRAINT dead_letters_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT dead_letters_priority_check CHECK (((priority >= '-1000'::integer) AND (priority <= 1000))),
    CONSTRAINT dead_letters_run_ms_check CHECK ((run_ms >= 0)),
    CONSTRAINT dead_letters_seen_check CHECK ((seen > 0)),
    CONSTRAINT dead_letters_state_check CHECK ((state = ANY (ARRAY['open'::text, 'redriving'::text, 'recovered'::text, 'discarded'::text, 'quarantined'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_analyze_scale_factor='0.02');

-- Name: COLUMN dead_letters.cause; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.cause IS 'Why the job died last; captured: its source reported the failure.';

-- Name: COLUMN dead_letters.raw; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.raw IS 'The unchanged bytes of a captured failure; of more than 16 MiB, the first 64 KiB: captured_pieces has all.';

-- Name: COLUMN dead_letters.headers; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.headers IS 'The headers of the job or of a captured failure.';

-- Name: COLUMN dead_letters."position"; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters."position" IS 'Where in the source it was (topic, partition and offset; a delivery id).';

-- Name: COLUMN dead_letters.seen; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.seen IS 'How many times this position was captured while its job was not live.';

-- Name: COLUMN dead_letters.earlier_attempts; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.earlier_attempts IS 'Attempts of all earlier generations; `attempts` counts those of this one.';

-- Name: COLUMN dead_letters.history; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.history IS 'Attempts of all generations, the oldest and the newest. The last attempt is missing if run_ms is set.';

-- Name: COLUMN dead_letters.detail_id; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.detail_id IS 'The long detail, in redrive.details; error_detail is NULL then.';

-- Name: COLUMN dead_letters.run_ms; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.run_ms IS 'Duration of the fatal attempt, which the other columns describe; NULL: the history has it, or there was no attempt.';

-- Name: COLUMN dead_letters.alike; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.alike IS 'How many times in a row an operator redrove it and it died of the same error. At 3 it is quarantined.';

-- Name: COLUMN dead_letters.events; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.events IS 'Events between its deaths (died, edited, redriven, forced), the oldest and the newest.';

-- Name: COLUMN dead_letters.run_id; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.run_id IS 'The redrive run that redrove it last; NULL: none.';

-- Name: COLUMN dead_letters.policy_id; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.policy_id IS 'The policy that redrove it last; NULL: an operator did, or it was never redriven.';

-- Name: COLUMN dead_letters.unique_key; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.unique_key IS 'The unique key of its job. A letter does not hold the key: a redrive takes it again, or leaves the letter open.';

-- Name: COLUMN dead_letters.group_key; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.group_key IS 'The group key of its job; NULL: none.';

-- Name: COLUMN dead_letters.audit_id; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.audit_id IS 'The audit record of the operation that discarded, reopened, restored or edited it last since its last death; NULL: none.';

-- Name: COLUMN dead_letters.redacted; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.redacted IS 'JSON pointers of redacted payload values that no edit has replaced; an empty one: the captured bytes; NULL: none.';

-- Name: COLUMN dead_letters.failed_redrives; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.failed_redrives IS 'How many times an operator redrove it and it died again, of any error. At 10 it is quarantined.';

-- Name: COLUMN dead_letters.failure_key; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.dead_letters.failure_key IS 'The key that the handler gave to its failure group; NULL: the message decides.';

-- Name: archive_json(redrive.dead_letters, text, jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.archive_json(letter redrive.dead_letters, detail text, versions jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    whole redrive.dead_letters := letter;
    told  jsonb;
BEGIN
    -- Nulls inside of these are kept, and bytes are not written in the format of to_jsonb.
    letter.payload := NULL;
    letter.raw := NULL;
    letter.headers := NULL;
    letter.history := NULL;
    letter.run_ms := NULL;
    letter.events := NULL;
    letter.detail_id := NULL;
    letter.error_detail := coalesce(letter.error_detail, detail);
    told := jsonb_strip_nulls(to_jsonb(letter))
        || jsonb_build_object('history', redrive.full_history(whole), 'events', whole.events);
    IF whole.payload IS NOT NULL THEN
        told := told || jsonb_build_object('payload', whole.payload);
    END IF;
    IF whole.headers IS NOT NULL THEN
        told := told || jsonb_build_object('headers', whole.headers);
    END IF;
    IF whole.raw IS NOT NULL THEN
        told := told || jsonb_build_object('raw_base64', translate(encode(whole.raw, 'base64'), E'\n', ''));
    END IF;
    IF versions IS NOT NULL THEN
        told := told || jsonb_build_object('versions', versions);
    END IF;
    RETURN told;
END
$$;

-- Name: assign_group(bigint, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.assign_group(group_id bigint, owner text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE redrive.groups g
    SET owner = left(nullif(btrim(assign_group.owner), ''), 200)
    WHERE g.id = assign_group.group_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('assign_group', person, reason, NULL, 0,
        jsonb_build_object('group', assign_group.group_id, 'owner', left(assign_group.owner, 200)));
    RETURN true;
END
$$;

-- Name: audit_counters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.audit_counters() RETURNS TABLE(queue text, set text, rows bigint, total bigint, drift bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM redrive.require_read_committed('audit_counters');
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'audit_counters' FOR UPDATE;
    -- As in metric_totals; `jobs` and `leases` are truncated too.
    LOCK TABLE redrive.jobs, redrive.leases, redrive.metric_deltas, redrive.metric_values IN ACCESS SHARE MODE;
    DELETE FROM redrive.metric_drift;
    RETURN QUERY
    WITH counted AS (
        SELECT v.queue, v.key, v.label, v.value FROM redrive.metric_values v
        UNION ALL
        SELECT d.queue, u.key, coalesce(u.label, ''), u.count
        FROM redrive.metric_deltas d
        CROSS JOIN LATERAL unnest(d.keys, d.labels, d.counts) AS u (key, label, count)
    ),
    sides AS (
        SELECT j.queue::text AS queue, 'live' AS set, '' AS state, count(*) AS rows, 0::bigint AS total
        FROM redrive.jobs j GROUP BY 1
        UNION ALL
        SELECT d.queue, 'live', '', count(*), 0 FROM redrive.jobs_delayed d GROUP BY 1
        UNION ALL
        SELECT l.queue::text, 'live', '', sum(l.job_count - cardinality(l.done))::bigint, 0
        FROM redrive.leases l GROUP BY 1
        UNION ALL
        SELECT l.queue::text, 'dlq', l.state, count(*), 0 FROM redrive.dead_letters l GROUP BY 1, 3
        UNION ALL
        SELECT c.queue, 'live', '', 0,
               sum(CASE WHEN c.key IN ('enqueued', 'returned') THEN c.value ELSE -c.value END)::bigint
        FROM counted c
        WHERE c.key IN ('enqueued', 'returned', 'succeeded', 'ended')
        GROUP BY 1
        UNION ALL
        SELECT c.queue, 'dlq', c.label, 0, sum(c.value)::bigint
        FROM counted c
        WHERE c.key = 'letters'
        GROUP BY 1, 3
    ),
    by_state AS (
        SELECT coalesce(n.name, '__other__') AS queue, s.set, s.state,
               sum(s.rows)::bigint AS rows, sum(s.total)::bigint AS total
        FROM sides s
        LEFT JOIN redrive.metric_slots n ON n.label = 'queue' AND n.queue = '' AND n.name = s.queue
        GROUP BY 1, 2, 3
    ),
    found AS (
        INSERT INTO redrive.metric_drift (queue, set, rows, total, drift)
        SELECT b.queue, b.set, sum(b.rows), sum(b.total),
               CASE WHEN sum(b.rows) = sum(b.total) THEN sum(abs(b.rows - b.total))
                    ELSE sum(b.rows) - sum(b.total) END
        FROM by_state b
        GROUP BY 1, 2
        RETURNING metric_drift.queue, metric_drift.set, metric_drift.rows, metric_drift.total, metric_drift.drift
    )
    SELECT f.queue, f.set, f.rows, f.total, f.drift FROM found f ORDER BY 1, 2 DESC;
END
$$;

-- Name: audit_removed_events(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.audit_removed_events() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    removed bigint := nullif(current_setting('redrive.removed_events', true), '');
BEGIN
    IF removed > 0 THEN
        PERFORM redrive.record_act('prune', NULL, TG_OP || ' on ' || TG_TABLE_NAME, NULL, removed,
            jsonb_build_object('action', CASE TG_OP WHEN 'DELETE' THEN 'delete' ELSE 'archive' END));
        PERFORM set_config('redrive.removed_events', '', true);
    END IF;
    RETURN NULL;
END
$$;

-- Name: blocked_letters(jsonb, text, text[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.blocked_letters(filter jsonb, to_queue text DEFAULT NULL::text, states text[] DEFAULT '{open}'::text[]) RETURNS TABLE(queue text, kind text, letters bigint, breaker text, held_since timestamp with time zone, is_served boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT * FROM ('
        ' SELECT g.queue, g.kind, g.letters, b.name, b.held_since, EXISTS ('
        '  SELECT FROM redrive.workers w WHERE w.queue = g.queue'
        '  AND w.expires_at > statement_timestamp() AND (w.kinds IS NULL OR g.kind = ANY (w.kinds))) AS is_served'
        ' FROM ('
        '  SELECT coalesce($2, l.queue::text) AS queue, l.kind::text AS kind, count(*) AS letters'
        '  FROM redrive.dead_letters l'
        '  WHERE l.state IN (' || (SELECT string_agg(quote_literal(s), ', ') FROM unnest(states) s)
        -- Only a forced redrive takes quarantined letters, and only it takes redacted ones.
        || ') AND l.payload IS NOT NULL AND (l.redacted IS NULL OR l.state = ''redriving'' OR $3) AND '
        || redrive.filter_letters(filter) || ' GROUP BY 1, 2) g'
        -- The condition of `is_gated`. A pause comes first, then the breaker of the queue.
        ' LEFT JOIN LATERAL ('
        '  SELECT h.name, h.held_since FROM ('
        '   SELECT NULL AS name, p.paused_at AS held_since FROM redrive.paused_queues p WHERE p.queue = g.queue UNION ALL'
        '   SELECT n.name, n.opened_at FROM redrive.breakers n WHERE n.state <> ''closed'''
        '    AND (n.name = ''queue:'' || g.queue OR n.name NOT LIKE ''queue:%'' AND g.kind = ANY (n.kinds))) h'
        '  ORDER BY h.name IS NOT NULL, h.name <> ''queue:'' || g.queue, h.name LIMIT 1) b ON true) x'
        ' WHERE x.held_since IS NOT NULL OR NOT x.is_served ORDER BY x.letters DESC, x.queue, x.kind'
        USING filter, to_queue, 'quarantined' = ANY (states);
END
$_$;

-- Name: bury_unhandled(text, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.bury_unhandled(queue text, kind text, error_message text, max_jobs bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    jobs redrive.waiting_job[];
BEGIN
    IF EXISTS (
        SELECT FROM redrive.workers w WHERE w.queue = bury_unhandled.queue AND w.expires_at > statement_timestamp()
            AND (w.kinds IS NULL OR bury_unhandled.kind = ANY (w.kinds)))
    THEN
        RETURN 0;
    END IF;
    jobs := ARRAY(
        SELECT t FROM redrive.take_waiting(
            jsonb_build_object('queue', queue, 'kind', kind, 'state', 'ready'), NULL, NULL, max_jobs) t);
    PERFORM redrive.bury_waiting(jobs, 'unhandled', 'unhandled', error_message);
    RETURN cardinality(jobs);
END
$$;

-- Name: bury_waiting(redrive.waiting_job[], text, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.bury_waiting(jobs redrive.waiting_job[], cause text, error_class text, error_message text, audit bigint DEFAULT NULL::bigint) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    INSERT INTO redrive.dead_letters
        (id, queue, kind, cause, error_class, error_message, payload, raw, priority, attempts,
         max_attempts, generation, crashes, history, enqueued_at, unique_key, headers, group_key)
    SELECT j.id, j.queue, j.kind, bury_waiting.cause, bury_waiting.error_class, bury_waiting.error_message,
           p.payload, p.raw,
           j.priority, j.attempt, j.max_attempts, j.generation, j.crashes,
           coalesce(j.history, '[]'), j.enqueued_at, j.unique_key, j.headers, j.group_key
    FROM unnest(bury_waiting.jobs) j
    CROSS JOIN LATERAL redrive.letter_payload(j.payload) p
    ORDER BY j.id
    ON CONFLICT (id) DO UPDATE
    SET state = 'open', cause = excluded.cause, error_class = excluded.error_class,
        error_message = excluded.error_message, error_detail = excluded.error_detail,
        payload = excluded.payload, raw = coalesce(excluded.raw, dead_letters.raw),
        priority = excluded.priority, attempts = excluded.attempts,
        max_attempts = excluded.max_attempts, generation = excluded.generation,
        crashes = excluded.crashes, history = excluded.history, worker_id = excluded.worker_id,
        host = excluded.host, version = excluded.version, discard_reason = NULL,
        failure_key = excluded.failure_key, unique_key = excluded.unique_key, headers = excluded.headers,
        group_key = excluded.group_key, pid = excluded.pid, run_ms = excluded.run_ms,
        group_id = excluded.group_id, detail_id = excluded.detail_id,
        died_at = excluded.died_at, changed_at = excluded.changed_at;
    UPDATE redrive.dead_letters l SET audit_id = bury_waiting.audit
    WHERE bury_waiting.audit IS NOT NULL AND l.id = ANY (ARRAY(SELECT j.id FROM unnest(bury_waiting.jobs) j));
    DELETE FROM redrive.unique_keys k
    WHERE k.job_id = ANY (ARRAY(
        SELECT j.id FROM unnest(bury_waiting.jobs) j WHERE j.unique_key IS NOT NULL));
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, c.queue, '{ended}', ARRAY[c.jobs]
    FROM (SELECT j.queue, count(*) AS jobs FROM unnest(bury_waiting.jobs) j GROUP BY j.queue) c
    CROSS JOIN redrive.metric_ring m;
$$;

-- Name: capture(text, text, text, text, bytea, text, jsonb, text, text, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.capture(source text, "position" text, queue text, kind text, raw bytea, content_type text DEFAULT 'application/json'::text, headers jsonb DEFAULT NULL::jsonb, error_class text DEFAULT 'captured'::text, error_message text DEFAULT ''::text, error_detail text DEFAULT NULL::text, group_key text DEFAULT NULL::text, failure_key text DEFAULT NULL::text, OUT id bigint, OUT is_new boolean, OUT is_reopened boolean) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    parsed jsonb;
    known_state text;
BEGIN
    IF length(capture.source) > 100 OR length(capture."position") > 500 OR length(capture.kind) > 100 THEN
        capture.headers := redrive.headers_with_long(
            capture.headers, capture.source, capture."position", capture.kind, NULL);
        capture.source := redrive.shortened(capture.source, 100);
        capture."position" := redrive.shortened(capture."position", 500);
        capture.kind := redrive.shortened(capture.kind, 100);
    END IF;
    PERFORM redrive.check_name('queue', capture.queue), redrive.check_name('kind', capture.kind);
    IF capture.source IS NULL OR capture."position" IS NULL OR capture.raw IS NULL THEN
        RAISE EXCEPTION 'redrive: capture needs a source, a position and the raw bytes'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(capture.raw) <= 16777216 THEN
        BEGIN
            parsed := convert_from(capture.raw, 'UTF8')::jsonb;
        EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
            parsed := NULL;
        END;
    END IF;
    capture.is_new := false;
    capture.is_reopened := false;
    LOOP
        SELECT l.id, l.state INTO capture.id, known_state
        FROM redrive.dead_letters l
        WHERE l.source = capture.source AND l."position" = capture."position";
        IF octet_length(capture.raw) > 16777216 OR known_state IN ('recovered', 'discarded') THEN
            SELECT c.id, c.is_new, c.is_reopened INTO capture.id, capture.is_new, capture.is_reopened
            FROM redrive.capture_letters(
                ARRAY[capture.source], ARRAY[capture."position"], ARRAY[capture.queue], ARRAY[capture.kind],
                ARRAY[capture.raw], ARRAY[parsed], ARRAY[capture.content_type], ARRAY[capture.headers],
                ARRAY[capture.error_class], ARRAY[capture.error_message], ARRAY[capture.error_detail],
                ARRAY[capture.group_key], ARRAY[capture.failure_key]) c;
            EXIT;
        ELSIF known_state IS NULL THEN
            INSERT INTO redrive.dead_letters AS l
                (source, "position", queue, kind, cause, raw, payload, content_type, headers,
                 error_class, error_message, error_detail, group_key, failure_key, enqueued_at)
            VALUES
                (capture.source, capture."position", capture.queue, capture.kind, 'captured', capture.raw,
                 parsed, capture.content_type, capture.headers,
                 redrive.clip(coalesce(capture.error_class, 'captured'), 1024),
                 redrive.clip(coalesce(capture.error_message, ''), 8192),
                 redrive.clip(capture.error_detail, 65536), capture.group_key,
                 nullif(left(capture.failure_key, 256), ''), clock_timestamp())
            ON CONFLICT (source, "position") WHERE source IS NOT NULL DO NOTHING
            RETURNING l.id INTO capture.id;
            capture.is_new := FOUND;
            -- Not found: another session stored the letter in between.
            EXIT WHEN FOUND;
        ELSE
            EXIT WHEN known_state = 'redriving';
            UPDATE redrive.dead_letters l
            SET seen = l.seen + 1
            WHERE l.id = capture.id AND l.state IN ('open', 'quarantined');
            -- Not found: another session redrove, closed or deleted the letter in between.
            EXIT WHEN FOUND;
        END IF;
    END LOOP;
END
$$;

-- Name: capture_letters(text[], text[], text[], text[], bytea[], jsonb[], text[], jsonb[], text[], text[], text[], text[], text[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.capture_letters(sources text[], positions text[], queues text[], kinds text[], raws bytea[], parsed jsonb[], content_types text[], headers jsonb[], error_classes text[], error_messages text[], error_details text[], group_keys text[], failure_keys text[] DEFAULT NULL::text[]) RETURNS TABLE(place bigint, id bigint, is_new boolean, is_reopened boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    new_ids bigint[];
    found_ids bigint[];
    waiting_ids bigint[];
    closed_ids bigint[];
    whole_raws bytea[];
    large bigint[] := '{}';
BEGIN
    IF array_position(sources, NULL) IS NOT NULL OR array_position(positions, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: capture needs a source, a position and the raw bytes'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF pg_column_size(raws) > 16777216 OR EXISTS (
        SELECT FROM unnest(sources, positions, kinds) AS g (source, "position", kind)
        WHERE length(g.source) > 100 OR length(g."position") > 500 OR length(g.kind) > 100)
    THEN
        whole_raws := raws;
        SELECT array_agg(redrive.headers_with_long(
                   g.headers, g.source, g."position", g.kind, octet_length(g.raw)) ORDER BY g.place),
               array_agg(redrive.shortened(g.source, 100) ORDER BY g.place),
               array_agg(redrive.shortened(g."position", 500) ORDER BY g.place),
               array_agg(redrive.shortened(g.kind, 100) ORDER BY g.place),
               array_agg(CASE WHEN octet_length(g.raw) > 16777216 THEN substring(g.raw FROM 1 FOR 65536)
                   ELSE g.raw END ORDER BY g.place),
               coalesce(array_agg(g.place) FILTER (WHERE octet_length(g.raw) > 16777216), '{}')
        INTO headers, sources, positions, kinds, raws, large
        FROM unnest(headers, sources, positions, kinds, raws) WITH ORDINALITY
            AS g (headers, source, "position", kind, raw, place);
    END IF;
    LOOP
        BEGIN
            WITH given AS MATERIALIZED (
                -- Assign ids in the given order, so that paging by id keeps it.
                SELECT g.*, nextval('redrive.job_id') AS id
                FROM unnest(sources, positions, queues, kinds, raws, parsed, content_types, headers,
                            error_classes, error_messages, error_details, group_keys, failure_keys) WITH ORDINALITY
                    AS g (source, "position", queue, kind, raw, parsed, content_type, headers,
                          error_class, error_message, error_detail, group_key, failure_key, place)
            ),
            firsts AS (
                SELECT DISTINCT ON (g.source, g."position")
                       g.*, count(*) OVER (PARTITION BY g.source, g."position") AS times
                FROM given g
                -- An insert would wait for a session that updates the letter, and would find its group first.
                WHERE NOT EXISTS (
                    SELECT FROM redrive.dead_letters k WHERE k.source = g.source AND k."position" = g."position")
                ORDER BY g.source, g."position", g.place
            ),
            captured AS (
                INSERT INTO redrive.dead_letters AS l
                    (id, source, "position", queue, kind, cause, raw, payload, content_type, headers,
                     error_class, error_message, error_detail, group_key, failure_key, enqueued_at, seen)
                SELECT f.id, f.source, f."position", f.queue, f.kind, 'captured', f.raw,
                       CASE WHEN f.place <> ALL (large) THEN coalesce(f.parsed, redrive.json_of(f.raw)) END,
                       f.content_type, f.headers,
                       redrive.clip(coalesce(f.error_class, 'captured'), 1024),
                       redrive.clip(coalesce(f.error_message, ''), 8192),
                       redrive.clip(f.error_detail, 65536), f.group_key,
                       nullif(left(f.failure_key, 256), ''), clock_timestamp(), f.times
                FROM firsts f
                -- In one order, so that two captures cannot deadlock.
                ORDER BY f.source, f."position"
                ON CONFLICT (source, "position") WHERE source IS NOT NULL DO NOTHING
                RETURNING l.id
            )
            SELECT coalesce(array_agg(c.id), '{}') INTO new_ids FROM captured c;
            SELECT coalesce(array_agg(l.id ORDER BY g.place), '{}') INTO found_ids
            FROM unnest(sources, positions) WITH ORDINALITY AS g (source, "position", place)
            JOIN redrive.dead_letters l ON l.source = g.source AND l."position" = g."position";
            -- By id, the lock order of every statement that locks several letters.
            SELECT coalesce(array_agg(k.id) FILTER (WHERE k.state IN ('open', 'quarantined')), '{}'),
                   coalesce(array_agg(k.id) FILTER (WHERE k.state IN ('recovered', 'discarded')), '{}')
            INTO waiting_ids, closed_ids
            FROM (
                SELECT o.id, o.state
                FROM redrive.dead_letters o
                WHERE o.id = ANY (found_ids) AND o.id <> ALL (new_ids) AND o.state <> 'redriving'
                ORDER BY o.id
                FOR NO KEY UPDATE
            ) k;
            EXIT WHEN cardinality(found_ids) = cardinality(sources)
                AND (SELECT count(*) FROM redrive.dead_letters l WHERE l.id = ANY (found_ids))
                    = (SELECT count(DISTINCT f.id) FROM unnest(found_ids) AS f (id));
            -- A closed letter was deleted before it was locked. Its failure needs a new letter. Start again
            -- without locks: an insert waits for other captures, and they may wait for these letters.
            RAISE SQLSTATE 'RD001';
        EXCEPTION WHEN SQLSTATE 'RD001' THEN NULL;
        END;
    END LOOP;
    UPDATE redrive.dead_letters l
    SET seen = l.seen + t.times
    FROM (SELECT f.id, count(*) AS times FROM unnest(found_ids) AS f (id) GROUP BY f.id) t
    WHERE l.id = ANY (waiting_ids) AND l.id = t.id;
    IF cardinality(closed_ids) > 0 THEN
        -- The proposed row passes the triggers of a new letter: redaction, group and detail. It always
        -- conflicts, because the letters are locked. The trigger `reopen_captured` keeps their history.
        INSERT INTO redrive.dead_letters AS l
            (id, source, "position", queue, kind, cause, raw, payload, content_type, headers,
             error_class, error_message, error_detail, group_key, failure_key, enqueued_at, seen, edits)
        SELECT f.id, f.source, f."position", f.queue, f.kind, 'captured', f.raw,
               CASE WHEN f.place <> ALL (large) THEN coalesce(f.parsed, redrive.json_of(f.raw)) END,
               f.content_type, f.headers,
               redrive.clip(coalesce(f.error_class, 'captured'), 1024),
               redrive.clip(coalesce(f.error_message, ''), 8192),
               redrive.clip(f.error_detail, 65536), f.group_key,
               nullif(left(f.failure_key, 256), ''), clock_timestamp(), f.times,
               -- A redaction must not look into the earlier bytes.
               (SELECT o.edits + 1 FROM redrive.dead_letters o WHERE o.id = f.id)
        FROM (
            SELECT DISTINCT ON (k.id) k.id, g.*, count(*) OVER (PARTITION BY k.id) AS times
            FROM unnest(sources, positions, queues, kinds, raws, parsed, content_types, headers,
                        error_classes, error_messages, error_details, group_keys, failure_keys) WITH ORDINALITY
                AS g (source, "position", queue, kind, raw, parsed, content_type, headers,
                      error_class, error_message, error_detail, group_key, failure_key, place)
            JOIN unnest(found_ids) WITH ORDINALITY AS k (id, found_place) ON k.found_place = g.place
            WHERE k.id = ANY (closed_ids)
            ORDER BY k.id, g.place
        ) f
        ORDER BY f.id
        ON CONFLICT (id) DO UPDATE
        SET state = 'open', discard_reason = NULL, queue = excluded.queue, kind = excluded.kind,
            cause = excluded.cause, error_class = excluded.error_class,
            error_message = excluded.error_message, error_detail = excluded.error_detail,
            detail_id = excluded.detail_id, group_id = excluded.group_id,
            payload = excluded.payload, raw = excluded.raw, redacted = excluded.redacted,
            content_type = excluded.content_type, headers = excluded.headers, group_key = excluded.group_key,
            failure_key = excluded.failure_key,
            generation = l.generation + 1, attempts = 0, crashes = 0, worker_id = NULL, host = NULL,
            version = NULL, pid = NULL, run_ms = NULL, seen = l.seen + excluded.seen,
            died_at = excluded.died_at, changed_at = excluded.changed_at;
        PERFORM redrive.drop_redacted_pieces(closed_ids);
    END IF;
    PERFORM redrive.keep_pieces(found_ids[g.place], whole_raws[g.place])
    FROM unnest(large) AS g (place)
    WHERE found_ids[g.place] = ANY (new_ids || closed_ids) AND array_position(found_ids, found_ids[g.place]) = g.place;
    RETURN QUERY
    SELECT f.place, f.id,
           f.id = ANY (new_ids) AND f.place = min(f.place) OVER (PARTITION BY f.id),
           f.id = ANY (closed_ids) AND f.place = min(f.place) OVER (PARTITION BY f.id)
    FROM unnest(found_ids) WITH ORDINALITY AS f (id, place)
    ORDER BY f.place;
END
$$;

-- Name: capture_many(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.capture_many(failures jsonb) RETURNS TABLE(place bigint, id bigint, is_new boolean, is_reopened boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    members CONSTANT text[] := '{source,position,queue,kind,payload,raw,raw_base64,content_type,headers,error_class,'
        'error_message,error_detail,group_key,failure_key}';
    wrong record;
BEGIN
    IF capture_many.failures IS NULL OR jsonb_typeof(capture_many.failures) <> 'array' THEN
        RAISE EXCEPTION 'redrive: capture_many needs a JSON array of failures' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT e.place, CASE
        WHEN jsonb_typeof(e.failure) <> 'object' THEN 'is not an object'
        WHEN u.member IS NOT NULL THEN 'has the unknown member ' || u.member
        WHEN e.failure ->> 'source' IS NULL OR e.failure ->> 'position' IS NULL OR e.failure ->> 'queue' IS NULL
            OR e.failure ->> 'kind' IS NULL THEN 'needs a source, a position, a queue and a kind'
        ELSE 'needs exactly one of payload, raw and raw_base64' END AS complaint
    INTO wrong
    FROM jsonb_array_elements(capture_many.failures) WITH ORDINALITY AS e (failure, place)
    CROSS JOIN LATERAL (
        SELECT min(k.member) AS member
        FROM jsonb_object_keys(CASE jsonb_typeof(e.failure) WHEN 'object' THEN e.failure ELSE '{}' END) AS k (member)
        WHERE k.member <> ALL (members)) u
    WHERE jsonb_typeof(e.failure) <> 'object' OR u.member IS NOT NULL
        OR NOT (e.failure ->> 'source' IS NOT NULL AND e.failure ->> 'position' IS NOT NULL
            AND e.failure ->> 'queue' IS NOT NULL AND e.failure ->> 'kind' IS NOT NULL)
        OR (e.failure ? 'payload')::integer + (e.failure ? 'raw')::integer + (e.failure ? 'raw_base64')::integer <> 1
    ORDER BY e.place
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'redrive: failure % %; nothing was captured', wrong.place, wrong.complaint
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    SELECT c.place, c.id, c.is_new, c.is_reopened
    FROM (
        SELECT array_agg(f.source ORDER BY e.place) AS sources, array_agg(f."position" ORDER BY e.place) AS positions,
               array_agg(f.queue ORDER BY e.place) AS queues, array_agg(f.kind ORDER BY e.place) AS kinds,
               array_agg(coalesce(convert_to(f.raw, 'UTF8'), decode(f.raw_base64, 'base64'),
                   convert_to((e.failure -> 'payload')::text, 'UTF8')) ORDER BY e.place) AS raws,
               array_agg(e.failure -> 'payload' ORDER BY e.place) AS parsed,
               array_agg(coalesce(f.content_type, 'application/json') ORDER BY e.place) AS content_types,
               array_agg(f.headers ORDER BY e.place) AS headers, array_agg(f.error_class ORDER BY e.place) AS classes,
               array_agg(f.error_message ORDER BY e.place) AS messages,
               array_agg(f.error_detail ORDER BY e.place) AS details,
               array_agg(f.group_key ORDER BY e.place) AS group_keys,
               array_agg(f.failure_key ORDER BY e.place) AS failure_keys
        FROM jsonb_array_elements(capture_many.failures) WITH ORDINALITY AS e (failure, place)
        CROSS JOIN LATERAL jsonb_to_record(e.failure) AS f (
            source text, "position" text, queue text, kind text, raw text, raw_base64 text, content_type text,
            headers jsonb, error_class text, error_message text, error_detail text, group_key text, failure_key text)
    ) g
    CROSS JOIN LATERAL redrive.capture_letters(
        g.sources, g.positions, g.queues, g.kinds, g.raws, g.parsed, g.content_types, g.headers, g.classes,
        g.messages, g.details, g.group_keys, g.failure_keys) c
    WHERE g.sources IS NOT NULL
    ORDER BY c.place;
END
$$;

-- Name: captured_headers(jsonb, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.captured_headers(headers jsonb, source text, "position" text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN (octet_length((w.headers)::text) <= 65536) THEN w.headers
             ELSE captured_headers.headers
         END AS headers
    FROM ( SELECT ((json_build_object('redrive-source', captured_headers.source, 'redrive-position', captured_headers."position"))::jsonb || COALESCE(captured_headers.headers, '{}'::jsonb)) AS "?column?") w(headers);
END;

-- Name: change_event(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.change_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    verdict text := CASE NEW.status
        WHEN 'SUCCEEDED' THEN 'done' WHEN 'FAILED_PERMANENTLY' THEN 'dead'
        WHEN 'PENDING' THEN CASE
            WHEN NEW.retry_count > OLD.retry_count OR NEW.error_reason IS DISTINCT FROM OLD.error_reason THEN 'retry'
            ELSE 'release' END
        END;
BEGIN
    IF NEW.id <> OLD.id OR NEW.event_type IS DISTINCT FROM OLD.event_type
        OR NEW.payload::text IS DISTINCT FROM OLD.payload::text
    THEN
        RAISE EXCEPTION 'redrive: an UPDATE of dlq_events cannot change the id, event_type or payload of event %', OLD.id
            USING ERRCODE = 'feature_not_supported', HINT = 'redrive.edit_letters changes the payload of a letter.';
    END IF;
    IF NEW.status = 'PROCESSING' AND OLD.status IN ('PENDING', 'PROCESSING') THEN
        IF OLD.status = 'PENDING' AND redrive.claim_event(OLD.id) THEN
            RETURN NEW;
        END IF;
        RETURN NULL;
    END IF;
    IF NEW.status = 'PROCESSING' OR NEW.status IS NULL OR verdict IS NULL THEN
        RAISE EXCEPTION 'redrive: event % is % and cannot become %', OLD.id, OLD.status, coalesce(NEW.status, 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'A PENDING event becomes PROCESSING, and then SUCCEEDED, PENDING or FAILED_PERMANENTLY.';
    END IF;
    IF NEW.status = OLD.status AND verdict IN ('done', 'dead') THEN
        RETURN NEW;
    END IF;
    IF NOT redrive.settle_event(OLD.id, verdict, NEW.retry_after, NEW.error_reason, NEW.error_stacktrace) THEN
        IF NOT redrive.claim_event(OLD.id) THEN
            RAISE EXCEPTION 'redrive: event % cannot become %: a worker or another session is processing it, it is closed or quarantined, or its payload is redacted or not JSON', OLD.id, NEW.status
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = format('redrive dlq show %s', OLD.id);
        END IF;
        IF OLD.status = 'FAILED_PERMANENTLY' THEN
            PERFORM redrive.record_act('redrive', NULL, 'UPDATE of dlq_events',
                jsonb_build_object('ids', jsonb_build_array(OLD.id)), 1);
        END IF;
        PERFORM redrive.settle_event(OLD.id, verdict, NEW.retry_after, NEW.error_reason, NEW.error_stacktrace);
    END IF;
    RETURN NEW;
END
$$;

-- Name: change_jobs(text, jsonb, jsonb, jsonb, bigint, text, text, bigint, integer, bigint[], text[], text[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.change_jobs(action text, filter jsonb, place jsonb, last_place jsonb, max_jobs bigint, reason text, person text, audit bigint, priority integer DEFAULT NULL::integer, ids bigint[] DEFAULT '{}'::bigint[], unedited text[] DEFAULT '{}'::text[], edited text[] DEFAULT '{}'::text[]) RETURNS TABLE(id bigint, audit_id bigint, next_place jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    narrowed  jsonb := change_jobs.filter || CASE action
        WHEN 'set_priority' THEN jsonb_build_object('other_priority', change_jobs.priority)
        WHEN 'edit' THEN jsonb_build_object('ids', change_jobs.ids)
        WHEN 'run_now' THEN jsonb_build_object('state', ARRAY(
            SELECT s FROM unnest(coalesce(redrive.filter_values(change_jobs.filter -> 'state'), '{delayed}')) s
            WHERE s = 'delayed'))
        ELSE '{}' END;
    jobs      redrive.waiting_job[];
    changed   bigint[];
    operation bigint := change_jobs.audit;
    act       bigint;
BEGIN
    jobs := ARRAY(
        SELECT w FROM redrive.take_waiting(narrowed, change_jobs.place, change_jobs.last_place, max_jobs) w);
    changed := ARRAY(
        SELECT j.id FROM unnest(jobs) j
        LEFT JOIN unnest(change_jobs.ids, unedited) AS e (id, payload) ON e.id = j.id
        WHERE action <> 'edit' OR e.payload = btrim(j.payload::text, E' \t\r\n'));
    IF changed <> '{}' THEN
        act := redrive.record_act(action || '_jobs', person, reason, change_jobs.filter, cardinality(changed),
            nullif(jsonb_strip_nulls(jsonb_build_object('priority', change_jobs.priority, 'batch_of', operation)), '{}'));
        operation := coalesce(operation, act);
    END IF;
    IF action = 'cancel' THEN
        PERFORM redrive.bury_waiting(jobs, 'manual', 'cancelled', 'cancelled by an operator', operation);
    ELSE
        PERFORM redrive.put_back(ARRAY(
            SELECT ROW(CASE action WHEN 'run_now' THEN '{"state": "ready"}' ELSE j.place END, j.id,
                       CASE action WHEN 'run_now' THEN clock_timestamp() ELSE j.run_at END,
                       j.enqueued_at, j.attempt, j.max_attempts, j.generation,
                       CASE action WHEN 'set_priority' THEN change_jobs.priority ELSE j.priority END,
                       j.crashes, j.refunds, j.queue, j.kind,
                       CASE WHEN e.id = ANY (changed) THEN e.payload::json ELSE j.payload END,
                       j.history, j.unique_key, j.outage_since, j.headers, j.group_key)::redrive.waiting_job
            FROM unnest(jobs) j
            LEFT JOIN unnest(change_jobs.ids, edited) AS e (id, payload) ON e.id = j.id));
    END IF;
    IF action = 'run_now' THEN
        PERFORM redrive.wake(q.queue) FROM (SELECT DISTINCT j.queue FROM unnest(jobs) j) q;
    END IF;
    RETURN QUERY SELECT j.id, operation, j.place FROM unnest(jobs) WITH ORDINALITY j
        WHERE j.id = ANY (changed) ORDER BY j.ordinality;
END
$$;

-- Name: change_run(bigint, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.change_run(run bigint, verb text, reason text DEFAULT NULL::text, person text DEFAULT NULL::text, OUT was text, OUT became text) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    allowed text[];
    creator redrive.redrive_runs;
    queues  text[];
    needs_role boolean;
BEGIN
    allowed := CASE verb
        WHEN 'approve' THEN '{unapproved}'::text[]
        WHEN 'pause' THEN '{running}'::text[]
        WHEN 'resume' THEN '{paused,halted}'::text[]
        WHEN 'cancel' THEN '{unapproved,running,paused,halted}'::text[]
    END;
    IF allowed IS NULL THEN
        RAISE EXCEPTION 'redrive: unknown verb %; expected approve, pause, resume or cancel', verb
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT r.* INTO creator FROM redrive.redrive_runs r WHERE r.id = run FOR UPDATE;
    was := creator.state;
    became := was;
    IF was IS NULL OR was <> ALL (allowed) THEN
        RETURN;
    END IF;
    IF verb = 'approve' THEN
        SELECT array_agg(q.queue), bool_or(q.other_role) INTO queues, needs_role
        FROM (
            SELECT DISTINCT p.queue::text AS queue, p.other_role
            FROM redrive.run_letters m
            JOIN redrive.dead_letters l ON l.id = m.letter_id
            JOIN redrive.protections p ON p.queue = l.queue
            WHERE m.run_id = run
        ) q;
        PERFORM redrive.check_allowed(coalesce(queues, '{}'));
        IF coalesce(person, '') = '' OR left(person, 200) = creator.person
            OR session_user = creator.role AND (needs_role OR creator.person IS NULL)
        THEN
            RAISE EXCEPTION 'redrive: run % was created by % with role %; another operator% must approve it', run,
                coalesce(creator.person, 'an operator without a name'), creator.role,
                CASE WHEN needs_role OR creator.person IS NULL THEN ' with another role' ELSE '' END
                USING ERRCODE = 'insufficient_privilege';
        END IF;
    END IF;
    became := CASE verb WHEN 'pause' THEN 'paused' WHEN 'cancel' THEN 'cancelled' ELSE 'running' END;
    UPDATE redrive.redrive_runs r
    SET state = became, driver = NULL, driver_expires_at = NULL, term = r.term + 1,
        halted_because = NULL, ended_at = CASE verb WHEN 'cancel' THEN clock_timestamp() END,
        next_at = clock_timestamp(),
        approved_by = CASE verb WHEN 'approve' THEN left(change_run.person, 200) ELSE r.approved_by END,
        approved_role = CASE verb WHEN 'approve' THEN session_user::text ELSE r.approved_role END,
        approved_at = CASE verb WHEN 'approve' THEN clock_timestamp() ELSE r.approved_at END,
        stage = CASE was WHEN 'halted' THEN r.stage + 1 ELSE r.stage END,
        stage_to = CASE was WHEN 'halted' THEN r.cursor + nullif(r.canary, 0) ELSE r.stage_to END,
        stage_sent = CASE was WHEN 'halted' THEN n.sent ELSE r.stage_sent END,
        stage_recovered = CASE was WHEN 'halted' THEN n.recovered ELSE r.stage_recovered END,
        stage_died = CASE was WHEN 'halted' THEN n.died_alike + n.died_differently ELSE r.stage_died END
    FROM redrive.runs n
    WHERE r.id = run AND n.id = run;
    IF verb = 'cancel' THEN
        DELETE FROM redrive.run_chunks s WHERE s.run_id = run;
    END IF;
    PERFORM redrive.record_act(verb || '_run', person, reason, NULL, 0, jsonb_build_object('run', run));
END
$$;

-- Name: check_allowed(text[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.check_allowed(queues text[]) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    refused redrive.protections;
BEGIN
    SELECT p.* INTO refused FROM redrive.protections p
    WHERE p.roles IS NOT NULL AND (queues IS NULL OR p.queue = ANY (queues))
        AND NOT EXISTS (
            SELECT FROM pg_roles k WHERE k.rolname = ANY (p.roles) AND pg_has_role(session_user, k.oid, 'MEMBER'))
    ORDER BY p.queue
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'redrive: role % may not redrive letters of queue %; it is limited to the roles: %',
            session_user, refused.queue, array_to_string(refused.roles, ', ')
            USING ERRCODE = 'insufficient_privilege', HINT = 'redrive dlq protection list';
    END IF;
END
$$;

-- Name: check_breaker_name(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.check_breaker_name(name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF name LIKE 'queue:%' THEN
        PERFORM redrive.check_name('queue', substr(name, 7));
    ELSE
        PERFORM redrive.check_name('dependency', name);
    END IF;
END
$$;

-- Name: check_name(text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.check_name(subject text, name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF name IS NULL OR length(name) NOT BETWEEN 1 AND 100 OR name <> btrim(name)
        OR name ~ '[[:cntrl:]]'
    THEN
        RAISE EXCEPTION 'redrive: invalid % name; it must have 1 to 100 characters, no control characters and no blank at either end', subject
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Name: check_redaction(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.check_redaction() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    pointer text;
    pattern text;
BEGIN
    IF cardinality(NEW.paths) + cardinality(NEW.patterns) = 0 THEN
        RAISE EXCEPTION 'redrive: a redaction needs a path or a pattern' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOREACH pointer IN ARRAY NEW.paths LOOP
        IF coalesce(pointer NOT LIKE '/%' OR pointer ~ '~($|[^01])', true) THEN
            RAISE EXCEPTION 'redrive: % is not a JSON pointer; expected for example /card/number', coalesce(pointer, 'NULL')
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    FOREACH pattern IN ARRAY NEW.patterns LOOP
        IF coalesce(pattern, '') = '' THEN
            RAISE EXCEPTION 'redrive: a redaction pattern is empty' USING ERRCODE = 'invalid_parameter_value';
        END IF;
        BEGIN
            PERFORM regexp_replace('', pattern, '', 'g');
        EXCEPTION WHEN OTHERS THEN
            RAISE EXCEPTION 'redrive: invalid redaction pattern %: %', pattern, SQLERRM
                USING ERRCODE = 'invalid_parameter_value';
        END;
    END LOOP;
    RETURN NEW;
END
$_$;

-- Name: check_redrive(text, integer, integer, boolean, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.check_redrive(to_queue text, priority integer, max_attempts integer, forced boolean, reason text, delay_ms bigint) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF to_queue IS NOT NULL THEN
        PERFORM redrive.check_name('queue', to_queue);
    END IF;
    IF priority NOT BETWEEN -1000 AND 1000 THEN
        RAISE EXCEPTION 'redrive: the priority is %; it must be between -1000 and 1000', priority
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'redrive: max_attempts is %; it must be between 1 and 1000', max_attempts
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF delay_ms NOT BETWEEN 0 AND 315360000000 THEN
        RAISE EXCEPTION 'redrive: the delay is % ms; it must be between 0 and ten years', delay_ms
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF forced IS NULL OR forced AND coalesce(btrim(reason, E' \t\r\n'), '') = '' THEN
        RAISE EXCEPTION 'redrive: a forced redrive needs a reason'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Name: check_size(text[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.check_size(queues text[], letters bigint[]) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    refused record;
BEGIN
    SELECT p.queue, p.approve_above, n.letters INTO refused
    FROM unnest(queues, letters) AS n (queue, letters)
    JOIN redrive.protections p ON p.queue = n.queue AND n.letters > p.approve_above
    ORDER BY p.queue
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'redrive: % letters of queue % need the approval of a second operator, as do all redrives of more than %; create a redrive run',
            refused.letters, refused.queue, refused.approve_above
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'redrive dlq redrive ... --detach creates a run; redrive dlq runs approve approves it.';
    END IF;
END
$$;

-- Name: claim_event(bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.claim_event(event_id bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    letter record;
    place  record;
    job    record;
    kept   interval := coalesce(nullif(current_setting('redrive.claim_time', true), ''), '15 minutes');
BEGIN
    SELECT l.state, l.queue INTO letter FROM redrive.dead_letters l WHERE l.id = event_id;
    -- As a delayed job, so that its primary key finds it.
    IF letter.state = 'open' AND NOT EXISTS (
        SELECT FROM redrive.send_back(ARRAY[event_id], jsonb_build_object(
            'at', clock_timestamp(), 'event', 'redriven', 'by', session_user, 'reason', 'claimed through dlq_events'),
            delay_ms => 0) b
        WHERE b.result = 'sent')
    THEN
        RETURN false;
    END IF;
    -- In a group, it waits for its turn.
    SELECT d.queue, d.group_key INTO place
    FROM redrive.jobs_delayed d WHERE d.id = event_id AND d.group_key IS NOT NULL
    FOR UPDATE SKIP LOCKED;
    IF FOUND AND NOT redrive.take_slot(place.queue, place.group_key, event_id) THEN
        RETURN false;
    END IF;
    DELETE FROM redrive.jobs_delayed d
    WHERE d.id = (SELECT w.id FROM redrive.jobs_delayed w WHERE w.id = event_id FOR UPDATE SKIP LOCKED)
    RETURNING d.* INTO job;
    IF NOT FOUND THEN
        SELECT j.segment, j.ctid AS tid, j.queue, j.group_key INTO place
        FROM redrive.jobs j
        WHERE j.id = event_id AND j.queue = coalesce(letter.queue::text, j.queue::text)
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND OR place.segment = 8 AND NOT redrive.take_slot(place.queue, place.group_key, event_id) THEN
            RETURN false;
        END IF;
        SELECT t.* INTO job FROM redrive.take_jobs(place.segment, ARRAY[place.tid]) t;
    END IF;
    INSERT INTO redrive.workers AS w (worker_id, queue, host, pid, version, slots, kinds, expires_at)
    VALUES (md5(concat_ws(' ', 'dlq_events', pg_current_xact_id(), job.queue))::uuid, job.queue,
            coalesce(host(inet_client_addr()), 'local'), pg_backend_pid(), 'dlq_events', 1, ARRAY[job.kind::text],
            clock_timestamp() + kept)
    ON CONFLICT (worker_id) DO UPDATE SET kinds = w.kinds || excluded.kinds WHERE NOT w.kinds @> excluded.kinds;
    INSERT INTO redrive.leases
        (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, priorities, attempts, max_attempts,
         generations, crashes, refunds, histories, unique_keys, outages_since, headers, group_keys)
    VALUES (redrive.event_lease(event_id), md5(concat_ws(' ', 'dlq_events', pg_current_xact_id(), job.queue))::uuid,
            job.queue, ARRAY[job.id], ARRAY[job.kind::text], ARRAY[job.payload], ARRAY[job.enqueued_at],
            ARRAY[job.priority::smallint], ARRAY[job.attempt::integer + 1], ARRAY[job.max_attempts::integer],
            ARRAY[job.generation::integer], ARRAY[job.crashes::smallint], ARRAY[job.refunds::smallint],
            ARRAY[job.history], ARRAY[job.unique_key], ARRAY[job.outage_since], ARRAY[job.headers::jsonb],
            ARRAY[job.group_key::text]);
    IF job.unique_key IS NOT NULL AND job.headers IS NOT NULL THEN
        PERFORM redrive.free_started_keys(ARRAY[job.id], ARRAY[job.unique_key], ARRAY[job.headers::jsonb]);
    END IF;
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, job.queue, '{claimed}', '{1}' FROM redrive.metric_ring m;
    RETURN true;
END
$$;

-- Name: clear_segment(smallint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.clear_segment(segment smallint) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    is_noted boolean;
    occupied boolean;
    xid      xid8;
BEGIN
    -- One statement, so that `xid` belongs to the snapshot that sees no job.
    EXECUTE format('SELECT EXISTS (SELECT FROM redrive.jobs_%s), pg_snapshot_xmax(pg_current_snapshot())', segment)
        INTO occupied, xid;
    SELECT s.drained_at IS NOT NULL INTO is_noted FROM redrive.ring_segments s WHERE s.segment = clear_segment.segment;
    IF NOT occupied AND NOT is_noted THEN
        UPDATE redrive.ring_segments s
        SET drained_at = clock_timestamp(), drained_xid = xid, refusals = 0
        WHERE s.segment = clear_segment.segment;
        RETURN 'drained';
    END IF;
    IF NOT occupied AND redrive.truncate_segment(segment) THEN
        UPDATE redrive.ring_segments s
        SET truncated_at = clock_timestamp(), drained_at = NULL, drained_xid = NULL, refusals = 0
        WHERE s.segment = clear_segment.segment;
        RETURN 'truncated';
    END IF;
    UPDATE redrive.ring_segments s
    SET drained_at = CASE WHEN NOT occupied THEN s.drained_at END,
        drained_xid = CASE WHEN NOT occupied THEN s.drained_xid END,
        refusals = least(s.refusals + 1, 7),
        retry_at = clock_timestamp() + least(interval '1 minute', interval '1 second' * 2 ^ s.refusals)
    WHERE s.segment = clear_segment.segment;
    RETURN 'nothing';
END
$$;

-- Name: clip(text, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.clip(full_text text, limit_bytes integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN (octet_length(full_text) <= limit_bytes) THEN full_text
             ELSE (("left"(full_text, (limit_bytes / 8)) || '
[... cut ...]
'::text) || "right"(full_text, (limit_bytes / 8)))
         END AS "case";
END;

-- Name: close_breaker(text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.close_breaker(name text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM redrive.check_breaker_name(close_breaker.name);
    UPDATE redrive.breakers b
    SET state = 'closed', probe_at = NULL, prober = NULL, changed_at = clock_timestamp()
    WHERE b.name = close_breaker.name AND b.state <> 'closed';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('close_breaker', close_breaker.person, close_breaker.reason, NULL, 0,
        jsonb_build_object('breaker', close_breaker.name));
    PERFORM pg_notify('redrive_breaker', close_breaker.name);
    RETURN true;
END
$$;

-- Name: compact(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.compact() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    SET jit TO 'off'
    AS $_$
DECLARE
    begun CONSTANT timestamptz := clock_timestamp();
    due   redrive.compactions;
    kept  xid;
    is_rewritten boolean;
BEGIN
    PERFORM redrive.require_read_committed('compact');
    SELECT c.* INTO due
    FROM redrive.compactions c
    WHERE c.retry_at <= begun AND redrive.table_bytes(c.relation::regclass) >= c.min_bytes
    ORDER BY c.retry_at, c.relation
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    kept := redrive.oldest_kept_xid();
    -- Many transactions end while a table waits for its next turn, so one that is still the oldest is held.
    IF redrive.table_bytes(due.relation::regclass) >= due.vacuum_bytes OR kept = due.kept_xid THEN
        EXECUTE format('SELECT redrive.rewrite($1, NULL::%s[], $2)', due.relation)
            INTO is_rewritten USING due.relation::regclass, due.max_rows;
    END IF;
    UPDATE redrive.compactions c
    SET retry_at = clock_timestamp() + interval '5 seconds' + 20 * (clock_timestamp() - begun), kept_xid = kept
    WHERE c.relation = due.relation;
    RETURN CASE WHEN is_rewritten THEN due.relation END;
END
$_$;

-- Name: complete_letter(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.complete_letter() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    stamp text := statement_timestamp();
    looked text := current_setting('redrive.looked', true);
    masked text;
    frame text;
    title text;
    key text;
    slot text;
    kept text;
    head text;
    line text;
    frames text;
BEGIN
    IF looked IS NULL OR NOT starts_with(looked, stamp) THEN
        looked := set_config('redrive.looked', concat(
            stamp, CASE WHEN EXISTS (SELECT FROM redrive.redactions) THEN 'r' END,
            CASE WHEN EXISTS (SELECT FROM redrive.group_rules) THEN 'g' END), true);
    END IF;
    IF looked <> stamp AND position('r' IN substr(looked, length(stamp) + 1)) > 0 THEN
        NEW := redrive.redact(NEW);
    END IF;
    IF octet_length(NEW.error_message) > 2048 THEN
        NEW.error_detail := redrive.clip(concat_ws(E'\n', NEW.error_message, NEW.error_detail), 65536);
        NEW.error_message := redrive.clip(NEW.error_message, 2048);
    END IF;

    -- Messages that differ only in digits have the same mask, unless digits are left in it.
    key := concat_ws(E'\x1f', stamp, translate(NEW.error_message, '123456789', '000000000'), '');
    slot := 'redrive.mask_' || (hashtext(key) & 255);
    kept := current_setting(slot, true);
    IF starts_with(kept, key) THEN
        masked := substr(kept, length(key) + 1);
    ELSE
        line := redrive.mask_ids(NEW.error_message);
        head := concat_ws(E'\x1f', stamp, line, '');
        kept := current_setting('redrive.mask_' || (hashtext(head) & 255), true);
        IF starts_with(kept, head) THEN
            masked := substr(kept, length(head) + 1);
        ELSE
            masked := redrive.mask_rest(line);
            PERFORM set_config('redrive.mask_' || (hashtext(head) & 255), head || masked, true);
        END IF;
        IF masked !~ '[0-9]' THEN
            PERFORM set_config(slot, key || masked, true);
        END IF;
    END IF;
    IF position(E'\n' IN NEW.error_detail) > 0 THEN
        -- Below the first line, which may contain ids, stack traces of one failure are often equal.
        line := split_part(NEW.error_detail, E'\n', 1);
        -- (Measured: `substr` takes four times as long as `replace` for a trace of 3 KiB.)
        key := concat_ws(E'\x1f', stamp, translate(line, '123456789', '000000000'),
            octet_length(NEW.error_detail) - octet_length(line),
            hashtextextended(replace(NEW.error_detail, line || E'\n', ''), 0), '');
        slot := 'redrive.frame_' || (hashtext(key) & 63);
        kept := current_setting(slot, true);
        IF starts_with(kept, key) THEN
            frame := nullif(substr(kept, length(key) + 1), '');
        ELSE
            frame := redrive.top_frame(NEW.error_detail);
            PERFORM set_config(slot, key || coalesce(frame, ''), true);
        END IF;
    END IF;
    -- The title identifies a failure within a queue, kind and error class.
    title := coalesce(NEW.failure_key, concat_ws(' at ', nullif(masked, ''), frame), '');
    key := concat_ws(E'\x1f', stamp, NEW.queue, NEW.kind, NEW.error_class, title, '');
    slot := 'redrive.group_' || (hashtext(key) & 63);
    kept := current_setting(slot, true);
    IF kept IS NOT NULL AND starts_with(kept, key) THEN
        NEW.group_id := substr(kept, length(key) + 1);
    ELSE
        NEW.group_id := redrive.group_of(
            NEW.queue, NEW.kind, NEW.error_class, title, NEW.error_message, NEW.version);
        PERFORM set_config(slot, key || NEW.group_id, true);
    END IF;
    IF looked <> stamp AND position('g' IN substr(looked, length(stamp) + 1)) > 0 THEN
        NEW.group_id := redrive.ruled_group(NEW);
    END IF;

    IF octet_length(NEW.error_detail) > 256 THEN
        -- Details of one failure differ in their cause, which comes first. Below the first line a detail
        -- usually equals the previous one and needs no masking. (Measured: this saves a seventh of the time
        -- of such a death.)
        head := left(NEW.error_detail, 250);
        line := split_part(head, E'\n', 1);
        frames := substr(head, length(line) + 1);
        line := regexp_replace(line, '\w*[0-9]\w*', '?', 'g');
        key := concat_ws(E'\x1f', stamp, NEW.group_id, line || frames, '');
        slot := 'redrive.detail_' || (hashtext(key) & 63);
        kept := current_setting(slot, true);
        IF kept IS NULL OR NOT starts_with(kept, key) THEN
            line := line || regexp_replace(frames, '\w*[0-9]\w*', '?', 'g');
            kept := key || coalesce(redrive.detail_of(NEW.group_id, line, NEW.error_detail)::text, '');
            PERFORM set_config(slot, kept, true);
        END IF;
        NEW.detail_id := nullif(substr(kept, length(key) + 1), '');
        -- If the detail is not stored, the letter keeps its start and its end.
        NEW.error_detail := CASE WHEN NEW.detail_id IS NULL THEN redrive.clip(NEW.error_detail, 1024) END;
    END IF;
    RETURN NEW;
END
$$;

-- Name: count_added_letters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_added_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT a.group_id, date_trunc('hour', a.died_at, 'UTC'), max(a.died_at),
           coalesce(sum(a.deaths) FILTER (WHERE a.died_at IS NOT NULL), 0),
           count(*) FILTER (WHERE a.state = 'open'), count(*) FILTER (WHERE a.state = 'redriving'),
           count(*) FILTER (WHERE a.state = 'recovered'), count(*) FILTER (WHERE a.state = 'discarded'),
           count(*) FILTER (WHERE a.state = 'quarantined')
    FROM (
        SELECT n.group_id, n.state, n.deaths,
               -- The deaths of a letter from the archive were counted when it died.
               CASE WHEN n.events -> -1 ->> 'event' IS DISTINCT FROM 'restored' THEN n.died_at END AS died_at
        FROM added n
    ) a
    GROUP BY 1, 2;
    RETURN NULL;
END
$$;

-- Name: count_archived(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_archived(filter jsonb) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    letters bigint;
BEGIN
    EXECUTE
        'SELECT count(*) FROM redrive.archived_letters a CROSS JOIN LATERAL redrive.unarchived(a.letter) l'
        ' WHERE ' || redrive.filter_archive(filter)
        INTO letters USING filter;
    RETURN letters;
END
$$;

-- Name: count_changed_letters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_changed_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    lowest  text;
    highest text;
BEGIN
    SELECT min(b.state), max(b.state) INTO lowest, highest FROM became b;
    -- A redrive: all are `redriving` now, and their groups did not change.
    IF lowest = 'redriving' AND highest = 'redriving' THEN
        INSERT INTO redrive.letter_deltas
            (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
        SELECT w.group_id, NULL, NULL, 0, -count(*) FILTER (WHERE w.state = 'open'), count(*), 0, 0,
               -count(*) FILTER (WHERE w.state = 'quarantined')
        FROM was w
        WHERE w.state IN ('open', 'quarantined')
        GROUP BY 1;
        RETURN NULL;
    END IF;
    -- A letter that died is open or quarantined. Redrives, recoveries and discards need no join.
    IF NOT EXISTS (SELECT FROM became b WHERE b.state IN ('open', 'quarantined')) THEN
        INSERT INTO redrive.letter_deltas
            (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
        SELECT c.group_id, NULL, NULL, 0,
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'open'), 0),
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'redriving'), 0),
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'recovered'), 0),
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'discarded'), 0),
               coalesce(sum(c.sign) FILTER (WHERE c.state = 'quarantined'), 0)
        FROM (SELECT w.group_id, w.state, -1 AS sign FROM was w
              UNION ALL
              SELECT b.group_id, b.state, 1 FROM became b) c
        GROUP BY 1
        HAVING sum(c.sign) <> 0 OR min(c.state) <> max(c.state);
        RETURN NULL;
    END IF;
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT c.group_id, date_trunc('hour', c.died_at, 'UTC'), max(c.died_at), sum(c.deaths),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'open'), 0),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'redriving'), 0),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'recovered'), 0),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'discarded'), 0),
           coalesce(sum(c.sign) FILTER (WHERE c.state = 'quarantined'), 0)
    FROM was
    -- A full join, because it can only be hashed or merged; see settle.sql. The condition below must not
    -- be strict: the planner would turn it into an inner join with nested loops.
    FULL JOIN became ON became.id = was.id
    CROSS JOIN LATERAL (VALUES
        (was.group_id, NULL::timestamptz, 0, was.state, -1),
        (became.group_id,
         CASE WHEN became.deaths > was.deaths THEN became.died_at END,
         became.deaths - was.deaths, became.state, 1)
    ) AS c (group_id, died_at, deaths, state, sign)
    WHERE was.state IS DISTINCT FROM became.state OR was.deaths IS DISTINCT FROM became.deaths
        OR was.group_id IS DISTINCT FROM became.group_id
    GROUP BY 1, 2;
    RETURN NULL;
END
$$;

-- Name: count_jobs(jsonb, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_jobs(filter jsonb, priority integer DEFAULT NULL::integer) RETURNS TABLE(state text, jobs bigint, alike bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT j.state, count(*), count(*) FILTER (WHERE j.priority = $2) FROM redrive.live_jobs j WHERE '
        || redrive.filter_jobs(filter) || ' GROUP BY j.state'
        USING filter, priority;
END
$_$;

-- Name: count_letters(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_letters(filter jsonb, OUT letters bigint, OUT redrivable bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
DECLARE
    conditions text := redrive.filter_letters(filter);
    states text[] := redrive.filter_values(filter -> 'state');
    groups bigint[] := redrive.filter_group_ids(filter);
    not_redrivable bigint;
BEGIN
    IF states <@ '{open,quarantined}' AND filter - '{queue,kind,class,group,state}'::text[] = '{}' THEN
        SELECT coalesce(sum(CASE WHEN 'open' = ANY (states) THEN f.open ELSE 0 END
                            + CASE WHEN 'quarantined' = ANY (states) THEN f.quarantined ELSE 0 END), 0),
               coalesce(sum(CASE WHEN 'open' = ANY (states) THEN f.open ELSE 0 END), 0)
        INTO letters, redrivable
        FROM redrive.failure_groups f
        WHERE (groups IS NULL OR f.id = ANY (groups))
            AND f.queue = coalesce(filter ->> 'queue', f.queue) AND f.kind = coalesce(filter ->> 'kind', f.kind);
        IF redrivable > 0 THEN
            EXECUTE 'SELECT count(*) FROM redrive.dead_letters l'
                    ' WHERE l.state = ''open'' AND (l.payload IS NULL OR l.redacted IS NOT NULL) AND ' || conditions
                INTO not_redrivable USING filter;
            redrivable := redrivable - not_redrivable;
        END IF;
        RETURN;
    END IF;
    EXECUTE 'SELECT count(*), count(*) FILTER ('
            '  WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.redacted IS NULL)'
            ' FROM redrive.dead_letters l WHERE ' || conditions
        INTO letters, redrivable USING filter;
END
$$;

-- Name: count_letters_by(jsonb, text, text[], bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_letters_by(filter jsonb, property text, path text[] DEFAULT NULL::text[], max_values bigint DEFAULT 10000) RETURNS TABLE(value text, letters bigint, first_at timestamp with time zone, last_at timestamp with time zone)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $_$
DECLARE
    expression text := CASE property
        WHEN 'group' THEN 'l.group_id'
        WHEN 'queue' THEN 'l.queue'
        WHEN 'kind' THEN 'l.kind'
        WHEN 'class' THEN 'l.error_class'
        WHEN 'cause' THEN 'l.cause'
        WHEN 'state' THEN 'l.state'
        WHEN 'version' THEN 'l.version'
        WHEN 'host' THEN 'l.host'
        WHEN 'source' THEN 'l.source'
        WHEN 'payload' THEN 'l.payload #>> $2'
    END;
BEGIN
    IF expression IS NULL THEN
        RAISE EXCEPTION 'redrive: unknown property % of a letter', coalesce(quote_literal(property), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Expected one of group, queue, kind, class, cause, state, version, host, source, payload.';
    END IF;
    RETURN QUERY EXECUTE
        'SELECT (' || expression || ')::text, count(*), min(l.died_at), max(l.died_at) FROM redrive.dead_letters l WHERE '
        || redrive.filter_letters(filter) || ' GROUP BY 1 ORDER BY 2 DESC, 4 DESC, 1 LIMIT $3'
        USING filter, path, max_values;
END
$_$;

-- Name: count_own_run(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_own_run() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, buckets, counts, sums)
    SELECT r.segment, NEW.queue, '{run,end_to_end}', '{succeeded,NULL}',
           -- The number of bounds below the value. A function call would cost as much as the rest.
           ARRAY[
               (SELECT count(*) FROM unnest(run.bounds) AS b (bound) WHERE b.bound < o.run),
               (SELECT count(*) FROM unnest(whole.bounds) AS b (bound) WHERE b.bound < o.whole)]::smallint[],
           '{1,1}', ARRAY[o.run, o.whole]
    FROM redrive.metric_ring r
    CROSS JOIN (VALUES (
        date_part('epoch', clock_timestamp() - NEW.began_at),
        date_part('epoch', clock_timestamp() - NEW.born_at))) AS o (run, whole)
    JOIN redrive.counter_keys run ON run.key = 'run'
    JOIN redrive.counter_keys whole ON whole.key = 'end_to_end';
    RETURN NULL;
END
$$;

-- Name: count_removed_letters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_removed_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT r.group_id, NULL, NULL, 0,
           -count(*) FILTER (WHERE r.state = 'open'), -count(*) FILTER (WHERE r.state = 'redriving'),
           -count(*) FILTER (WHERE r.state = 'recovered'), -count(*) FILTER (WHERE r.state = 'discarded'),
           -count(*) FILTER (WHERE r.state = 'quarantined')
    FROM removed r
    GROUP BY 1;
    RETURN NULL;
END
$$;

-- Name: count_restored(bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.count_restored(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    added record;
BEGIN
    FOR added IN
        SELECT l.group_id, sum(l.deaths) AS deaths, min(l.died_at) AS first_at, max(l.died_at) AS last_at
        FROM redrive.dead_letters l
        JOIN redrive.archived_letters a ON a.id = l.id
        WHERE l.id = ANY (ids)
            AND NOT EXISTS (SELECT FROM redrive.groups g WHERE g.id = (a.letter ->> 'group_id')::bigint)
        GROUP BY l.group_id
    LOOP
        INSERT INTO redrive.letter_deltas
            (group_id, deaths, open, redriving, recovered, discarded, quarantined)
        VALUES (added.group_id, added.deaths, 0, 0, 0, 0, 0);
        UPDATE redrive.groups g
        SET first_seen = least(g.first_seen, added.first_at),
            -- This statement may have created the group.
            last_seen = CASE WHEN g.first_seen >= statement_timestamp() THEN added.last_at
                ELSE greatest(g.last_seen, added.last_at) END
        WHERE g.id = added.group_id;
    END LOOP;
END
$$;

-- Name: create_run(jsonb, text, text, text, integer, integer, boolean, bigint, integer, bigint, uuid, integer, integer, integer, bigint[], bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.create_run(filter jsonb, reason text DEFAULT NULL::text, person text DEFAULT NULL::text, to_queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer, force boolean DEFAULT false, max_letters bigint DEFAULT NULL::bigint, rate integer DEFAULT 100, canary bigint DEFAULT 0, driver uuid DEFAULT NULL::uuid, lease_ms integer DEFAULT 10000, tolerated integer DEFAULT 10, sample integer DEFAULT 20, only_ids bigint[] DEFAULT NULL::bigint[], delay_ms bigint DEFAULT NULL::bigint, OUT id bigint, OUT letters bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
DECLARE
    queues text[];
    needs_approval boolean;
BEGIN
    PERFORM redrive.check_redrive(create_run.to_queue, create_run.priority, create_run.max_attempts,
                                  force, create_run.reason, create_run.delay_ms);
    IF create_run.rate NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'redrive: the rate is %; it must be between 1 and 1000000 letters per second', create_run.rate
            USING ERRCODE = 'invalid_parameter_value', HINT = 'NULL means unlimited.';
    END IF;
    IF create_run.canary IS NULL OR create_run.canary < 0 THEN
        RAISE EXCEPTION 'redrive: the canary is %; it must be a number of letters or 0', create_run.canary
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF create_run.tolerated IS NULL OR create_run.tolerated NOT BETWEEN 0 AND 100 THEN
        RAISE EXCEPTION 'redrive: the tolerated share is %; it must be 0 to 100 percent', create_run.tolerated
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF create_run.sample NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'redrive: the sample is %; it must be between 1 and 1000000 outcomes', create_run.sample
            USING ERRCODE = 'invalid_parameter_value', HINT = 'NULL means that the run never halts.';
    END IF;
    IF create_run.canary > 0 AND create_run.sample IS NULL THEN
        RAISE EXCEPTION 'redrive: a run with a canary must be able to halt; give it a sample'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    create_run.id := nextval(pg_get_serial_sequence('redrive.redrive_runs', 'id'));
    EXECUTE
        'INSERT INTO redrive.run_letters (run_id, ordinal, letter_id)'
        ' SELECT $2, row_number() OVER (ORDER BY l.died_at, l.id), l.id FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $4 AND l.state = ''quarantined'') AND '
        || redrive.filter_letters(create_run.filter)
        || CASE WHEN only_ids IS NULL THEN '' ELSE ' AND l.id = ANY ($5)' END ||
        ' ORDER BY l.died_at, l.id LIMIT $3'
        USING create_run.filter, create_run.id, create_run.max_letters, force, only_ids;
    GET DIAGNOSTICS letters = ROW_COUNT;
    IF letters = 0 THEN
        create_run.id := NULL;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM redrive.protections) THEN
        SELECT array_agg(q.queue), bool_or(q.letters > q.approve_above) INTO queues, needs_approval
        FROM (
            SELECT p.queue::text AS queue, p.approve_above, count(*) AS letters
            FROM redrive.run_letters m
            JOIN redrive.dead_letters l ON l.id = m.letter_id
            JOIN redrive.protections p ON p.queue = l.queue
            WHERE m.run_id = create_run.id
            GROUP BY 1, 2
        ) q;
        PERFORM redrive.check_allowed(coalesce(queues, '{}'));
    END IF;
    INSERT INTO redrive.redrive_runs
        (id, state, filter, person, reason, forced, to_queue, priority, max_attempts, delay_ms, rate, canary, tolerated,
         sample, stage_to, driver, driver_expires_at, term, total)
    OVERRIDING SYSTEM VALUE VALUES
        (create_run.id, CASE WHEN needs_approval THEN 'unapproved' ELSE 'running' END, create_run.filter, left(create_run.person, 200), left(create_run.reason, 1024), force,
         create_run.to_queue, create_run.priority, create_run.max_attempts, nullif(create_run.delay_ms, 0),
         create_run.rate,
         create_run.canary, create_run.tolerated, create_run.sample, nullif(create_run.canary, 0), create_run.driver,
         CASE WHEN create_run.driver IS NOT NULL
             THEN clock_timestamp() + lease_ms * interval '1 millisecond' END,
         CASE WHEN create_run.driver IS NOT NULL THEN 1 ELSE 0 END, letters);
    IF create_run.rate IS NULL AND create_run.canary = 0 THEN
        INSERT INTO redrive.run_chunks (run_id, upto, cursor)
        SELECT create_run.id, least(s.before + 5000, letters), s.before
        FROM generate_series(0, letters - 1, 5000) AS s (before);
    END IF;
    PERFORM redrive.record_act('create_run', create_run.person, create_run.reason, create_run.filter, 0,
        jsonb_strip_nulls(jsonb_build_object('run', create_run.id, 'members', letters,
            'to', create_run.to_queue, 'priority', create_run.priority,
            'max_attempts', create_run.max_attempts, 'delay_ms', nullif(create_run.delay_ms, 0),
            'rate', create_run.rate,
            'canary', nullif(create_run.canary, 0), 'tolerated', nullif(create_run.tolerated, 10),
            'needs_approval', nullif(coalesce(needs_approval, false), false), 'never_halts', nullif(create_run.sample IS NULL, false), 'only', cardinality(only_ids), 'forced', nullif(force, false))));
END
$_$;

-- Name: cut_history(jsonb, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.cut_history(history jsonb, max_records integer) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    words CONSTANT text[] := '{generation,outcome,error_class,error_message,worker,host,version,pid}';
    cut   jsonb := history;
    left_over jsonb;
BEGIN
    WHILE jsonb_array_length(cut) > max_records LOOP
        left_over := (
            SELECT jsonb_object_agg(e.key, e.value)
            FROM jsonb_each(redrive.expand_record(cut -> 5)) e
            WHERE e.key = ANY (words));
        IF left_over IS NOT NULL THEN
            cut := jsonb_set(cut, '{4}', left_over || redrive.expand_record(cut -> 4));
        END IF;
        cut := cut - 5;
    END LOOP;
    RETURN cut;
END
$$;

-- Name: delete_archived(jsonb, bigint, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.delete_archived(filter jsonb, max_letters bigint, person text, reason text, audit bigint DEFAULT NULL::bigint, OUT letters bigint, OUT audit_id bigint) RETURNS SETOF record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    EXECUTE
        'DELETE FROM redrive.archived_letters d WHERE d.id = ANY (ARRAY('
        ' SELECT a.id FROM redrive.archived_letters a CROSS JOIN LATERAL redrive.unarchived(a.letter) l'
        ' WHERE ' || redrive.filter_archive(filter) || ' ORDER BY a.id LIMIT $2 FOR UPDATE OF a))'
        USING filter, max_letters;
    GET DIAGNOSTICS letters = ROW_COUNT;
    IF letters > 0 THEN
        audit_id := redrive.record_act('delete_archived', person, reason, filter, letters,
            CASE WHEN audit IS NOT NULL THEN jsonb_build_object('batch_of', audit) END);
        audit_id := coalesce(audit, audit_id);
        RETURN NEXT;
    END IF;
END
$_$;

-- Name: delete_event(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.delete_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF redrive.remove_event(OLD.id, 'delete') THEN
        RETURN OLD;
    ELSIF OLD.status = 'SUCCEEDED' THEN
        -- Another session was faster.
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'redrive: event % is %; only closed events can be deleted', OLD.id, OLD.status
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'redrive.discard closes a letter.';
END
$$;

-- Name: delete_pieces(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.delete_pieces() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM redrive.captured_pieces) THEN
        DELETE FROM redrive.captured_pieces p
        WHERE p.letter_id = ANY (ARRAY(SELECT r.id FROM removed r))
            AND NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.id = p.letter_id)
            AND NOT EXISTS (SELECT FROM redrive.archived_letters a WHERE a.id = p.letter_id);
    END IF;
    RETURN NULL;
END
$$;

-- Name: delete_version_pieces(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.delete_version_pieces() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM redrive.captured_pieces) THEN
        DELETE FROM redrive.captured_pieces p
        USING removed r
        WHERE p.letter_id = r.letter_id AND p.version = r.version
            AND NOT EXISTS (SELECT FROM redrive.archived_letters a WHERE a.id = p.letter_id);
    END IF;
    RETURN NULL;
END
$$;

-- Name: delete_versions(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.delete_versions() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM redrive.letter_versions v
    WHERE v.letter_id = ANY (ARRAY(SELECT r.id FROM removed r WHERE r.edits > 0));
    RETURN NULL;
END
$$;

-- Name: detail_of(bigint, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.detail_of(group_id bigint, masked text, detail text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    print uuid := redrive.fingerprint('', '', '', masked);
    found_id bigint;
BEGIN
    SELECT d.id INTO found_id FROM redrive.details d
    WHERE d.group_id = detail_of.group_id AND d.digest = print;
    -- Fifty different details describe a failure well enough.
    IF found_id IS NULL AND 50 > (
        SELECT count(*) FROM (
            SELECT FROM redrive.details d WHERE d.group_id = detail_of.group_id LIMIT 50) kept)
    THEN
        INSERT INTO redrive.details AS d (group_id, digest, detail)
        VALUES (detail_of.group_id, print, detail_of.detail)
        ON CONFLICT ON CONSTRAINT details_group_id_digest_key DO UPDATE SET digest = excluded.digest
        RETURNING d.id INTO found_id;
    END IF;
    RETURN found_id;
END
$$;

-- Name: discard(jsonb, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.discard(filter jsonb, reason text, person text DEFAULT NULL::text, max_letters bigint DEFAULT NULL::bigint) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT count(*)
    FROM redrive.discard_letters($1, statement_timestamp(), coalesce($4, 9223372036854775807), $2, $3) d
$_$;

-- Name: discard_letters(jsonb, timestamp with time zone, bigint, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.discard_letters(filter jsonb, as_of timestamp with time zone, max_letters bigint, reason text, person text, audit bigint DEFAULT NULL::bigint) RETURNS TABLE(id bigint, audit_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    chosen    bigint[];
    operation bigint := discard_letters.audit;
    act       bigint;
    event     jsonb := jsonb_build_object('at', clock_timestamp(), 'event', 'discarded',
        'by', coalesce(person, session_user), 'reason', reason);
BEGIN
    IF coalesce(btrim(reason, E' \t\r\n'), '') = '' THEN
        RAISE EXCEPTION 'redrive: a discard needs a reason' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    chosen := ARRAY(SELECT c FROM redrive.lock_letters(
        discard_letters.filter, '{open,quarantined}', as_of, max_letters) AS c);
    IF cardinality(chosen) = 0 THEN
        RETURN;
    END IF;
    act := redrive.record_act('discard', person, reason, discard_letters.filter, cardinality(chosen),
        CASE WHEN operation IS NOT NULL THEN jsonb_build_object('batch_of', operation) END);
    operation := coalesce(operation, act);
    UPDATE redrive.dead_letters l
    SET state = 'discarded', discard_reason = redrive.clip(discard_letters.reason, 1024),
        audit_id = operation, changed_at = clock_timestamp(),
        events = redrive.add_event(l.events, CASE l.state
            WHEN 'quarantined' THEN event || '{"was": "quarantined"}' ELSE event END)
    WHERE l.id = ANY (chosen);
    RETURN QUERY SELECT u.id, operation FROM unnest(chosen) AS u (id);
END
$$;

-- Name: divert(text, text[], bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.divert(queue text, group_keys text[], max_jobs bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    held   text[];
    locked text[];
    jobs   redrive.waiting_job[];
BEGIN
    -- A redrive of the letter waits, or has already let its job run.
    held := ARRAY(
        SELECT s.group_key::text
        FROM redrive.group_slots s
        WHERE s.queue = divert.queue AND s.group_key = ANY (divert.group_keys) AND s.held_at IS NOT NULL
            AND EXISTS (
                SELECT FROM redrive.group_policies p WHERE p.queue = divert.queue AND p.on_death = 'divert')
        FOR UPDATE OF s SKIP LOCKED);
    -- No other session ends the diversion of a group whose row is locked here. A group whose diversion another session is
    -- ending is left out.
    locked := ARRAY(
        SELECT d.group_key::text
        FROM redrive.diverted_groups d
        WHERE d.queue = divert.queue AND d.group_key = ANY (held)
        FOR UPDATE SKIP LOCKED);
    held := locked || ARRAY(
        SELECT h.group_key
        FROM unnest(held) AS h (group_key)
        WHERE NOT EXISTS (
            SELECT FROM redrive.diverted_groups d WHERE d.queue = divert.queue AND d.group_key = h.group_key));
    SELECT array_agg(ROW(NULL, j.id, j.ready_at, j.enqueued_at, j.attempt, j.max_attempts, j.generation, j.priority,
               j.crashes, j.refunds, j.queue, j.kind, j.payload, j.history, j.unique_key, j.outage_since, j.headers,
               j.group_key)::redrive.waiting_job ORDER BY j.id)
    INTO jobs
    FROM (
        SELECT array_agg(w.tid) AS tids
        FROM (
            SELECT k.ctid AS tid
            FROM redrive.jobs_waiting k
            WHERE k.queue = divert.queue AND k.group_key = ANY (held)
            ORDER BY k.group_key, k.id
            LIMIT divert.max_jobs
            FOR UPDATE SKIP LOCKED
        ) w
    ) t
    CROSS JOIN LATERAL redrive.take_jobs(8::smallint, t.tids) j;
    IF jobs IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO redrive.diverted_groups (queue, group_key)
    SELECT DISTINCT j.queue, j.group_key FROM unnest(jobs) j
    ORDER BY 1, 2
    ON CONFLICT DO NOTHING;
    PERFORM redrive.bury_waiting(jobs, 'diverted', 'diverted', 'an earlier job of the group is dead');
    RETURN cardinality(jobs);
END
$$;

-- Name: drive_chunk(bigint, uuid, bigint, integer, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.drive_chunk(run bigint, my_driver uuid, my_term bigint, lease_ms integer, max_letters bigint, OUT status text, OUT sent_now bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    r        redrive.redrive_runs;
    mine     redrive.run_chunks;
    until    bigint;
    ids      bigint[];
    ordinals bigint[];
BEGIN
    sent_now := 0;
    SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run FOR KEY SHARE;
    IF NOT FOUND OR r.driver IS DISTINCT FROM my_driver OR r.term <> my_term OR r.state <> 'running' THEN
        status := CASE WHEN r.state = 'running' OR r.id IS NULL THEN 'lost' ELSE r.state END;
        RETURN;
    END IF;
    SELECT s.* INTO mine FROM redrive.run_chunks s
    WHERE s.run_id = run
    ORDER BY s.upto LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        status := 'busy';
        RETURN;
    END IF;
    until := least(mine.cursor + max_letters, mine.upto);
    IF until = mine.upto THEN
        DELETE FROM redrive.run_chunks s WHERE s.run_id = run AND s.upto = mine.upto;
    ELSE
        UPDATE redrive.run_chunks s SET cursor = until WHERE s.run_id = run AND s.upto = mine.upto;
    END IF;
    SELECT coalesce(array_agg(m.letter_id ORDER BY m.ordinal), '{}'), coalesce(array_agg(m.ordinal ORDER BY m.ordinal), '{}')
    INTO ids, ordinals
    FROM redrive.run_letters m
    WHERE m.run_id = run AND m.ordinal > mine.cursor AND m.ordinal <= until;
    sent_now := redrive.send_members(r, ids, ordinals);
    INSERT INTO redrive.run_deltas (run_id, tried, sent, skipped)
    VALUES (run, until - mine.cursor, sent_now, until - mine.cursor - sent_now);

    -- Lock the row of the run before writing it, and skip it if locked, so that two steps cannot deadlock.
    PERFORM FROM redrive.redrive_runs c
    WHERE c.id = run
        AND (c.started_at IS NULL OR c.driver_expires_at < clock_timestamp() + lease_ms * interval '0.5 milliseconds')
    FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE redrive.redrive_runs c
        SET started_at = coalesce(c.started_at, clock_timestamp()),
            driver_expires_at = clock_timestamp() + lease_ms * interval '1 millisecond'
        WHERE c.id = run;
    END IF;
    PERFORM FROM redrive.run_deltas d WHERE d.run_id = run OFFSET 199 LIMIT 1;
    IF FOUND THEN
        PERFORM FROM redrive.redrive_runs c WHERE c.id = run FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    IF FOUND THEN
        WITH folded AS (
            DELETE FROM redrive.run_deltas d WHERE d.run_id = run RETURNING d.*
        )
        UPDATE redrive.redrive_runs c
        SET cursor = c.cursor + n.tried, sent = c.sent + n.sent, skipped = c.skipped + n.skipped,
            recovered = c.recovered + n.recovered, died_alike = c.died_alike + n.died_alike,
            died_differently = c.died_differently + n.died_differently
        FROM (
            SELECT coalesce(sum(f.tried), 0) AS tried, coalesce(sum(f.sent), 0) AS sent,
                   coalesce(sum(f.skipped), 0) AS skipped, coalesce(sum(f.recovered), 0) AS recovered,
                   coalesce(sum(f.died_alike), 0) AS died_alike,
                   coalesce(sum(f.died_differently), 0) AS died_differently
            FROM folded f
        ) n
        WHERE c.id = run;
    END IF;
    status := 'sent';
END
$$;

-- Name: drive_run(bigint, uuid, bigint, integer, bigint, text, integer, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.drive_run(run bigint, my_driver uuid, my_term bigint, lease_ms integer, max_letters bigint, halt text, next_stage integer, next_stage_to bigint, OUT status text, OUT wait_ms bigint, OUT sent_now bigint, OUT canary bigint, OUT stage integer, OUT stage_to bigint, OUT stage_sent bigint, OUT stage_recovered bigint, OUT stage_died bigint, OUT total bigint, OUT cursor bigint, OUT sent bigint, OUT skipped bigint, OUT recovered bigint, OUT died bigint, OUT chunks bigint, OUT tolerated integer, OUT sample integer) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    r        redrive.redrive_runs;
    moment   timestamptz;
    bound    bigint;
    due      bigint;
    ids      bigint[] := '{}';
    ordinals bigint[] := '{}';
    retried  boolean := false;
BEGIN
    sent_now := 0;
    wait_ms := 0;
    chunks := 0;
    -- Check before any lock: two connections that share the lock of the run for a chunk could not upgrade
    -- it. A finished chunk is visible until its step commits. A halt needs no chunk, and waits for the steps
    -- of the other connection.
    IF halt IS NULL AND EXISTS (SELECT FROM redrive.run_chunks s WHERE s.run_id = run) THEN
        SELECT d.status, d.sent_now INTO status, sent_now
        FROM redrive.drive_chunk(run, my_driver, my_term, lease_ms, max_letters) d;
        IF status NOT IN ('sent', 'busy') THEN
            RETURN;
        END IF;
        SELECT n.total, n.cursor, n.sent, n.skipped, n.recovered, n.died_alike + n.died_differently,
               c.canary, c.stage, c.stage_to, c.stage_sent, c.stage_recovered, c.stage_died, c.tolerated, c.sample
        INTO total, cursor, sent, skipped, recovered, died,
             canary, stage, stage_to, stage_sent, stage_recovered, stage_died, tolerated, sample
        FROM redrive.runs n JOIN redrive.redrive_runs c ON c.id = n.id WHERE n.id = run;
        chunks := (SELECT count(*) FROM (
            SELECT FROM redrive.run_chunks s WHERE s.run_id = run LIMIT 2) few);
        RETURN;
    END IF;
    SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run FOR UPDATE;
    moment := clock_timestamp();
    IF NOT FOUND OR r.driver IS DISTINCT FROM my_driver OR r.term <> my_term THEN
        status := CASE WHEN r.state = 'running' OR r.id IS NULL THEN 'lost' ELSE r.state END;
        RETURN;
    END IF;

    WITH folded AS (
        DELETE FROM redrive.run_deltas d WHERE d.run_id = run RETURNING d.*
    )
    SELECT r.cursor + coalesce(sum(f.tried), 0), r.sent + coalesce(sum(f.sent), 0),
           r.skipped + coalesce(sum(f.skipped), 0),
           r.recovered + coalesce(sum(f.recovered), 0), r.died_alike + coalesce(sum(f.died_alike), 0),
           r.died_differently + coalesce(sum(f.died_differently), 0)
    INTO r.cursor, r.sent, r.skipped, r.recovered, r.died_alike, r.died_differently
    FROM folded f;

    IF r.state = 'running' AND halt IS NOT NULL THEN
        r.state := 'halted';
        r.halted_because := halt;
        PERFORM redrive.record_act('halt_run', r.person, halt, r.filter, 0, jsonb_build_object('run', run));
    ELSIF r.state = 'running' THEN
        IF next_stage = r.stage + 1 THEN
            r.stage := next_stage;
            r.stage_to := next_stage_to;
            r.stage_sent := r.sent;
            r.stage_recovered := r.recovered;
            r.stage_died := r.died_alike + r.died_differently;
        END IF;
        r.started_at := coalesce(r.started_at, moment);
        bound := least(r.total, coalesce(r.stage_to, r.total));
        IF r.rate IS NULL THEN
            due := max_letters;
        ELSE
            -- How many letters are due by the rate. A late driver catches up by at most one second.
            r.next_at := greatest(r.next_at, moment - interval '1 second');
            due := floor(extract(epoch FROM moment - r.next_at) * r.rate) + 1;
            due := CASE WHEN r.next_at > moment THEN 0 ELSE least(due, max_letters) END;
        END IF;

        IF r.cursor < bound AND due > 0 THEN
            SELECT array_agg(m.letter_id ORDER BY m.ordinal), array_agg(m.ordinal ORDER BY m.ordinal)
            INTO ids, ordinals
            FROM redrive.run_letters m
            WHERE m.run_id = run AND m.ordinal > r.cursor AND m.ordinal <= least(r.cursor + due, bound);
            r.cursor := least(r.cursor + due, bound);
        ELSIF r.cursor = r.total AND r.sweeps < 5 AND moment >= r.next_at THEN
            -- Retry members that were locked, once per second.
            SELECT coalesce(array_agg(m.letter_id), '{}'), coalesce(array_agg(m.ordinal), '{}')
            INTO ids, ordinals
            FROM (
                SELECT o.letter_id, o.ordinal FROM redrive.run_letters o
                WHERE o.run_id = run AND o.outcome = 'skipped_locked'
                ORDER BY o.ordinal LIMIT max_letters
            ) m;
            retried := cardinality(ids) > 0;
            r.sweeps := CASE WHEN retried THEN r.sweeps + 1 ELSE 5 END;
        END IF;

        IF cardinality(ids) > 0 THEN
            IF retried THEN
                UPDATE redrive.run_letters m SET outcome = NULL
                WHERE m.run_id = run AND m.ordinal = ANY (ordinals);
                r.skipped := r.skipped - cardinality(ids);
            END IF;
            sent_now := redrive.send_members(r, ids, ordinals);
            r.skipped := r.skipped + cardinality(ids) - sent_now;
            r.sent := r.sent + sent_now;
            IF retried THEN
                r.next_at := moment + interval '1 second';
            ELSIF r.rate IS NOT NULL THEN
                r.next_at := r.next_at + cardinality(ids) * (interval '1 second' / r.rate);
            END IF;
        END IF;
        IF r.cursor = r.total AND (r.skipped = 0 OR r.sweeps >= 5) THEN
            r.state := 'finished';
            r.stage_to := NULL;
        END IF;
        wait_ms := greatest(0, ceil(extract(epoch FROM r.next_at - clock_timestamp()) * 1000));
    END IF;

    IF r.state IN ('halted', 'finished') AND r.ended_at IS NULL THEN
        r.ended_at := clock_timestamp();
    END IF;
    UPDATE redrive.redrive_runs c
    SET state = r.state, halted_because = r.halted_because, started_at = r.started_at,
        ended_at = r.ended_at, stage = r.stage, stage_to = r.stage_to, stage_sent = r.stage_sent,
        stage_recovered = r.stage_recovered, stage_died = r.stage_died, next_at = r.next_at,
        cursor = r.cursor, sweeps = r.sweeps, sent = r.sent, skipped = r.skipped,
        recovered = r.recovered, died_alike = r.died_alike, died_differently = r.died_differently,
        driver = CASE WHEN r.state = 'running' THEN r.driver END,
        driver_expires_at = CASE WHEN r.state = 'running'
            THEN clock_timestamp() + lease_ms * interval '1 millisecond' END
    WHERE c.id = run;

    status := CASE WHEN r.state <> 'running' THEN r.state WHEN cardinality(ids) > 0 THEN 'sent' ELSE 'waiting' END;
    canary := r.canary;
    tolerated := r.tolerated;
    sample := r.sample;
    stage := r.stage;
    stage_to := r.stage_to;
    stage_sent := r.stage_sent;
    stage_recovered := r.stage_recovered;
    stage_died := r.stage_died;
    total := r.total;
    cursor := r.cursor;
    sent := r.sent;
    skipped := r.skipped;
    recovered := r.recovered;
    died := r.died_alike + r.died_differently;
END
$$;

-- Name: drop_redacted_pieces(bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.drop_redacted_pieces(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM redrive.captured_pieces p
    WHERE p.letter_id = ANY (ids) AND (
        EXISTS (SELECT FROM redrive.dead_letters l
            WHERE l.id = p.letter_id AND l.edits = p.version AND '' = ANY (l.redacted))
        OR EXISTS (SELECT FROM redrive.letter_versions v
            WHERE v.letter_id = p.letter_id AND v.version = p.version AND '' = ANY (v.redacted)));
END
$$;

-- Name: policies; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.policies (
    id bigint NOT NULL,
    name redrive.name NOT NULL,
    filter jsonb NOT NULL,
    every interval NOT NULL,
    growth double precision NOT NULL,
    max_delay interval NOT NULL,
    batch integer NOT NULL,
    generations integer NOT NULL,
    from_hour smallint,
    to_hour smallint,
    while_closed boolean NOT NULL,
    mode text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    next_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_at timestamp with time zone,
    last_letters bigint DEFAULT 0 NOT NULL,
    last_error text,
    sent bigint DEFAULT 0 NOT NULL,
    term bigint DEFAULT 0 NOT NULL,
    holder uuid,
    lease_until timestamp with time zone,
    CONSTRAINT policies_batch_check CHECK (((batch >= 1) AND (batch <= 10000))),
    CONSTRAINT policies_check CHECK (((max_delay >= every) AND (max_delay <= '3660 days'::interval))),
    CONSTRAINT policies_every_check CHECK (((every >= '00:00:01'::interval) AND (every <= '366 days'::interval))),
    CONSTRAINT policies_filter_check CHECK ((jsonb_typeof(filter) = 'object'::text)),
    CONSTRAINT policies_from_hour_check CHECK (((from_hour >= 0) AND (from_hour <= 23))),
    CONSTRAINT policies_generations_check CHECK (((generations >= 1) AND (generations <= 100000))),
    CONSTRAINT policies_growth_check CHECK (((growth >= (1)::double precision) AND (growth <= (100)::double precision))),
    CONSTRAINT policies_hours_have_two_ends CHECK (((((from_hour IS NULL) = (to_hour IS NULL)) AND (from_hour IS DISTINCT FROM to_hour)) OR (from_hour IS NULL))),
    CONSTRAINT policies_last_letters_check CHECK ((last_letters >= 0)),
    CONSTRAINT policies_leases_end CHECK (((holder IS NULL) = (lease_until IS NULL))),
    CONSTRAINT policies_mode_check CHECK ((mode = ANY (ARRAY['active'::text, 'dry_run'::text, 'paused'::text]))),
    CONSTRAINT policies_sent_check CHECK ((sent >= 0)),
    CONSTRAINT policies_to_hour_check CHECK (((to_hour >= 0) AND (to_hour <= 23)))
);

-- Name: TABLE policies; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.policies IS 'Automatic redrives: each tick redrives the oldest open letters that are due.';

-- Name: COLUMN policies.every; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.every IS 'Time between ticks.';

-- Name: COLUMN policies.growth; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.growth IS 'Factor by which the delay of a letter grows with each generation.';

-- Name: COLUMN policies.max_delay; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.max_delay IS 'Upper bound of that delay.';

-- Name: COLUMN policies.batch; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.batch IS 'How many letters a tick redrives at most.';

-- Name: COLUMN policies.generations; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.generations IS 'A letter that was redriven this many times is skipped.';

-- Name: COLUMN policies.from_hour; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.from_hour IS 'First hour of the day (UTC) with ticks; they end before `to_hour`. The range may span midnight.';

-- Name: COLUMN policies.while_closed; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.while_closed IS 'Skip queues whose breaker is not closed.';

-- Name: COLUMN policies.last_letters; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.last_letters IS 'How many letters the last tick redrove, or would have redriven in a dry run.';

-- Name: COLUMN policies.last_error; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.last_error IS 'The error of the last tick; NULL: it succeeded.';

-- Name: COLUMN policies.term; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.term IS 'The fence: it grows when another process takes over, and a tick of an older term has no effect.';

-- Name: COLUMN policies.holder; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.policies.holder IS 'The worker that runs it until `lease_until`.';

-- Name: due_letters(redrive.policies, timestamp with time zone, text[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.due_letters(policy redrive.policies, tick timestamp with time zone, without_queues text[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    due bigint[];
BEGIN
    EXECUTE
        'SELECT array_agg(d.id) FROM ('
        ' SELECT l.id FROM redrive.dead_letters l'
        ' WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.redacted IS NULL AND l.generation < $2'
        '    AND ($4 <= 1 OR l.generation = 0'
        '         OR l.died_at <= $8 - redrive.policy_wait($3, $4, $5, l.generation))'
        '    AND l.queue <> ALL ($6)'
        -- Letters that cannot be sent would take the places of others at every tick.
        '    AND (l.unique_key IS NULL OR NOT EXISTS ('
        '        SELECT FROM redrive.unique_keys k WHERE k.queue = l.queue AND k.key = l.unique_key))'
        '    AND ' || redrive.filter_letters(policy.filter) ||
        ' ORDER BY l.died_at, l.id LIMIT $7'
        || CASE WHEN policy.mode = 'active' THEN ' FOR UPDATE SKIP LOCKED' ELSE '' END || ') d'
        INTO due
        USING policy.filter, policy.generations, policy.every, policy.growth, policy.max_delay,
              without_queues, policy.batch, tick;
    RETURN coalesce(due, '{}');
END
$_$;

-- Name: edit_letter(bigint, jsonb, text, text, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.edit_letter(id bigint, payload jsonb, reason text DEFAULT NULL::text, person text DEFAULT NULL::text, expected_edits integer DEFAULT NULL::integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    found_edits integer;
    new_version integer;
BEGIN
    IF edit_letter.payload IS NULL THEN
        RAISE EXCEPTION 'redrive: the payload is NULL; use ''null''::jsonb for a JSON null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    found_edits := redrive.lock_for_edit(edit_letter.id);
    IF found_edits <> edit_letter.expected_edits THEN
        RAISE EXCEPTION 'redrive: letter % was edited in the meantime: it has % edits, expected %',
            edit_letter.id, found_edits, edit_letter.expected_edits
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT e.version INTO new_version
    FROM redrive.edit_letters(
        ARRAY[edit_letter.id], ARRAY[edit_letter.payload], NULL, NULL, edit_letter.reason, edit_letter.person,
        jsonb_build_object('ids', jsonb_build_array(edit_letter.id)), 'set') e;
    RETURN new_version;
END
$$;

-- Name: edit_letters(bigint[], jsonb[], bytea[], integer[], text, text, jsonb, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.edit_letters(ids bigint[], payloads jsonb[], raws bytea[], expected integer[], reason text, person text, filter jsonb, how text, audit bigint DEFAULT NULL::bigint) RETURNS TABLE(id bigint, version integer, audit_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    editable  bigint[];
    operation bigint := edit_letters.audit;
    act       bigint;
BEGIN
    -- In a fixed order, so that two editors cannot deadlock. This is a separate statement, so that the next
    -- one sees the letters as they are under the lock.
    PERFORM FROM redrive.dead_letters l WHERE l.id = ANY (edit_letters.ids) ORDER BY l.id FOR UPDATE;
    editable := ARRAY(
        SELECT l.id
        FROM unnest(edit_letters.ids, edit_letters.expected) AS g (id, expected)
        JOIN redrive.dead_letters l ON l.id = g.id
        WHERE l.state IN ('open', 'quarantined') AND coalesce(g.expected, l.edits) = l.edits);
    IF cardinality(editable) = 0 THEN
        RETURN;
    END IF;
    act := redrive.record_act(
        'edit', edit_letters.person, edit_letters.reason, edit_letters.filter, cardinality(editable),
        jsonb_strip_nulls(jsonb_build_object('how', edit_letters.how, 'batch_of', operation)));
    operation := coalesce(operation, act);
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT g.id, g.payload, g.raw, l.edits AS version
        FROM unnest(edit_letters.ids, edit_letters.payloads, edit_letters.raws) AS g (id, payload, raw)
        JOIN redrive.dead_letters l ON l.id = g.id
        WHERE l.id = ANY (editable)
    ),
    kept AS (
        INSERT INTO redrive.letter_versions (letter_id, version, payload, raw, redacted, person, reason)
        SELECT l.id, l.edits, l.payload, l.raw, l.redacted, left(edit_letters.person, 200),
               left(edit_letters.reason, 1024)
        FROM given g
        JOIN redrive.dead_letters l ON l.id = g.id
    )
    UPDATE redrive.dead_letters l
    SET payload = g.payload, raw = g.raw, edits = g.version + 1, audit_id = operation,
        redacted = CASE WHEN l.redacted IS NOT NULL THEN redrive.still_redacted(l.redacted, l.payload, g.payload) END,
        changed_at = clock_timestamp(),
        events = redrive.add_event(l.events, jsonb_strip_nulls(jsonb_build_object(
            'at', clock_timestamp(), 'event', 'edited', 'by', left(edit_letters.person, 200),
            'reason', left(edit_letters.reason, 1024), 'version', g.version + 1)))
    FROM given g
    WHERE l.id = g.id
    RETURNING l.id, l.edits, operation;
END
$$;

-- Name: ends_with_jobs(smallint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.ends_with_jobs(segment smallint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    heap  CONSTANT regclass := format('redrive.jobs_%s', segment);
    pages CONSTANT bigint := pg_relation_size(heap) / current_setting('block_size')::integer;
    found boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE ctid >= ''(%s,0)'')', heap, greatest(0, pages - 8))
        INTO found;
    RETURN found;
END
$$;

-- Name: enqueue(text, text, jsonb, interval, integer, integer, text, jsonb, interval, boolean, text, text, interval); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.enqueue(queue text, kind text, payload jsonb, delay interval DEFAULT '00:00:00'::interval, priority integer DEFAULT 0, max_attempts integer DEFAULT 5, unique_key text DEFAULT NULL::text, headers jsonb DEFAULT NULL::jsonb, expires_in interval DEFAULT NULL::interval, until_started boolean DEFAULT false, replace text DEFAULT NULL::text, group_key text DEFAULT NULL::text, unique_window interval DEFAULT NULL::interval) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    new_id bigint := nextval('redrive.job_id');
    held_by bigint;
    changed boolean := false;
    window_ms bigint := ceil(extract(epoch FROM enqueue.unique_window) * 1000);
    -- The stored text.
    body text := enqueue.payload::text;
BEGIN
    PERFORM redrive.check_name('queue', enqueue.queue), redrive.check_name('kind', enqueue.kind);
    IF enqueue.payload IS NULL THEN
        RAISE EXCEPTION 'redrive: the payload is NULL; use ''null''::jsonb for a JSON null'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(body) > 1048576 THEN
        RAISE EXCEPTION 'redrive: the payload is % bytes; the limit is 1048576', octet_length(body)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.delay IS NULL OR enqueue.delay < '0' OR enqueue.delay > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the delay is %; it must be between 0 and 3650 days', enqueue.delay
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.priority IS NULL OR enqueue.priority NOT BETWEEN -1000 AND 1000 THEN
        RAISE EXCEPTION 'redrive: the priority is %; it must be between -1000 and 1000', enqueue.priority
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.max_attempts IS NULL OR enqueue.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'redrive: max_attempts is %; it must be between 1 and 1000', enqueue.max_attempts
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF octet_length(enqueue.unique_key) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'redrive: the unique key is % bytes; it must be 1 to 200', octet_length(enqueue.unique_key)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF octet_length(enqueue.group_key) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'redrive: the group is % bytes; it must be 1 to 200', octet_length(enqueue.group_key)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF jsonb_typeof(enqueue.headers) <> 'object' OR octet_length(enqueue.headers::text) > 65536 THEN
        RAISE EXCEPTION 'redrive: the headers must be a JSON object of at most 65536 bytes'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF EXISTS (SELECT FROM jsonb_object_keys(enqueue.headers) AS k (name) WHERE starts_with(k.name, 'redrive-')) THEN
        RAISE EXCEPTION 'redrive: names of headers that start with redrive- are reserved'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.expires_in <= enqueue.delay OR enqueue.expires_in > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the job expires in %; it must be longer than its delay and at most 3650 days',
            enqueue.expires_in USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.expires_in IS NOT NULL THEN
        enqueue.headers := coalesce(enqueue.headers, '{}') || jsonb_build_object(
            'redrive-expires-in-ms', ceil(extract(epoch FROM enqueue.expires_in) * 1000)::bigint::text);
    END IF;

    IF enqueue.unique_key IS NULL AND (enqueue.until_started OR enqueue.replace IS NOT NULL OR enqueue.unique_window IS NOT NULL) THEN
        RAISE EXCEPTION 'redrive: until_started, replace and unique_window need a unique key'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.unique_window <= '0' OR enqueue.unique_window > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the unique window is %; it must be longer than 0 and at most 3650 days',
            enqueue.unique_window USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.replace <> ALL ('{payload,time,both}') THEN
        RAISE EXCEPTION 'redrive: replace is %; it must be payload, time or both', enqueue.replace
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF enqueue.until_started THEN
        enqueue.headers := coalesce(enqueue.headers, '{}') || '{"redrive-unique-until": "started"}';
    END IF;
    IF enqueue.unique_key IS NOT NULL THEN
        IF enqueue.replace IS NULL THEN
            SELECT k.job_id INTO held_by
            FROM redrive.take_keys(enqueue.queue, ARRAY[enqueue.unique_key], ARRAY[new_id], ARRAY[window_ms]) k;
        ELSE
            SELECT k.job_id, k.replaced INTO held_by, changed
            FROM redrive.replace_keys(
                enqueue.queue, ARRAY[enqueue.unique_key], ARRAY[new_id], ARRAY[enqueue.kind], ARRAY[enqueue.replace],
                ARRAY[body::json], ARRAY[(extract(epoch FROM enqueue.delay) * 1000)::bigint],
                ARRAY[enqueue.priority], ARRAY[window_ms]) k;
        END IF;
        IF changed THEN
            PERFORM redrive.wake(enqueue.queue);
        END IF;
        IF held_by <> new_id THEN
            INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
            SELECT m.segment, enqueue.queue, '{duplicates}', '{1}' FROM redrive.metric_ring m;
            RETURN held_by;
        END IF;
    END IF;

    IF enqueue.delay > '0' THEN
        INSERT INTO redrive.jobs_delayed
            (id, queue, kind, payload, priority, max_attempts, run_at, unique_key, headers, group_key)
        VALUES (new_id, enqueue.queue, enqueue.kind, body::json, enqueue.priority, enqueue.max_attempts,
                clock_timestamp() + enqueue.delay, enqueue.unique_key, enqueue.headers, enqueue.group_key);
    ELSE
        INSERT INTO redrive.jobs
            (segment, id, queue, kind, payload, priority, max_attempts, unique_key, headers, group_key)
        VALUES (CASE WHEN enqueue.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                     ELSE redrive.entry_segment(enqueue.queue, enqueue.group_key, new_id) END,
                new_id, enqueue.queue, enqueue.kind, body::json, enqueue.priority, enqueue.max_attempts,
                enqueue.unique_key, enqueue.headers, enqueue.group_key);
    END IF;
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, enqueue.queue, '{enqueued}', '{1}' FROM redrive.metric_ring m;
    PERFORM redrive.wake(enqueue.queue);
    RETURN new_id;
END
$$;

-- Name: group_policies; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.group_policies (
    queue redrive.name NOT NULL,
    mode text NOT NULL COLLATE pg_catalog."C",
    job_limit integer NOT NULL,
    on_death text NOT NULL COLLATE pg_catalog."C",
    is_rate_limited boolean DEFAULT false NOT NULL,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT group_policies_hold_in_order CHECK (((on_death = 'continue'::text) OR (mode = 'ordered'::text))),
    CONSTRAINT group_policies_job_limit_check CHECK (((job_limit >= 1) AND (job_limit <= 1000))),
    CONSTRAINT group_policies_mode_check CHECK ((mode = ANY (ARRAY['ordered'::text, 'limit'::text, 'fair'::text, 'none'::text]))),
    CONSTRAINT group_policies_on_death_check CHECK ((on_death = ANY (ARRAY['continue'::text, 'hold'::text, 'divert'::text]))),
    CONSTRAINT group_policies_order_one_at_a_time CHECK (((mode <> 'ordered'::text) OR (job_limit = 1)))
);

-- Name: TABLE group_policies; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.group_policies IS 'What the groups of jobs of each queue mean.';

-- Name: COLUMN group_policies.job_limit; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.group_policies.job_limit IS 'How many jobs of a group run at the same time; 1 if ordered; without meaning if fair or none.';

-- Name: COLUMN group_policies.on_death; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.group_policies.on_death IS 'continue; hold: the letter of a job holds its group until it is redriven, closed, deleted or released; divert: meanwhile, jobs behind it become letters.';

-- Name: COLUMN group_policies.is_rate_limited; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.group_policies.is_rate_limited IS 'Whether each group has a rate limit, so that its jobs wait in any mode.';

-- Name: group_slots; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.group_slots (
    queue redrive.name NOT NULL,
    group_key redrive.group_key NOT NULL,
    slot smallint NOT NULL,
    job_id bigint NOT NULL,
    taken_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    held_at timestamp with time zone,
    CONSTRAINT group_slots_slot_check CHECK (((slot >= 1) AND (slot <= 1000)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

-- Name: TABLE group_slots; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.group_slots IS 'The jobs that have the turn of their group, and the letters that hold theirs.';

-- Name: COLUMN group_slots.held_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.group_slots.held_at IS 'When the job died and its letter began to hold the group; NULL: the job is live.';

-- Name: ring_position; Type: SEQUENCE; Schema: redrive; Owner: -

CREATE SEQUENCE redrive.ring_position
    AS smallint
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    MAXVALUE 7
    CACHE 1;

-- Name: ring; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.ring AS
 SELECT (p.last_value)::smallint AS segment
   FROM redrive.ring_position p;

-- Name: entry_segment(text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.entry_segment(queue text, group_key text, id bigint) RETURNS smallint
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((EXISTS ( SELECT
                FROM redrive.group_policies p
               WHERE (((p.queue)::text = entry_segment.queue) AND ((p.mode <> 'none'::text) OR p.is_rate_limited)))) AND (NOT (EXISTS ( SELECT
                FROM redrive.group_slots s
               WHERE ((s.job_id = entry_segment.id) AND ((s.queue)::text = entry_segment.queue)))))) THEN (8)::smallint
             ELSE ( SELECT r.segment
                FROM redrive.ring r)
         END AS segment;
END;

-- Name: erasable(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.erasable(filter jsonb) RETURNS TABLE(place text, entries bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    letters text := redrive.filter_erasure(filter, 'l.id', 'l.queue', 'l.kind', 'l.payload');
    jobs    text := redrive.filter_erased_jobs(filter);
BEGIN
    RETURN QUERY EXECUTE
        'SELECT ''jobs'', (SELECT count(*) FROM redrive.jobs j WHERE ' || jobs || ')'
        '  + (SELECT count(*) FROM redrive.jobs_delayed j WHERE ' || jobs || ')'
        ' UNION ALL SELECT ''leased'', count(*) FROM redrive.leases s, LATERAL ('
        '  SELECT o.id, s.queue, o.kind, o.payload, o.generation FROM redrive.jobs_of(s) o WHERE o.id <> ALL (s.done)) j'
        '  WHERE ' || jobs
        || ' UNION ALL SELECT ''letters'', (SELECT count(*) FROM redrive.dead_letters l'
        '   WHERE l.state <> ''redriving'' AND ' || letters || ')'
        '  + (SELECT count(*) FROM redrive.jobs j WHERE j.generation > 0 AND ' || jobs || ')'
        '  + (SELECT count(*) FROM redrive.jobs_delayed j WHERE j.generation > 0 AND ' || jobs || ')'
        || ' UNION ALL SELECT ''versions'', count(*) FROM redrive.letter_versions v'
        '  JOIN redrive.dead_letters l ON l.id = v.letter_id WHERE NOT coalesce(' || letters || ', false) AND '
        || redrive.filter_erasure(filter, 'l.id', 'l.queue', 'l.kind', 'v.payload')
        || ' UNION ALL SELECT ''archive'', count(*) FROM redrive.archived_letters a WHERE '
        || redrive.filter_erasure(filter, 'a.id', 'a.queue', 'a.letter ->> ''kind''', 'a.letter -> ''payload''')
        || ' UNION ALL SELECT ''audit'', count(*) FROM redrive.audit a'
        '  WHERE redrive.names_payload(a.filter ->> ''payload'', $1 ->> ''payload'')'
        ' UNION ALL SELECT ''runs'', count(*) FROM redrive.redrive_runs r'
        '  WHERE redrive.names_payload(r.filter ->> ''payload'', $1 ->> ''payload'')'
        '   AND r.state IN (''finished'', ''cancelled'')'
        USING filter;
END
$_$;

-- Name: erase(jsonb, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.erase(filter jsonb, reason text DEFAULT NULL::text, person text DEFAULT NULL::text) RETURNS TABLE(place text, entries bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    batch  record;
    act    bigint;
    done   boolean;
    totals jsonb := '{}';
BEGIN
    LOOP
        done := true;
        FOR batch IN SELECT b.* FROM redrive.erase_batch(erase.filter, 5000, erase.person, erase.reason, act) b LOOP
            done := false;
            act := batch.audit_id;
            totals := totals || jsonb_build_object(
                batch.place, batch.entries + coalesce((totals ->> batch.place)::bigint, 0));
        END LOOP;
        EXIT WHEN done;
    END LOOP;
    RETURN QUERY SELECT t.key, t.value::bigint FROM jsonb_each_text(totals) t;
END
$$;

-- Name: erase_batch(jsonb, bigint, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.erase_batch(filter jsonb, max_rows bigint, person text, reason text, audit bigint DEFAULT NULL::bigint) RETURNS TABLE(place text, entries bigint, audit_id bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
DECLARE
    letters    text := redrive.filter_erasure(erase_batch.filter, 'l.id', 'l.queue', 'l.kind', 'l.payload');
    predicate  text := erase_batch.filter ->> 'payload';
    each_table text;
    gone       bigint[];
    job_ids    bigint[] := '{}';
    letter_ids bigint[];
    group_ids  bigint[];
    old_groups bigint[];
    detail_ids bigint[];
    old_details text[];
    changed    bigint;
    counts     jsonb;
    act        bigint;
BEGIN
    FOREACH each_table IN ARRAY '{jobs,jobs_delayed}'::text[] LOOP
        EXECUTE format(
            'WITH chosen AS MATERIALIZED ('
            ' SELECT j.id FROM redrive.%1$I j WHERE %2$s LIMIT $2 FOR UPDATE SKIP LOCKED),'
            'gone AS (DELETE FROM redrive.%1$I j USING chosen c WHERE j.id = c.id RETURNING j.id, j.queue),'
            'counted AS ('
            ' INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)'
            ' SELECT m.segment, g.queue, ''{ended}'', ARRAY[count(*)]'
            ' FROM gone g CROSS JOIN redrive.metric_ring m GROUP BY m.segment, g.queue)'
            'SELECT array_agg(g.id) FROM gone g', each_table, redrive.filter_erased_jobs(erase_batch.filter))
            INTO gone USING erase_batch.filter, max_rows;
        job_ids := job_ids || gone;
    END LOOP;
    DELETE FROM redrive.unique_keys k WHERE k.job_id = ANY (job_ids);
    DELETE FROM redrive.unique_windows w WHERE w.job_id = ANY (job_ids);
    PERFORM redrive.free_slots(job_ids, '{}');
    counts := jsonb_build_object('jobs', cardinality(job_ids));

    EXECUTE
        'SELECT array_agg(k.id) FROM ('
        ' SELECT l.id FROM redrive.dead_letters l'
        ' WHERE l.id = ANY ($3) OR l.state <> ''redriving'' AND ' || letters
        || ' ORDER BY l.id LIMIT $2 + cardinality($3) FOR UPDATE) k'
        INTO letter_ids USING erase_batch.filter, max_rows, job_ids;
    DELETE FROM redrive.run_letters m
    USING redrive.redrive_runs r
    WHERE m.letter_id = ANY (letter_ids) AND r.id = m.run_id AND r.state IN ('finished', 'cancelled');
    WITH deleted AS (
        DELETE FROM redrive.dead_letters l WHERE l.id = ANY (letter_ids) RETURNING l.group_id, l.detail_id
    )
    SELECT count(*), array_agg(DISTINCT d.group_id), array_agg(DISTINCT d.detail_id) INTO changed, group_ids, detail_ids
    FROM deleted d;
    counts := counts || jsonb_build_object('letters', changed);

    EXECUTE
        'DELETE FROM redrive.letter_versions v USING redrive.dead_letters l WHERE l.id = v.letter_id AND '
        || redrive.filter_erasure(erase_batch.filter, 'l.id', 'l.queue', 'l.kind', 'v.payload')
        USING erase_batch.filter;
    GET DIAGNOSTICS changed = ROW_COUNT;
    counts := counts || jsonb_build_object('versions', changed);

    EXECUTE
        'WITH deleted AS ('
        ' DELETE FROM redrive.archived_letters d WHERE d.id = ANY (ARRAY('
        '  SELECT a.id FROM redrive.archived_letters a WHERE '
        || redrive.filter_erasure(erase_batch.filter, 'a.id', 'a.queue', 'a.letter ->> ''kind''', 'a.letter -> ''payload''')
        || ' ORDER BY a.id LIMIT $2)) RETURNING d.letter)'
        'SELECT count(*), array_agg(DISTINCT (d.letter ->> ''group_id'')::bigint), array_agg(d.letter ->> ''error_detail'')'
        ' FROM deleted d'
        INTO changed, old_groups, old_details USING erase_batch.filter, max_rows;
    counts := counts || jsonb_build_object('archive', changed);

    -- Every batch chooses again, so no sample is left of a letter that a later batch deletes.
    UPDATE redrive.groups g
    SET sample = coalesce((
        SELECT left(l.error_message, 2048) FROM redrive.dead_letters l
        WHERE l.group_id = g.id AND l.state <> 'redriving' LIMIT 1), '[erased]')
    WHERE g.id = ANY (group_ids || old_groups);
    GET DIAGNOSTICS changed = ROW_COUNT;
    UPDATE redrive.details d SET detail = '[erased]'
    WHERE d.id = ANY (detail_ids) OR d.group_id = ANY (old_groups) AND d.detail = ANY (old_details);
    counts := counts || jsonb_build_object('groups', changed);

    UPDATE redrive.redrive_runs r
    SET filter = jsonb_set(r.filter, '{payload}', '"[erased]"')
    WHERE redrive.names_payload(r.filter ->> 'payload', predicate) AND r.state IN ('finished', 'cancelled');
    GET DIAGNOSTICS changed = ROW_COUNT;
    counts := counts || jsonb_build_object('runs', changed,
        'audit', CASE WHEN predicate IS NULL THEN 0 ELSE redrive.erase_from_audit(predicate) END);

    IF EXISTS (SELECT FROM jsonb_each(counts) c WHERE c.value <> '0') THEN
        act := redrive.record_act('erase', erase_batch.person, erase_batch.reason, NULL, (counts ->> 'letters')::bigint,
            counts || jsonb_strip_nulls(jsonb_build_object('batch_of', erase_batch.audit)));
        RETURN QUERY
        SELECT c.key, c.value::bigint, coalesce(erase_batch.audit, act) FROM jsonb_each_text(counts) c;
    END IF;
END
$_$;

-- Name: erase_from_audit(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.erase_from_audit(predicate text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    changed bigint;
BEGIN
    PERFORM set_config('redrive.audit_change', 'UPDATE', true);
    UPDATE redrive.audit a
    SET filter = jsonb_set(a.filter, '{payload}', '"[erased]"')
    WHERE redrive.names_payload(a.filter ->> 'payload', predicate);
    GET DIAGNOSTICS changed = ROW_COUNT;
    PERFORM set_config('redrive.audit_change', '', true);
    RETURN changed;
END
$$;

-- Name: event_lease(bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.event_lease(event_id bigint) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT (md5(('dlq_events '::text || event_id)))::uuid AS md5;
END;

-- Name: expand_record(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.expand_record(record jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT
         CASE jsonb_typeof(record)
             WHEN 'array'::text THEN (jsonb_build_object('attempt', (record -> 0), 'run_ms', (record -> 1), 'ended_at', (record -> 2)) ||
             CASE
                 WHEN ((record -> 3) IS NULL) THEN '{}'::jsonb
                 ELSE jsonb_build_object('outcome', (record -> 3))
             END)
             ELSE record
         END AS record;
END;

-- Name: rate_limits; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.rate_limits (
    queue redrive.name NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    each_group boolean DEFAULT false NOT NULL,
    starts integer NOT NULL,
    period interval NOT NULL,
    burst integer NOT NULL,
    set_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    person text,
    reason text,
    rate double precision GENERATED ALWAYS AS (((starts)::double precision / (EXTRACT(epoch FROM period))::double precision)) STORED NOT NULL,
    CONSTRAINT rate_limits_burst_check CHECK (((burst >= 1) AND (burst <= 1000000))),
    CONSTRAINT rate_limits_kind_check CHECK ((length(kind) <= 100)),
    CONSTRAINT rate_limits_of_a_kind_or_each_group CHECK (((NOT each_group) OR (kind = ''::text))),
    CONSTRAINT rate_limits_period_check CHECK (((period >= '00:00:00.001'::interval) AND (period <= '31 days'::interval))),
    CONSTRAINT rate_limits_starts_check CHECK (((starts >= 1) AND (starts <= 1000000)))
);

-- Name: TABLE rate_limits; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.rate_limits IS 'How many jobs may start within a time, in all processes together.';

-- Name: COLUMN rate_limits.kind; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.rate_limits.kind IS 'The kind; empty: all jobs of the queue.';

-- Name: COLUMN rate_limits.each_group; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.rate_limits.each_group IS 'Whether the limit applies to each group of the queue by itself.';

-- Name: COLUMN rate_limits.rate; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.rate_limits.rate IS 'Starts per second.';

-- Name: fewest_tokens(redrive.rate_limits); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.fewest_tokens(a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT redrive.token_capacity(a_limit) - redrive.token_refill(a_limit) * greatest(0, extract(epoch FROM (
        SELECT max(b.full_at) FROM redrive.group_buckets b WHERE b.queue || '' = a_limit.queue) - clock_timestamp())::double precision)
$$;

-- Name: filter_archive(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.filter_archive(filter jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    classes    text[] := redrive.filter_values(filter -> 'class');
    ids        bigint[] := redrive.filter_values(filter -> 'ids')::bigint[];
    conditions text := redrive.filter_letters(
        CASE jsonb_typeof(filter) WHEN 'object' THEN filter - 'class' ELSE filter END);
BEGIN
    -- The group of an archived letter may be gone.
    IF classes IS NOT NULL THEN
        conditions := conditions || ' AND l.error_class = ANY (' || quote_literal(classes) || '::text[])';
    END IF;
    -- For the indexes.
    IF ids IS NOT NULL THEN
        conditions := conditions || ' AND a.id = ANY (' || quote_literal(ids) || '::bigint[])';
    END IF;
    IF filter ->> 'queue' IS NOT NULL THEN
        conditions := conditions || ' AND a.queue = $1 ->> ''queue''';
    END IF;
    RETURN conditions;
END
$_$;

-- Name: filter_erased_jobs(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.filter_erased_jobs(filter jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT '(' || redrive.filter_erasure($1, 'j.id', 'j.queue', 'j.kind',
            'redrive.json_of(convert_to(j.payload::text, ''UTF8''))')
        || ' OR j.generation > 0 AND EXISTS (SELECT FROM redrive.dead_letters l WHERE l.id = j.id AND '
        || redrive.filter_erasure($1, 'l.id', 'l.queue', 'l.kind', 'l.payload') || '))'
$_$;

-- Name: filter_erasure(jsonb, text, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.filter_erasure(filter jsonb, id text, queue text, kind text, payload text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    given text[];
BEGIN
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        RAISE EXCEPTION 'redrive: the filter of an erasure must be a JSON object' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    given := ARRAY(SELECT f.key FROM jsonb_each(filter) f WHERE f.value <> 'null');
    IF NOT given <@ '{ids,queue,kind,payload}' THEN
        RAISE EXCEPTION 'redrive: an erasure selects by payload, id, queue and kind, not by %',
            (SELECT string_agg(g.key, ', ') FROM unnest(given) AS g (key) WHERE g.key <> ALL ('{ids,queue,kind,payload}'))
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF NOT given && '{ids,payload}' THEN
        RAISE EXCEPTION 'redrive: an erasure needs a condition on the payload, or ids'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN concat_ws(' AND ',
        CASE WHEN 'ids' = ANY (given) THEN
            id || ' = ANY (' || quote_literal(redrive.filter_values(filter -> 'ids')::bigint[]) || '::bigint[])' END,
        CASE WHEN 'queue' = ANY (given) THEN queue || ' = $1 ->> ''queue''' END,
        CASE WHEN 'kind' = ANY (given) THEN kind || ' = $1 ->> ''kind''' END,
        CASE WHEN 'payload' = ANY (given) THEN payload || ' @@ ($1 ->> ''payload'')::jsonpath' END);
END
$_$;

-- Name: filter_group_ids(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.filter_group_ids(filter jsonb) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    ids bigint[] := redrive.filter_values(filter -> 'group')::bigint[];
    classes text[] := redrive.filter_values(filter -> 'class');
BEGIN
    IF classes IS NULL THEN
        RETURN ids;
    END IF;
    RETURN ARRAY(
        SELECT g.id FROM redrive.groups g
        WHERE g.error_class = ANY (classes) AND (ids IS NULL OR g.id = ANY (ids))
            AND g.queue = coalesce(filter ->> 'queue', g.queue) AND g.kind = coalesce(filter ->> 'kind', g.kind));
END
$$;

-- Name: filter_jobs(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.filter_jobs(filter jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    key        text;
    value      jsonb;
    words      text[];
    condition  text;
    conditions text := 'true';
BEGIN
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        RAISE EXCEPTION 'redrive: a filter must be a JSON object; {} matches every job'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR key, value IN SELECT * FROM jsonb_each(filter - 'payload') LOOP
        words := redrive.filter_values(value);
        CONTINUE WHEN words IS NULL;
        condition := CASE key
            WHEN 'ids' THEN 'j.id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
            WHEN 'state' THEN 'j.state IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
            WHEN 'id_from' THEN 'j.id >= ($1 ->> ''id_from'')::bigint'
            WHEN 'id_to' THEN 'j.id <= ($1 ->> ''id_to'')::bigint'
            WHEN 'queue' THEN 'j.queue = $1 ->> ''queue'''
            WHEN 'kind' THEN 'j.kind = $1 ->> ''kind'''
            WHEN 'priority_from' THEN 'j.priority >= ($1 ->> ''priority_from'')::integer'
            WHEN 'priority_to' THEN 'j.priority <= ($1 ->> ''priority_to'')::integer'
            WHEN 'other_priority' THEN 'j.priority <> ($1 ->> ''other_priority'')::integer'
            WHEN 'attempts_from' THEN 'j.attempt >= ($1 ->> ''attempts_from'')::integer'
            WHEN 'attempts_to' THEN 'j.attempt <= ($1 ->> ''attempts_to'')::integer'
            WHEN 'generation_from' THEN 'j.generation >= ($1 ->> ''generation_from'')::integer'
            WHEN 'generation_to' THEN 'j.generation <= ($1 ->> ''generation_to'')::integer'
            WHEN 'older_than_ms' THEN
                'j.enqueued_at < statement_timestamp() - ($1 ->> ''older_than_ms'')::bigint * interval ''1 millisecond'''
            WHEN 'newer_than_ms' THEN
                'j.enqueued_at >= statement_timestamp() - ($1 ->> ''newer_than_ms'')::bigint * interval ''1 millisecond'''
            WHEN 'unique' THEN 'j.unique_key = $1 ->> ''unique'''
        END;
        IF condition IS NULL AND key = 'state' THEN
            RAISE EXCEPTION 'redrive: the filter key state has no value' USING ERRCODE = 'invalid_parameter_value';
        ELSIF condition IS NULL THEN
            RAISE EXCEPTION 'redrive: unknown filter key %', key
                USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Expected one of ids, id_from, id_to, queue, kind, state, priority_from, priority_to,'
                       ' other_priority, attempts_from, attempts_to, generation_from, generation_to,'
                       ' older_than_ms, newer_than_ms, unique, payload.';
        ELSIF jsonb_typeof(value) = 'array' AND key NOT IN ('ids', 'state') THEN
            RAISE EXCEPTION 'redrive: the filter key % takes one value', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        conditions := conditions || E'\n    AND ' || condition;
    END LOOP;
    IF filter ->> 'payload' IS NULL THEN
        RETURN conditions;
    END IF;
    -- CASE keeps the server from parsing the payloads of other jobs. A payload that `jsonb` cannot hold has no value.
    RETURN conditions || E'\n    AND CASE WHEN ' || conditions
        || ' THEN (redrive.letter_payload(j.payload)).payload @@ ($1 ->> ''payload'')::jsonpath END';
END
$_$;

-- Name: filter_letters(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.filter_letters(filter jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    key        text;
    value      jsonb;
    given      text;
    condition  text;
    words      text[];
    operation  bigint;
    conditions text := 'true';
BEGIN
    IF filter IS NULL OR jsonb_typeof(filter) <> 'object' THEN
        RAISE EXCEPTION 'redrive: a filter must be a JSON object; {} matches every letter'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR key, value IN SELECT * FROM jsonb_each(filter) LOOP
        given := jsonb_typeof(value);
        CONTINUE WHEN given = 'null';
        IF given <> 'array' THEN
            words := ARRAY[value #>> '{}'];
        ELSE
            words := ARRAY(SELECT jsonb_array_elements_text(value));
        END IF;
        -- A separate statement, because only operators may read the audit.
        IF key = 'audit' THEN
            operation := (
                SELECT coalesce((a.about ->> 'batch_of')::bigint, a.id)
                FROM redrive.audit a WHERE a.id = (value #>> '{}')::bigint);
        END IF;
        condition := CASE key
            WHEN 'ids' THEN 'l.id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
            WHEN 'group' THEN 'l.group_id = ANY (' || quote_literal(words::bigint[]) || '::bigint[])'
            WHEN 'class' THEN 'l.group_id = ANY (' || quote_literal(ARRAY(
                SELECT g.id FROM redrive.groups g WHERE g.error_class = ANY (words))) || '::bigint[])'
            WHEN 'state' THEN 'l.state IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
            WHEN 'cause' THEN 'l.cause IN (' || (SELECT string_agg(quote_literal(w), ', ') FROM unnest(words) w) || ')'
            WHEN 'queue' THEN 'l.queue = $1 ->> ''queue'''
            WHEN 'kind' THEN 'l.kind = $1 ->> ''kind'''
            WHEN 'id_from' THEN 'l.id >= ($1 ->> ''id_from'')::bigint'
            WHEN 'id_to' THEN 'l.id <= ($1 ->> ''id_to'')::bigint'
            WHEN 'died_from' THEN 'l.died_at >= ($1 ->> ''died_from'')::timestamptz'
            WHEN 'died_to' THEN 'l.died_at < ($1 ->> ''died_to'')::timestamptz'
            WHEN 'older_than_ms' THEN
                'l.died_at < statement_timestamp() - ($1 ->> ''older_than_ms'')::bigint * interval ''1 millisecond'''
            WHEN 'newer_than_ms' THEN
                'l.died_at >= statement_timestamp() - ($1 ->> ''newer_than_ms'')::bigint * interval ''1 millisecond'''
            WHEN 'generation_from' THEN 'l.generation >= ($1 ->> ''generation_from'')::integer'
            WHEN 'generation_to' THEN 'l.generation <= ($1 ->> ''generation_to'')::integer'
            WHEN 'payload' THEN 'l.payload @@ ($1 ->> ''payload'')::jsonpath'
            WHEN 'message' THEN 'position(lower($1 ->> ''message'') IN lower(l.error_message)) > 0'
            WHEN 'version' THEN 'l.version = $1 ->> ''version'''
            WHEN 'host' THEN 'l.host = $1 ->> ''host'''
            WHEN 'source' THEN 'l.source = $1 ->> ''source'''
            WHEN 'run' THEN 'l.run_id = ($1 ->> ''run'')::bigint'
            WHEN 'audit' THEN coalesce('l.audit_id = ' || operation, 'false')
        END;
        IF condition IS NULL AND key IN ('state', 'cause') THEN
            RAISE EXCEPTION 'redrive: the filter key % has no value', key USING ERRCODE = 'invalid_parameter_value';
        ELSIF condition IS NULL THEN
            RAISE EXCEPTION 'redrive: unknown filter key %', key
                USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Expected one of ids, id_from, id_to, queue, kind, class, group, cause, state, died_from,'
                       ' died_to, older_than_ms, newer_than_ms, generation_from, generation_to, payload,'
                       ' message, version, host, source, run, audit.';
        ELSIF given = 'array' AND key NOT IN ('ids', 'group', 'class', 'state', 'cause') THEN
            RAISE EXCEPTION 'redrive: the filter key % takes one value', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        conditions := conditions || E'\n    AND ' || condition;
    END LOOP;
    RETURN conditions;
END
$_$;

-- Name: filter_values(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.filter_values(value jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE coalesce(jsonb_typeof(value), 'null')
        WHEN 'null' THEN NULL
        WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(value))
        ELSE ARRAY[value #>> '{}']
    END
$$;

-- Name: fingerprint(text, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.fingerprint(queue text, kind text, error_class text, title text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT (encode(SUBSTRING(sha256(convert_to(concat_ws(''::text, queue, kind, error_class, title), 'UTF8'::name)) FROM 1 FOR 16), 'hex'::text))::uuid AS encode;
END;

-- Name: fold_letters(integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.fold_letters(max_rows integer DEFAULT 20000) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    AS $$
DECLARE
    folded bigint;
BEGIN
    PERFORM redrive.require_read_committed('fold_letters');
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'fold_letters' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM redrive.letter_deltas d
        WHERE d.ctid = ANY (ARRAY(SELECT n.ctid FROM redrive.letter_deltas n LIMIT max_rows))
        RETURNING d.*
    ),
    hours AS (
        INSERT INTO redrive.failure_hours AS h (group_id, hour, deaths)
        SELECT g.group_id, g.hour, sum(g.deaths)
        FROM gone g
        WHERE g.hour IS NOT NULL
        GROUP BY 1, 2
        ON CONFLICT (group_id, hour) DO UPDATE SET deaths = h.deaths + excluded.deaths
    ),
    totals AS (
        UPDATE redrive.groups g
        SET deaths = g.deaths + n.deaths, open = g.open + n.open,
            redriving = g.redriving + n.redriving, recovered = g.recovered + n.recovered,
            discarded = g.discarded + n.discarded, quarantined = g.quarantined + n.quarantined,
            last_seen = greatest(g.last_seen, n.died_at),
            -- A death after the group was resolved reopens it.
            state = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN 'open' ELSE g.state END,
            regressed_at = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN n.died_at ELSE g.regressed_at END,
            regressions = CASE WHEN g.state = 'resolved' AND n.died_at > g.resolved_at THEN g.regressions + 1 ELSE g.regressions END
        FROM (
            SELECT o.group_id, sum(o.deaths) AS deaths, sum(o.open) AS open,
                   sum(o.redriving) AS redriving, sum(o.recovered) AS recovered,
                   sum(o.discarded) AS discarded, sum(o.quarantined) AS quarantined,
                   max(o.died_at) AS died_at
            FROM gone o
            GROUP BY o.group_id
        ) n
        WHERE g.id = n.group_id
    )
    SELECT count(*) INTO folded FROM gone;
    IF folded > 0 THEN
        DELETE FROM redrive.failure_hours h WHERE h.hour < statement_timestamp() - interval '8 days';
    END IF;
    RETURN folded;
END
$$;

-- Name: fold_metrics(integer, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.fold_metrics(max_rows integer DEFAULT 50000, segment_bytes bigint DEFAULT 1048576) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '50ms'
    SET enable_seqscan TO 'on'
    SET jit TO 'off'
    AS $_$
DECLARE
    here     smallint;
    child    smallint;
    tallies    redrive.metric_tally[];
    taken    bigint;
    folded   bigint := 0;
    occupied boolean;
BEGIN
    PERFORM redrive.require_read_committed('fold_metrics');
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'fold_metrics' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT r.segment INTO here FROM redrive.metric_ring r;
    -- The current child comes last, because it holds the newest rows.
    FOR step IN 1..3 LOOP
        child := (here + step) % 3;
        EXECUTE format(
            'WITH gone AS ('
            ' DELETE FROM redrive.metric_deltas_%1$s d'
            ' WHERE d.ctid = ANY (ARRAY(SELECT n.ctid FROM redrive.metric_deltas_%1$s n LIMIT $1))'
            ' RETURNING d.at, d.queue, d.keys, d.labels, d.causes, d.buckets, d.counts, d.sums),'
            'tallies AS ('
            ' SELECT g.queue, u.key, u.label, u.cause, u.bucket, sum(u.count)::bigint AS count,'
            '  sum(u.sum) AS sum, min(g.at) AS first_at, max(g.at) AS last_at'
            ' FROM gone g CROSS JOIN LATERAL'
            '  unnest(g.keys, g.labels, g.causes, g.buckets, g.counts, g.sums)'
            '  AS u (key, label, cause, bucket, count, sum)'
            ' GROUP BY 1, 2, 3, 4, 5)'
            ' SELECT (SELECT count(*) FROM gone), array_agg(ROW(c.queue, c.key, c.label, c.cause,'
            '  c.bucket, c.count, c.sum, c.first_at, c.last_at)::redrive.metric_tally) FROM tallies c',
            child)
            INTO taken, tallies USING max_rows - folded;
        folded := folded + taken;
        IF taken > 0 THEN
            PERFORM redrive.grant_metric_slots(tallies);
            INSERT INTO redrive.metric_values AS v (key, queue, label, cause, value, counts, sum, last_at)
            SELECT p.key, p.queue, p.label, p.cause, p.value, p.counts, p.sum, p.last_at
            FROM redrive.place_metric_tallies(tallies) p
            ON CONFLICT (key, queue, label, cause) DO UPDATE
            SET value = v.value + excluded.value, counts = redrive.add_counts(v.counts, excluded.counts),
                sum = v.sum + excluded.sum, last_at = greatest(v.last_at, excluded.last_at);
        END IF;
        EXIT WHEN folded >= max_rows;
    END LOOP;

    -- Truncate drained children. Under the lock no session can write and every committed row is visible;
    -- a session with an uncommitted write prevents the lock.
    FOR step IN 1..2 LOOP
        child := (here + step) % 3;
        CONTINUE WHEN pg_relation_size(format('redrive.metric_deltas_%s', child)::regclass) = 0;
        BEGIN
            EXECUTE format('LOCK TABLE redrive.metric_deltas_%s IN ACCESS EXCLUSIVE MODE', child);
            EXECUTE format('SELECT EXISTS (SELECT FROM redrive.metric_deltas_%s)', child) INTO occupied;
            IF occupied THEN
                RAISE lock_not_available;
            END IF;
            EXECUTE format('TRUNCATE redrive.metric_deltas_%s', child);
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;

    IF pg_relation_size(format('redrive.metric_deltas_%s', here)::regclass) >= segment_bytes THEN
        FOR step IN 1..2 LOOP
            child := (here + step) % 3;
            IF pg_relation_size(format('redrive.metric_deltas_%s', child)::regclass) = 0 THEN
                PERFORM setval('redrive.metric_ring_position', child);
                EXIT;
            END IF;
        END LOOP;
    END IF;
    RETURN folded;
END
$_$;

-- Name: fold_runs(integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.fold_runs(max_rows integer DEFAULT 20000) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    run    bigint := 0;
    folded bigint := 0;
    batch  bigint;
BEGIN
    LOOP
        SELECT min(d.run_id) INTO run FROM redrive.run_deltas d WHERE d.run_id > run;
        EXIT WHEN run IS NULL OR folded >= max_rows;
        -- The driver of a run folds its deltas.
        PERFORM FROM redrive.redrive_runs r WHERE r.id = run AND r.state <> 'running' FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        WITH gone AS (
            DELETE FROM redrive.run_deltas d
            WHERE d.ctid = ANY (ARRAY(SELECT n.ctid FROM redrive.run_deltas n WHERE n.run_id = run LIMIT max_rows - folded))
            RETURNING d.tried, d.sent, d.skipped, d.recovered, d.died_alike, d.died_differently
        ),
        added AS (
            UPDATE redrive.redrive_runs r
            -- A run that was paused or cancelled also left the numbers of its last steps.
            SET cursor = r.cursor + n.tried, sent = r.sent + n.sent, skipped = r.skipped + n.skipped,
                recovered = r.recovered + n.recovered, died_alike = r.died_alike + n.died_alike,
                died_differently = r.died_differently + n.died_differently
            FROM (
                SELECT sum(g.tried) AS tried, sum(g.sent) AS sent, sum(g.skipped) AS skipped,
                       sum(g.recovered) AS recovered, sum(g.died_alike) AS died_alike,
                       sum(g.died_differently) AS died_differently
                FROM gone g
            ) n
            WHERE r.id = run AND n.recovered IS NOT NULL
        )
        SELECT count(*) INTO batch FROM gone;
        folded := folded + batch;
    END LOOP;
    RETURN folded;
END
$$;

-- Name: forget_full_buckets(integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.forget_full_buckets(max_rows integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
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

-- Name: free_slots(bigint[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.free_slots(ended bigint[], delayed bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    freed    bigint;
    paused   bigint := 0;
    diverted redrive.diverted_groups[];
BEGIN
    IF EXISTS (SELECT FROM redrive.diverted_groups) THEN
        diverted := ARRAY(
            SELECT d
            FROM redrive.group_slots s
            JOIN redrive.diverted_groups d ON d.queue = s.queue AND d.group_key = s.group_key
            WHERE s.job_id = ANY (free_slots.ended)
            ORDER BY s.queue, s.group_key);
    END IF;
    DELETE FROM redrive.group_slots s WHERE s.job_id = ANY (free_slots.ended);
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF free_slots.delayed <> '{}' THEN
        DELETE FROM redrive.group_slots s WHERE s.job_id = ANY (free_slots.delayed)
            AND (SELECT p.mode FROM redrive.group_policies p WHERE p.queue = s.queue) IS DISTINCT FROM 'ordered';
        GET DIAGNOSTICS paused = ROW_COUNT;
    END IF;
    PERFORM redrive.hold_diverted(d.queue, d.group_key) FROM unnest(diverted) d;
    RETURN freed + paused;
END
$$;

-- Name: free_started_keys(bigint[], text[], jsonb[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.free_started_keys(ids bigint[], keys text[], headers jsonb[]) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    started CONSTANT bigint[] := ARRAY(
        SELECT j.id FROM unnest(ids, headers) AS j (id, headers) WHERE j.headers ->> 'redrive-unique-until' = 'started');
BEGIN
    IF started = '{}' THEN
        RETURN keys;
    END IF;
    DELETE FROM redrive.unique_keys k WHERE k.job_id = ANY (started);
    RETURN ARRAY(
        SELECT CASE WHEN j.id <> ALL (started) THEN j.key END
        FROM unnest(ids, keys) WITH ORDINALITY AS j (id, key, place)
        ORDER BY j.place);
END
$$;

-- Name: full_history(redrive.dead_letters); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.full_history(letter redrive.dead_letters) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF letter.run_ms IS NULL THEN
        RETURN letter.history;
    END IF;
    RETURN letter.history || jsonb_build_object(
        'generation', letter.generation, 'attempt', letter.attempts, 'outcome', letter.cause,
        'run_ms', letter.run_ms, 'error_class', letter.error_class,
        'error_message', left(letter.error_message, 1000), 'worker', letter.worker_id,
        'host', letter.host, 'version', letter.version, 'pid', letter.pid, 'ended_at', letter.died_at);
END
$$;

-- Name: grant_metric_slots(redrive.metric_tally[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.grant_metric_slots(tallies redrive.metric_tally[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    over  record;
    known bit(65536);
    place integer;
BEGIN
    INSERT INTO redrive.metric_slots (label, queue, name)
    SELECT n.label, n.queue, n.name FROM redrive.new_metric_slots(tallies) n;
    FOR over IN
        SELECT n.label, array_agg(hashtext(n.queue || E'\x1f' || n.name) & 65535) AS places
        FROM (
            SELECT DISTINCT 'queue' AS label, '' AS queue, c.queue AS name FROM unnest(tallies) c
            UNION
            SELECT w.labels[1], c.queue, c.label
            FROM unnest(tallies) c
            JOIN redrive.counter_keys w ON w.key = c.key
            WHERE w.labels[1] IN ('kind', 'error_class', 'source') AND c.label IS NOT NULL
        ) n
        WHERE NOT EXISTS (
                SELECT FROM redrive.metric_slots s
                WHERE s.label = n.label AND s.queue = n.queue AND s.name = n.name)
            -- A kind of a queue without a slot may have a slot under `__other__`.
            AND NOT EXISTS (
                SELECT FROM redrive.metric_slots s
                WHERE s.label = n.label AND s.queue = '__other__' AND s.name = n.name
                    AND NOT EXISTS (
                        SELECT FROM redrive.metric_slots q
                        WHERE q.label = 'queue' AND q.queue = '' AND q.name = n.queue))
        GROUP BY n.label
    LOOP
        SELECT f.names INTO known FROM redrive.metric_folded f WHERE f.label = over.label;
        CONTINUE WHEN NOT EXISTS (SELECT FROM unnest(over.places) p WHERE get_bit(known, p) = 0);
        FOREACH place IN ARRAY over.places LOOP
            known := set_bit(known, place, 1);
        END LOOP;
        UPDATE redrive.metric_folded f SET names = known WHERE f.label = over.label;
    END LOOP;
END
$$;

-- Name: grant_metrics(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.grant_metrics(role text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    each_function regprocedure;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_metrics.role) THEN
        RAISE EXCEPTION 'redrive: role % does not exist', coalesce(quote_ident(grant_metrics.role), 'NULL')
            USING ERRCODE = 'undefined_object',
                  HINT = 'CREATE ROLE redrive_exporter LOGIN CONNECTION LIMIT 3';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA redrive TO %I', role);
    EXECUTE format('GRANT SELECT ON redrive.migrations TO %I', role);
    FOR each_function IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = 'redrive'::regnamespace AND p.proname IN (
            'metric_totals', 'metrics_queues', 'metrics_letters', 'metrics_operations', 'metrics_tables',
            'metrics_bloat', 'metrics_server')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', each_function, role);
    END LOOP;
    IF pg_has_role(role, 'pg_read_all_stats', 'USAGE') THEN
        RETURN '';
    END IF;
    BEGIN
        EXECUTE format('GRANT pg_monitor TO %I', role);
        RETURN '';
    EXCEPTION WHEN insufficient_privilege THEN
        RETURN format('as a superuser: GRANT pg_monitor TO %I', role);
    END;
END
$$;

-- Name: grant_role(text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.grant_role(role text, profession text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    everybody CONSTANT text[] := ARRAY[
        'USAGE ON SCHEMA redrive',
        'SELECT ON redrive.migrations'];
    -- Only these columns: a role that writes the others could change how often a job is attempted.
    enqueuer CONSTANT text[] := ARRAY[
        'USAGE ON SEQUENCE redrive.job_id',
        'SELECT (id), INSERT (id, segment, queue, kind, payload, priority, max_attempts, unique_key, headers, '
            'group_key) ON redrive.jobs',
        'INSERT (id, run_at, queue, kind, payload, priority, max_attempts, unique_key, headers, group_key) '
            'ON redrive.jobs_delayed',
        'SELECT, INSERT ON redrive.unique_keys',
        'SELECT ON redrive.unique_windows',
        'INSERT (segment, queue, keys, counts) ON redrive.metric_deltas',
        'SELECT ON redrive.ring, redrive.metric_ring, redrive.group_policies',
        'SELECT (queue, job_id) ON redrive.group_slots',
        'SELECT (queue, waiting, expires_at) ON redrive.workers',
        'EXECUTE ON FUNCTION redrive.enqueue, redrive.take_keys, redrive.replace_keys, redrive.replace_waiting, redrive.open_window, '
            'redrive.check_name, redrive.wake, redrive.entry_segment'];
    -- Needed to write, move, count and delete letters.
    letters CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON redrive.dead_letters, redrive.letter_versions, redrive.groups, '
            'redrive.details, redrive.failure_hours, redrive.letter_deltas, redrive.run_deltas, '
            'redrive.run_letters, redrive.run_chunks, redrive.breakers',
        'SELECT, INSERT, DELETE ON redrive.unique_keys, redrive.group_slots',
        'SELECT ON redrive.group_policies',
        -- To lock the row of a task; no other name is valid.
        'SELECT, UPDATE (task) ON redrive.exclusive_tasks',
        'SELECT (id), INSERT ON redrive.audit',
        'INSERT ON redrive.archived_letters',
        'SELECT, INSERT ON redrive.metric_deltas',
        'SELECT, INSERT, UPDATE ON redrive.pruned_regressions',
        'SELECT, UPDATE ON redrive.policies, redrive.redrive_runs, redrive.rate_buckets',
        'SELECT ON redrive.ring, redrive.metric_ring, redrive.counter_keys, redrive.retention, redrive.captured_pieces, '
            'redrive.redactions, redrive.runs, redrive.failure_groups, redrive.group_rules, '
            'redrive.protections, redrive.queue_pauses, redrive.paused_queues, redrive.rate_limits',
        'EXECUTE ON FUNCTION redrive.check_name, redrive.require_read_committed, redrive.wake, redrive.clip, redrive.fingerprint, '
            'redrive.mask, redrive.mask_ids, redrive.mask_rest, redrive.mask_quotes, redrive.mask_places, redrive.mask_numbers, redrive.mask_tokens, '
            'redrive.top_frame, '
            'redrive.letter_payload, redrive.jobs_of, redrive.some_jobs_of, '
            'redrive.group_of, redrive.ruled_group, redrive.rule_part, redrive.detail_of, redrive.redact, redrive.redact_text, redrive.redact_bytes, '
            'redrive.pointer_parts, redrive.pointer_paths, redrive.redact_values, redrive.still_redacted, '
            'redrive.add_event, redrive.expand_record, redrive.cut_history, redrive.add_attempt, redrive.history_before, '
            'redrive.full_history, redrive.past_failures, redrive.is_same_failure, redrive.fold_letters, '
            'redrive.fold_runs, redrive.filter_letters, redrive.record_act, redrive.send_back, redrive.entry_segment, redrive.redriven_segment, redrive.segment_of_returned, redrive.segment_of_waiting, redrive.check_allowed, redrive.check_size, redrive.captured_headers, '
            'redrive.refused_letters, redrive.take_run, redrive.send_members, redrive.drive_chunk, '
            'redrive.drive_run, redrive.live_waits, redrive.held_queues, redrive.archive_json, redrive.remove_letters, '
            'redrive.queues_with_letters, redrive.retention_by_queue, redrive.apply_retention, '
            'redrive.prune_groups, redrive.is_drained, '
            'redrive.token_hold, redrive.token_refill, redrive.token_capacity, redrive.tokens_now, redrive.fewest_tokens'];
    worker CONSTANT text[] := ARRAY[
        'SELECT, INSERT, UPDATE, DELETE ON redrive.jobs, redrive.jobs_0, redrive.jobs_1, redrive.jobs_2, '
            'redrive.jobs_3, redrive.jobs_4, redrive.jobs_5, redrive.jobs_6, redrive.jobs_7, redrive.jobs_waiting, redrive.jobs_delayed, redrive.leases, redrive.workers, redrive.claim_marks, redrive.delayed_marks',
        'SELECT ON SEQUENCE redrive.job_id',
        -- To compute the next tick of a schedule, and to store an error.
        'SELECT, UPDATE (next_at, retry_at, last_error) ON redrive.schedules',
        'SELECT ON redrive.compactions',
        'SELECT, UPDATE ON redrive.dlq_events',
        -- To lock the slot of a held group.
        'UPDATE (held_at, job_id) ON redrive.group_slots',
        'SELECT, INSERT, UPDATE (since) ON redrive.diverted_groups',
        'SELECT, INSERT, UPDATE, DELETE ON redrive.group_buckets',
        'EXECUTE ON FUNCTION redrive.take_group_tokens, redrive.forget_full_buckets, redrive.take_jobs, redrive.make_ready, redrive.take_slots, redrive.free_slots, redrive.pass_slots, redrive.queues_with_held_groups, redrive.divert, redrive.hold_diverted, redrive.settle_own, redrive.has_refused_death, redrive.turn_ring, '
            'redrive.fold_metrics, redrive.compact, redrive.is_compaction_due, redrive.table_bytes, redrive.run_policies, '
            'redrive.due_letters, redrive.policy_wait, redrive.is_hour_allowed, redrive.letters_with_policy, '
            'redrive.filter_values, redrive.filter_jobs, redrive.waiting_query, redrive.take_waiting, redrive.bury_waiting, redrive.bury_unhandled, '
            'redrive.put_back, redrive.age_jobs, redrive.tick_schedule, redrive.free_started_keys'];
    capturer CONSTANT text[] := ARRAY[
        'INSERT ON redrive.dlq_events',
        'EXECUTE ON FUNCTION redrive.capture, redrive.capture_letters, redrive.capture_many'];
    operator CONSTANT text[] := ARRAY[
        -- Cancels a waiting job, or reinserts it with another priority; marks a running one as cancelled.
        'SELECT, INSERT, UPDATE, DELETE ON redrive.jobs, redrive.jobs_delayed',
        'SELECT, UPDATE (cancelled) ON redrive.leases',
        'SELECT ON redrive.workers, redrive.live_jobs, redrive.letters, redrive.queues, '
            'redrive.audit, redrive.archived_letters',
        'SELECT, INSERT, UPDATE, DELETE ON redrive.dlq_events',
        'SELECT, INSERT ON redrive.dlq_events_archive',
        'INSERT ON redrive.redrive_runs',
        'INSERT, UPDATE, DELETE ON redrive.policies, redrive.retention, redrive.redactions, redrive.queue_pauses, '
            'redrive.rate_limits, redrive.rate_buckets, redrive.group_policies',
        'SELECT, UPDATE, DELETE ON redrive.group_buckets',
        'SELECT ON redrive.held_groups, redrive.unique_windows',
        'SELECT, DELETE ON redrive.diverted_groups',
        'SELECT, INSERT, UPDATE, DELETE ON redrive.schedules, redrive.schedule_ticks',
        'INSERT, DELETE ON redrive.group_rules, redrive.captured_pieces',
        'USAGE ON SEQUENCE redrive.job_id, redrive.redrive_runs_id_seq',
        'EXECUTE ON FUNCTION redrive.take_keys, redrive.open_window, redrive.capture, redrive.capture_letters, redrive.capture_many, '
            'redrive.import_letters, redrive.imported, redrive.readmitted, redrive.unarchived, redrive.filter_archive, '
            'redrive.list_archived, redrive.count_archived, redrive.restore_archived, redrive.delete_archived, redrive.shortened, '
            'redrive.headers_with_long, redrive.keep_pieces, redrive.drop_redacted_pieces, '
            'redrive.erase, redrive.erase_batch, redrive.erasable, redrive.prune_audit, redrive.json_of, '
            'redrive.list_letters, '
            'redrive.count_letters, redrive.count_letters_by, redrive.lock_letters, redrive.filter_values, redrive.filter_group_ids, '
            'redrive.page_letters, redrive.page_editable, redrive.queues_with_held_groups, redrive.redrive, redrive.redrive_letters, '
            'redrive.check_redrive, redrive.preview_redrive, redrive.blocked_letters, redrive.discard, '
            'redrive.discard_letters, redrive.reopen_letters, redrive.reopen_discarded, redrive.create_run, '
            'redrive.overlapping_runs, redrive.change_run, redrive.edit_letter, redrive.edit_letters, '
            'redrive.restore_letter, redrive.restore_letters, redrive.lock_for_edit, redrive.set_group_state, '
            'redrive.note_group, redrive.assign_group, redrive.add_group_rule, redrive.remove_group_rule, '
            'redrive.regroup_letters, redrive.set_policy, redrive.set_policy_mode, '
            'redrive.remove_policy, redrive.set_retention, redrive.remove_retention, redrive.retention_due, '
            'redrive.prune_letters, redrive.add_redaction, redrive.remove_redaction, redrive.redact_letters, redrive.redact_groups, '
            'redrive.open_breaker, '
            'redrive.close_breaker, redrive.check_breaker_name, redrive.pause_queue, redrive.resume_queue, redrive.set_rate_limit, redrive.remove_rate_limit, redrive.set_group_policy, redrive.release_group, redrive.audit_counters, redrive.remove_gameday, redrive.fold_metrics, '
            'redrive.policy_wait, redrive.is_hour_allowed, redrive.letters_with_policy, redrive.filter_jobs, '
            'redrive.list_jobs, redrive.count_jobs, redrive.waiting_query, redrive.page_waiting, '
            'redrive.take_waiting, redrive.put_back, redrive.bury_waiting, redrive.change_jobs, redrive.schedule, '
            'redrive.set_schedule, redrive.pause_schedule, redrive.remove_schedule, redrive.trigger_schedule, redrive.run_ticks'];
    -- No lease_id, which proves that a worker holds a lease.
    reader CONSTANT text[] := ARRAY[
        'SELECT ON redrive.jobs, redrive.jobs_delayed, redrive.workers, redrive.queues, redrive.unique_keys, redrive.unique_windows, '
            'redrive.dead_letters, redrive.letters, redrive.letter_versions, redrive.captured_pieces, redrive.details, redrive.dlq_events, '
            'redrive.archived_letters, redrive.groups, redrive.group_rules, redrive.protections, redrive.failure_groups, '
            'redrive.failure_hours, redrive.letter_deltas, redrive.runs, redrive.redrive_runs, redrive.run_letters, redrive.policies, '
            'redrive.retention, redrive.redactions, redrive.breakers, redrive.queue_pauses, redrive.paused_queues, redrive.rate_limits, redrive.rate_buckets, redrive.group_buckets, redrive.group_policies, redrive.group_slots, redrive.diverted_groups, redrive.held_groups, redrive.audit, redrive.schedules, redrive.schedule_ticks',
        'SELECT (queue, worker_id, ids, kinds, done, job_count, claimed_at) ON redrive.leases',
        'SELECT (id, queue, kind, state, priority, payload, attempt, max_attempts, generation, crashes, run_at, '
            'enqueued_at, history, worker_id, claimed_at, unique_key, outage_since, headers, group_key) '
            'ON redrive.live_jobs',
        'EXECUTE ON FUNCTION redrive.jobs_of, redrive.filter_jobs, redrive.list_jobs, redrive.count_jobs, '
            'redrive.waiting_query, redrive.page_waiting, redrive.letter_payload, redrive.rule_part, '
            'redrive.filter_letters, redrive.filter_values, redrive.unarchived, redrive.filter_archive, redrive.list_archived, redrive.count_archived, '
            'redrive.filter_group_ids, redrive.list_letters, redrive.count_letters, redrive.count_letters_by, '
            'redrive.page_letters, redrive.page_editable, redrive.queues_with_held_groups, redrive.preview_redrive, redrive.blocked_letters, '
            'redrive.overlapping_runs, redrive.retention_due, redrive.retention_by_queue, '
            'redrive.queues_with_letters, redrive.held_queues, redrive.letters_with_policy, '
            'redrive.metric_totals, redrive.metrics_queues, redrive.metrics_letters, '
            'redrive.metrics_operations, redrive.metrics_tables, '
            'redrive.token_hold, redrive.token_refill, redrive.token_capacity, redrive.tokens_now, redrive.fewest_tokens'];
    -- No payload, error text or note, and no lease_id.
    observer CONSTANT text[] := ARRAY[
        'SELECT ON redrive.queues, redrive.workers',
        'SELECT (id, queue, kind, state, priority, attempt, max_attempts, generation, crashes, run_at, enqueued_at, '
            'worker_id, claimed_at, outage_since) ON redrive.live_jobs',
        'SELECT (id, queue, kind, state, cause, error_class, content_type, seen, priority, attempts, '
            'earlier_attempts, max_attempts, '
            'generation, crashes, worker_id, host, version, enqueued_at, died_at, changed_at, group_id, pid, deaths, '
            'alike, failed_redrives, run_id, policy_id) ON redrive.letters',
        'SELECT (id, queue, kind, error_class, state, owner, first_seen, first_version, last_seen, resolved_at, '
            'regressed_at, regressions, deaths, open, redriving, recovered, discarded, quarantined) '
            'ON redrive.failure_groups',
        'SELECT (name, cron, zone, every, queue, kind, priority, max_attempts, missed, overlap, version, next_at, '
            'last_at, paused_at, created_at, changed_at) ON redrive.schedules',
        'SELECT ON redrive.schedule_ticks',
        'SELECT (id, event_type, status, retry_count, retry_after, created_at, updated_at) ON redrive.dlq_events',
        'SELECT (id, state, person, is_driven, total, cursor, sent, skipped, recovered, died_alike, '
            'died_differently, still_running, created_at, started_at, ended_at) ON redrive.runs',
        'EXECUTE ON FUNCTION redrive.jobs_of, redrive.metric_totals, redrive.metrics_queues, redrive.metrics_letters, '
            'redrive.metrics_operations, redrive.metrics_tables, redrive.letters_with_policy'];
    granted text[];
    each_grant text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_role.role) THEN
        RAISE EXCEPTION 'redrive: role % does not exist', coalesce(quote_ident(grant_role.role), 'NULL')
            USING ERRCODE = 'undefined_object', HINT = 'CREATE ROLE ... LOGIN';
    END IF;
    IF grant_role.profession = 'exporter' THEN
        RETURN redrive.grant_metrics(grant_role.role);
    END IF;
    granted := CASE grant_role.profession
        WHEN 'enqueuer' THEN enqueuer
        WHEN 'worker' THEN letters || worker
        WHEN 'capturer' THEN capturer
        WHEN 'operator' THEN letters || operator
        WHEN 'reader' THEN reader
        WHEN 'observer' THEN observer
    END;
    IF granted IS NULL THEN
        RAISE EXCEPTION 'redrive: unknown profession %', coalesce(quote_literal(grant_role.profession), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Expected enqueuer, worker, capturer, operator, reader, observer or exporter.';
    END IF;
    FOREACH each_grant IN ARRAY everybody || granted LOOP
        EXECUTE format('GRANT %s TO %I', each_grant, grant_role.role);
    END LOOP;
    RETURN '';
END
$$;

-- Name: group_of(text, text, text, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.group_of(queue text, kind text, error_class text, title text, error_message text, version text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    shown text := title;
    print uuid := redrive.fingerprint(queue, kind, error_class, title);
    found_id bigint;
BEGIN
    SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
    IF found_id IS NULL AND 1000 <= (
        SELECT count(*) FROM (
            SELECT FROM redrive.groups g
            WHERE g.error_class = group_of.error_class AND g.queue = group_of.queue AND g.kind = group_of.kind
            LIMIT 1000) same_class)
    THEN
        shown := '(any other message)';
        print := redrive.fingerprint(queue, kind, error_class, shown);
        SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
    END IF;
    IF found_id IS NULL THEN
        INSERT INTO redrive.groups AS g (fingerprint, queue, kind, error_class, title, sample, first_version)
        VALUES (print, group_of.queue, group_of.kind, group_of.error_class, shown,
                left(group_of.error_message, 2048), group_of.version)
        ON CONFLICT (fingerprint) DO NOTHING
        RETURNING g.id INTO found_id;
        IF found_id IS NULL THEN
            SELECT g.id INTO found_id FROM redrive.groups g WHERE g.fingerprint = print;
        END IF;
    END IF;
    RETURN found_id;
END
$$;

-- Name: leases; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.leases (
    lease_id uuid NOT NULL,
    worker_id uuid NOT NULL,
    queue redrive.name NOT NULL,
    claimed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ids bigint[] NOT NULL,
    kinds text[] NOT NULL COLLATE pg_catalog."C",
    payloads json[] NOT NULL,
    enqueued_at timestamp with time zone[] NOT NULL,
    done bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    cancelled bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    job_count integer GENERATED ALWAYS AS (cardinality(ids)) STORED NOT NULL,
    ready_at timestamp with time zone[],
    priorities smallint[],
    attempts integer[],
    max_attempts integer[],
    generations integer[],
    crashes smallint[],
    refunds smallint[],
    histories jsonb[],
    unique_keys text[] COLLATE pg_catalog."C",
    outages_since timestamp with time zone[],
    headers jsonb[],
    group_keys text[] COLLATE pg_catalog."C",
    CONSTRAINT leases_have_a_job_left CHECK ((cardinality(done) < job_count))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.leases ALTER COLUMN ids SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN kinds SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN payloads SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN enqueued_at SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN done SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN cancelled SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN ready_at SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN priorities SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN attempts SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN max_attempts SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN generations SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN crashes SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN refunds SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN histories SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN unique_keys SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN outages_since SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN headers SET COMPRESSION lz4;
ALTER TABLE ONLY redrive.leases ALTER COLUMN group_keys SET COMPRESSION lz4;

-- Name: COLUMN leases.done; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.leases.done IS 'Ids of jobs that are settled.';

-- Name: COLUMN leases.cancelled; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.leases.cancelled IS 'Ids of jobs that an operator cancelled while they ran.';

-- Name: COLUMN leases.job_count; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.leases.job_count IS 'The number of jobs, including settled ones. Reading it does not unpack `ids`.';

-- Name: COLUMN leases.ready_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.leases.ready_at IS 'When each job became ready; NULL: when it was enqueued.';

-- Name: COLUMN leases.attempts; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.leases.attempts IS 'The attempt of each job, which the claim charged; NULL: 1.';

-- Name: COLUMN leases.max_attempts; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.leases.max_attempts IS 'The maximum attempts of each job; NULL: 5.';

-- Name: has_refused_death(redrive.leases, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.has_refused_death(lease redrive.leases, max_crashes integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    refused bigint := (
        SELECT l.id
        FROM redrive.jobs_of(lease) j
        JOIN redrive.dead_letters l ON l.id = j.id
        WHERE j.id <> ALL (lease.done) AND (j.crashes + 1 >= max_crashes OR j.id = ANY (lease.cancelled))
            AND (l.state <> 'redriving' OR j.generation <= l.generation)
        LIMIT 1);
BEGIN
    IF refused IS NOT NULL THEN
        RAISE WARNING 'redrive: job % cannot die, because letter % belongs to another job, and stays leased; move the sequence redrive.job_id past the greatest id with setval, and delete that letter', refused, refused;
    END IF;
    RETURN refused IS NOT NULL;
END
$$;

-- Name: headers_with_long(jsonb, text, text, text, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.headers_with_long(headers jsonb, source text, "position" text, kind text, bytes integer) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN (octet_length((w.headers)::text) <= 65536) THEN w.headers
             ELSE headers_with_long.headers
         END AS headers
    FROM ( SELECT (COALESCE(headers_with_long.headers, '{}'::jsonb) || jsonb_strip_nulls((json_build_object('redrive-source',
                 CASE
                     WHEN (length(headers_with_long.source) > 100) THEN "left"(headers_with_long.source, 4096)
                     ELSE NULL::text
                 END, 'redrive-position',
                 CASE
                     WHEN (length(headers_with_long."position") > 500) THEN "left"(headers_with_long."position", 4096)
                     ELSE NULL::text
                 END, 'redrive-kind',
                 CASE
                     WHEN (length(headers_with_long.kind) > 100) THEN "left"(headers_with_long.kind, 4096)
                     ELSE NULL::text
                 END, 'redrive-body-bytes',
                 CASE
                     WHEN (headers_with_long.bytes > 16777216) THEN (headers_with_long.bytes)::text
                     ELSE NULL::text
                 END))::jsonb)) AS "?column?") w(headers);
END;

-- Name: held_queues(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.held_queues() RETURNS text[]
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT coalesce(array_agg(h.queue), '{}')
    FROM (
        SELECT substr(b.name, 7) AS queue FROM redrive.breakers b WHERE b.name LIKE 'queue:%' AND b.state <> 'closed'
        UNION
        SELECT p.queue FROM redrive.paused_queues p
    ) h
$$;

-- Name: hold_diverted(text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.hold_diverted(queue text, group_key text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    diverted_since timestamptz;
    letter_id      bigint;
    is_locked      boolean := false;
BEGIN
    SELECT d.since INTO diverted_since
    FROM redrive.diverted_groups d
    WHERE d.queue = hold_diverted.queue AND d.group_key = hold_diverted.group_key;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOOP
        SELECT l.id INTO letter_id
        FROM redrive.dead_letters l
        WHERE l.queue = hold_diverted.queue AND l.group_key = hold_diverted.group_key
            AND l.cause = 'diverted' AND l.state IN ('open', 'quarantined') AND l.died_at >= diverted_since
        ORDER BY l.id
        LIMIT 1
        -- A redrive or a discard of this letter skips it, or has ended before and left the turn to the next one.
        FOR NO KEY UPDATE;
        EXIT WHEN letter_id IS NOT NULL OR is_locked;
        PERFORM FROM redrive.diverted_groups d
        WHERE d.queue = hold_diverted.queue AND d.group_key = hold_diverted.group_key
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            -- Another session is diverting jobs of the group, or is ending the diversion itself.
            RETURN;
        END IF;
        -- The other session may have committed letters after the search.
        is_locked := true;
    END LOOP;
    IF letter_id IS NULL THEN
        DELETE FROM redrive.diverted_groups d
        WHERE d.queue = hold_diverted.queue AND d.group_key = hold_diverted.group_key;
    ELSIF NOT EXISTS (
        SELECT FROM redrive.jobs_waiting j
        WHERE j.queue = hold_diverted.queue AND j.group_key = hold_diverted.group_key AND j.id < letter_id)
    THEN
        INSERT INTO redrive.group_slots (queue, group_key, slot, job_id, held_at)
        VALUES (hold_diverted.queue, hold_diverted.group_key, 1, letter_id, clock_timestamp())
        ON CONFLICT DO NOTHING;
    END IF;
END
$$;

-- Name: import_letters(jsonb[], bytea[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.import_letters(failures jsonb[], raws bytea[]) RETURNS TABLE(place bigint, id bigint, is_new boolean, is_reopened boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    event  jsonb := jsonb_build_object('at', clock_timestamp(), 'event', 'imported');
    places bigint[];
    ids    bigint[];
BEGIN
    WITH given AS MATERIALIZED (
        SELECT e.place, u AS letter
        FROM unnest(import_letters.failures, import_letters.raws) WITH ORDINALITY AS e (failure, raw, place)
        CROSS JOIN LATERAL redrive.imported(e.failure, e.raw) u
    ),
    firsts AS MATERIALIZED (
        SELECT DISTINCT ON ((g.letter).source, (g.letter)."position") g.place, g.letter
        FROM given g
        WHERE NOT EXISTS (
            SELECT FROM redrive.dead_letters k
            WHERE k.source = (g.letter).source AND k."position" = (g.letter)."position")
        ORDER BY (g.letter).source, (g.letter)."position", g.place
    ),
    added AS (
        INSERT INTO redrive.dead_letters AS l
        SELECT u.*
        FROM firsts f
        CROSS JOIN LATERAL redrive.readmitted(f.letter, event, NULL) u
        -- In one order, so that two imports cannot deadlock.
        ORDER BY u.source, u."position"
        ON CONFLICT (source, "position") WHERE source IS NOT NULL DO NOTHING
        RETURNING l.id
    )
    SELECT coalesce(array_agg(f.place), '{}'), coalesce(array_agg(a.id), '{}') INTO places, ids
    FROM added a
    JOIN firsts f ON (f.letter).id = a.id;
    PERFORM redrive.keep_pieces(p.id, raws[p.place])
    FROM unnest(places, ids) AS p (place, id)
    WHERE octet_length(raws[p.place]) > 16777216;
    RETURN QUERY
    SELECT p.place, p.id, true, false FROM unnest(places, ids) AS p (place, id)
    UNION ALL
    SELECT r.places[c.place], c.id, c.is_new, c.is_reopened
    FROM (
        SELECT array_agg(e.place ORDER BY e.place) AS places, array_agg(f.source ORDER BY e.place) AS sources,
               array_agg(f."position" ORDER BY e.place) AS positions, array_agg(f.queue ORDER BY e.place) AS queues,
               array_agg(f.kind ORDER BY e.place) AS kinds, array_agg(e.raw ORDER BY e.place) AS raws,
               array_agg(coalesce(f.content_type, 'application/json') ORDER BY e.place) AS content_types,
               array_agg(f.headers ORDER BY e.place) AS headers, array_agg(f.error_class ORDER BY e.place) AS classes,
               array_agg(f.error_message ORDER BY e.place) AS messages,
               array_agg(f.error_detail ORDER BY e.place) AS details,
               array_agg(f.group_key ORDER BY e.place) AS group_keys
        FROM unnest(import_letters.failures, import_letters.raws) WITH ORDINALITY AS e (failure, raw, place)
        CROSS JOIN LATERAL jsonb_to_record(e.failure) AS f (
            source text, "position" text, queue text, kind text, content_type text, headers jsonb, error_class text,
            error_message text, error_detail text, group_key text)
        WHERE e.place <> ALL (places)
    ) r
    CROSS JOIN LATERAL redrive.capture_letters(
        r.sources, r.positions, r.queues, r.kinds, r.raws, NULL, r.content_types, r.headers, r.classes, r.messages,
        r.details, r.group_keys) c
    WHERE r.places IS NOT NULL
    ORDER BY 1;
END
$$;

-- Name: imported(jsonb, bytea); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.imported(failure jsonb, bytes bytea) RETURNS redrive.dead_letters
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    letter redrive.dead_letters := redrive.unarchived(
        '{"state": "open", "cause": "captured", "seen": 1, "priority": 0, "attempts": 0, "earlier_attempts": 0,'
        ' "max_attempts": 5, "generation": 0, "crashes": 0, "history": [], "deaths": 1, "alike": 0, "edits": 0,'
        ' "events": [], "failed_redrives": 0, "error_class": "captured", "error_message": ""}'::jsonb
        || jsonb_build_object('enqueued_at', clock_timestamp(), 'died_at', clock_timestamp())
        || coalesce(failure -> 'letter', '{}') || (failure - 'letter'));
BEGIN
    letter.id := nextval('redrive.job_id');
    letter.source := redrive.shortened(letter.source, 100);
    letter."position" := redrive.shortened(letter."position", 500);
    IF octet_length(bytes) > 16777216 THEN
        letter.raw := substring(bytes FROM 1 FOR 65536);
        letter.headers := redrive.headers_with_long(letter.headers, NULL, NULL, NULL, octet_length(bytes));
        RETURN letter;
    END IF;
    letter.payload := redrive.json_of(bytes);
    IF letter.payload IS NULL OR (failure -> 'letter' ->> 'has_raw')::boolean THEN
        letter.raw := bytes;
    END IF;
    RETURN letter;
END
$$;

-- Name: is_compaction_due(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.is_compaction_due() RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (
        SELECT FROM redrive.compactions c
        WHERE c.retry_at <= statement_timestamp() AND redrive.table_bytes(c.relation::regclass) >= c.min_bytes)
$$;

-- Name: is_drained(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.is_drained(queue text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    PERFORM redrive.require_read_committed('is_drained');
    LOCK TABLE redrive.jobs, redrive.leases IN ACCESS SHARE MODE;
    RETURN NOT EXISTS (SELECT FROM redrive.jobs j WHERE j.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.queue = is_drained.queue)
        AND NOT EXISTS (SELECT FROM redrive.leases l WHERE l.queue = is_drained.queue);
END
$$;

-- Name: is_gated(text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.is_gated(queue text, kind text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT is_gated.queue = ANY (redrive.held_queues()) OR EXISTS (
        SELECT FROM redrive.breakers b
        WHERE b.state <> 'closed' AND b.name NOT LIKE 'queue:%' AND is_gated.kind = ANY (b.kinds))
$$;

-- Name: is_held(regclass); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.is_held(heap regclass) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    holders CONSTANT text[] := redrive.table_holders(heap);
BEGIN
    IF holders = '{}' THEN
        RETURN false;
    END IF;
    PERFORM pg_sleep(0.05);
    RETURN holders && redrive.table_holders(heap);
END
$$;

-- Name: is_hour_allowed(integer, integer, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.is_hour_allowed(from_hour integer, to_hour integer, hour integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((from_hour IS NULL) OR (to_hour IS NULL)) THEN true
             WHEN (from_hour < to_hour) THEN ((hour >= from_hour) AND (hour < to_hour))
             ELSE ((hour >= from_hour) OR (hour < to_hour))
         END AS "case";
END;

-- Name: groups; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.groups (
    id bigint NOT NULL,
    fingerprint uuid NOT NULL,
    queue redrive.name NOT NULL,
    kind redrive.name NOT NULL,
    error_class text NOT NULL COLLATE pg_catalog."C",
    title text NOT NULL,
    sample text NOT NULL,
    state text DEFAULT 'open'::text NOT NULL COLLATE pg_catalog."C",
    note text,
    owner text,
    first_seen timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_version text,
    last_seen timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    resolved_at timestamp with time zone,
    regressed_at timestamp with time zone,
    regressions integer DEFAULT 0 NOT NULL,
    deaths bigint DEFAULT 0 NOT NULL,
    open bigint DEFAULT 0 NOT NULL,
    redriving bigint DEFAULT 0 NOT NULL,
    recovered bigint DEFAULT 0 NOT NULL,
    discarded bigint DEFAULT 0 NOT NULL,
    quarantined bigint DEFAULT 0 NOT NULL,
    CONSTRAINT groups_regressions_check CHECK ((regressions >= 0)),
    CONSTRAINT groups_state_check CHECK ((state = ANY (ARRAY['open'::text, 'acknowledged'::text, 'resolved'::text, 'ignored'::text])))
)
WITH (fillfactor='70');

-- Name: COLUMN groups.title; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.groups.title IS 'The masked message with the top frame of its stack trace, or the key of the handler.';

-- Name: COLUMN groups.sample; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.groups.sample IS 'The first message, unmasked.';

-- Name: COLUMN groups.deaths; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.groups.deaths IS 'All deaths, including those of pruned letters.';

-- Name: is_same_failure(bigint, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.is_same_failure(one bigint, other bigint) RETURNS boolean
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT (EXISTS ( SELECT
            FROM (redrive.groups a
              JOIN redrive.groups b ON ((((b.kind)::text = (a.kind)::text) AND (b.error_class = a.error_class) AND (b.title = a.title))))
           WHERE ((a.id = is_same_failure.one) AND (b.id = is_same_failure.other)))) AS "exists";
END;

-- Name: is_seen_drained(timestamp with time zone, xid8); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.is_seen_drained(drained_at timestamp with time zone, drained_xid xid8) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT is_seen_drained.drained_at < clock_timestamp() - interval '10 seconds' OR NOT EXISTS (
        SELECT FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
            AND age(a.backend_xmin) > age(is_seen_drained.drained_xid::xid))
$$;

-- Name: jobs_of(redrive.leases); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.jobs_of(lease redrive.leases) RETURNS SETOF redrive.leased_job
    LANGUAGE sql STABLE ROWS 100 PARALLEL SAFE
    BEGIN ATOMIC
 SELECT j.id,
     j.kind,
     COALESCE(j.priority, (0)::smallint) AS "coalesce",
     j.payload,
     COALESCE(j.attempt, 1) AS "coalesce",
     COALESCE(j.max_attempts, 5) AS "coalesce",
     COALESCE(j.generation, 0) AS "coalesce",
     COALESCE(j.crashes, (0)::smallint) AS "coalesce",
     COALESCE(j.refunds, (0)::smallint) AS "coalesce",
     j.enqueued_at,
     j.history,
     j.unique_key,
     j.outage_since,
     j.headers,
     j.group_key
    FROM UNNEST((jobs_of.lease).ids, (jobs_of.lease).kinds, (jobs_of.lease).payloads, (jobs_of.lease).enqueued_at, (jobs_of.lease).priorities, (jobs_of.lease).attempts, (jobs_of.lease).max_attempts, (jobs_of.lease).generations, (jobs_of.lease).crashes, (jobs_of.lease).refunds, (jobs_of.lease).histories, (jobs_of.lease).unique_keys, (jobs_of.lease).outages_since, (jobs_of.lease).headers, (jobs_of.lease).group_keys) j(id, kind, payload, enqueued_at, priority, attempt, max_attempts, generation, crashes, refunds, history, unique_key, outage_since, headers, group_key);
END;

-- Name: json_of(bytea); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.json_of(raw bytea) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN convert_from(raw, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;

-- Name: keep_pieces(bigint, bytea); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.keep_pieces(id bigint, raw bytea) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO redrive.captured_pieces (letter_id, version, place, bytes)
    SELECT l.id, l.edits, p.place, substring(keep_pieces.raw FROM (p.place - 1) * 1048576 + 1 FOR 1048576)
    FROM redrive.dead_letters l
    CROSS JOIN generate_series(1, (octet_length(keep_pieces.raw) - 1) / 1048576 + 1) AS p (place)
    WHERE l.id = keep_pieces.id;
    IF EXISTS (SELECT FROM redrive.redactions) THEN
        UPDATE redrive.dead_letters l
        SET raw = '[redacted]', redacted = (r.new).redacted
        FROM (SELECT redrive.redact(k) AS new FROM redrive.dead_letters k WHERE k.id = keep_pieces.id) r
        WHERE l.id = keep_pieces.id AND '' = ANY ((r.new).redacted);
        PERFORM redrive.drop_redacted_pieces(ARRAY[keep_pieces.id]);
    END IF;
END
$$;

-- Name: letter_payload(json); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.letter_payload(job_payload json, OUT payload jsonb, OUT raw bytea) RETURNS record
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    payload := job_payload::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    raw := convert_to(job_payload::text, 'UTF8');
END
$$;

-- Name: letters_with_policy(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.letters_with_policy() RETURNS TABLE(letter_id bigint, retry_after timestamp with time zone)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    policy redrive.policies;
BEGIN
    FOR policy IN SELECT p.* FROM redrive.policies p WHERE p.mode = 'active' LOOP
        RETURN QUERY EXECUTE
            'SELECT l.id, greatest($2, l.died_at + redrive.policy_wait($3, $4, $5, l.generation))'
            ' FROM redrive.dead_letters l'
            ' WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.generation < $6'
            '    AND ' || redrive.filter_letters(policy.filter)
            USING policy.filter, policy.next_at, policy.every, policy.growth, policy.max_delay, policy.generations;
    END LOOP;
END
$_$;

-- Name: list_archived(jsonb, bigint, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.list_archived(filter jsonb, after bigint DEFAULT NULL::bigint, max_letters bigint DEFAULT 50) RETURNS TABLE(archived_at timestamp with time zone, letter redrive.dead_letters)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT a.archived_at, l FROM redrive.archived_letters a CROSS JOIN LATERAL redrive.unarchived(a.letter) l'
        ' WHERE ($2 IS NULL OR a.id > $2) AND ' || redrive.filter_archive(filter) || ' ORDER BY a.id LIMIT $3'
        USING filter, after, max_letters;
END
$_$;

-- Name: jobs; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
PARTITION BY LIST (segment);

-- Name: TABLE jobs; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.jobs IS 'Ready jobs: inserted by enqueue, promote, redrive and reap; deleted by claim and cancel.';

-- Name: COLUMN jobs.attempt; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.jobs.attempt IS 'Attempts charged in this generation. A claim charges the next one.';

-- Name: COLUMN jobs.generation; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.jobs.generation IS 'How many times the job was redriven. Above 0, a letter with the same id exists.';

-- Name: COLUMN jobs.crashes; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.jobs.crashes IS 'Leases lost with their worker. Above 0, the job is a suspect and is claimed alone.';

-- Name: COLUMN jobs.refunds; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.jobs.refunds IS 'Attempts refunded by releases. Bounded, so that a job cannot be released forever.';

-- Name: COLUMN jobs.outage_since; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.jobs.outage_since IS 'Start of the current series of outages; NULL: the last attempt met none.';

-- Name: COLUMN jobs.headers; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.jobs.headers IS 'Metadata that travels with the job; NULL: none.';

-- Name: COLUMN jobs.group_key; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.jobs.group_key IS 'The group of jobs that this one belongs to; NULL: none.';

-- Name: jobs_delayed; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_delayed (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    run_at redrive.run_time NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_delayed_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

-- Name: TABLE jobs_delayed; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.jobs_delayed IS 'Delayed jobs: inserted by enqueue and by settling a retry; moved into jobs when due.';

-- Name: live_jobs; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.live_jobs AS
 SELECT j.id,
    (j.queue)::text AS queue,
    (j.kind)::text AS kind,
    'ready'::text AS state,
    (j.priority)::smallint AS priority,
    j.payload,
    (j.attempt)::integer AS attempt,
    (j.max_attempts)::integer AS max_attempts,
    (j.generation)::integer AS generation,
    (j.crashes)::smallint AS crashes,
    j.ready_at AS run_at,
    j.enqueued_at,
    j.history,
    NULL::uuid AS worker_id,
    NULL::uuid AS lease_id,
    NULL::timestamp with time zone AS claimed_at,
    j.unique_key,
    j.outage_since,
    (j.headers)::jsonb AS headers,
    (j.group_key)::text AS group_key
   FROM redrive.jobs j
UNION ALL
 SELECT d.id,
    (d.queue)::text AS queue,
    (d.kind)::text AS kind,
    'delayed'::text AS state,
    (d.priority)::smallint AS priority,
    d.payload,
    (d.attempt)::integer AS attempt,
    (d.max_attempts)::integer AS max_attempts,
    (d.generation)::integer AS generation,
    (d.crashes)::smallint AS crashes,
    (d.run_at)::timestamp with time zone AS run_at,
    d.enqueued_at,
    d.history,
    NULL::uuid AS worker_id,
    NULL::uuid AS lease_id,
    NULL::timestamp with time zone AS claimed_at,
    d.unique_key,
    d.outage_since,
    (d.headers)::jsonb AS headers,
    (d.group_key)::text AS group_key
   FROM redrive.jobs_delayed d
UNION ALL
 SELECT j.id,
    (l.queue)::text AS queue,
    j.kind,
    'leased'::text AS state,
    j.priority,
    j.payload,
    j.attempt,
    j.max_attempts,
    j.generation,
    j.crashes,
    l.claimed_at AS run_at,
    j.enqueued_at,
    j.history,
    l.worker_id,
    l.lease_id,
    l.claimed_at,
    j.unique_key,
    j.outage_since,
    j.headers,
    j.group_key
   FROM (redrive.leases l
     CROSS JOIN LATERAL redrive.jobs_of(l.*) j(id, kind, priority, payload, attempt, max_attempts, generation, crashes, refunds, enqueued_at, history, unique_key, outage_since, headers, group_key))
  WHERE (j.id <> ALL (l.done));

-- Name: VIEW live_jobs; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.live_jobs IS 'Every live job with its state: ready, delayed or leased.';

-- Name: list_jobs(jsonb, bigint, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.list_jobs(filter jsonb, after bigint DEFAULT NULL::bigint, max_jobs bigint DEFAULT 50) RETURNS SETOF redrive.live_jobs
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $_$
BEGIN
    -- No lease_id, which a reader may not see.
    RETURN QUERY EXECUTE
        'SELECT j.id, j.queue, j.kind, j.state, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,'
        ' j.crashes, j.run_at, j.enqueued_at, j.history, j.worker_id, NULL::uuid, j.claimed_at, j.unique_key,'
        ' j.outage_since, j.headers, j.group_key'
        ' FROM redrive.live_jobs j WHERE ($2 IS NULL OR j.id > $2) AND ' || redrive.filter_jobs(filter)
        || ' ORDER BY j.id LIMIT $3'
        USING filter, after, max_jobs;
END
$_$;

-- Name: details; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.details (
    id bigint NOT NULL,
    group_id bigint NOT NULL,
    digest uuid NOT NULL,
    detail text NOT NULL
);

-- Name: COLUMN details.digest; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.details.digest IS 'Digest of the masked detail, so that ids and addresses make no difference.';

-- Name: letters; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.letters AS
 SELECT l.id,
    (l.queue)::text AS queue,
    (l.kind)::text AS kind,
    l.state,
    l.cause,
    l.error_class,
    l.error_message,
    COALESCE(l.error_detail, d.detail) AS error_detail,
    l.payload,
    l.raw,
    l.content_type,
    l.headers,
    l.source,
    l."position",
    l.seen,
    l.priority,
    l.attempts,
    l.earlier_attempts,
    l.max_attempts,
    l.generation,
    l.crashes,
        CASE
            WHEN (l.run_ms IS NULL) THEN l.history
            ELSE (l.history || jsonb_build_object('generation', l.generation, 'attempt', l.attempts, 'outcome', l.cause, 'run_ms', l.run_ms, 'error_class', l.error_class, 'error_message', "left"(l.error_message, 1000), 'worker', l.worker_id, 'host', l.host, 'version', l.version, 'pid', l.pid, 'ended_at', l.died_at))
        END AS history,
    l.worker_id,
    l.host,
    l.version,
    l.discard_reason,
    l.enqueued_at,
    l.died_at,
    l.changed_at,
    l.group_id,
    l.pid,
    l.deaths,
    l.alike,
    l.edits,
    l.events,
    l.run_id,
    l.run_ordinal,
    l.policy_id,
    l.detail_id,
    l.unique_key,
    l.group_key,
    l.audit_id,
    l.redacted,
    l.failure_key,
    l.failed_redrives
   FROM (redrive.dead_letters l
     LEFT JOIN redrive.details d ON ((d.id = l.detail_id)));

-- Name: VIEW letters; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.letters IS 'Every dead letter in any state.';

-- Name: list_letters(jsonb, bigint, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.list_letters(filter jsonb, after bigint DEFAULT NULL::bigint, max_letters bigint DEFAULT 50) RETURNS SETOF redrive.letters
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $_$
DECLARE
    conditions text := redrive.filter_letters(filter);
    groups bigint[] := redrive.filter_group_ids(filter);
    states text[] := coalesce(
        redrive.filter_values(filter -> 'state'), '{open,redriving,recovered,discarded,quarantined}');
    matching text :=
        'SELECT l.id, l.died_at FROM redrive.dead_letters l'
        ' WHERE ($2 IS NULL OR (l.died_at, l.id) <'
        '   (SELECT b.died_at, b.id FROM redrive.dead_letters b WHERE b.id = $2))'
        '    AND ' || conditions;
    in_order CONSTANT text := ' ORDER BY l.died_at DESC, l.id DESC LIMIT $3';
    page text := matching || ' AND l.state <> ''redriving''' || in_order;
    on_their_way text := matching || ' AND l.state = ''redriving''' || in_order;
BEGIN
    IF groups IS NOT NULL THEN
        -- Read each group and state in index order.
        page := 'SELECT w.id, w.died_at FROM unnest($4) AS g (id) CROSS JOIN unnest($5) AS s (state) CROSS JOIN LATERAL ('
            || matching || ' AND l.group_id = g.id AND l.state = s.state AND l.state <> ''redriving'''
            || ' ORDER BY l.group_id, l.state, l.died_at DESC, l.id DESC LIMIT $3) w'
            || ' ORDER BY w.died_at DESC, w.id DESC LIMIT $3';
    END IF;
    page := CASE
        WHEN 'redriving' <> ALL (states) THEN page
        WHEN 'redriving' = ALL (states) THEN on_their_way
        ELSE 'SELECT l.id, l.died_at FROM ((' || page || ') UNION ALL (' || on_their_way || ')) l' || in_order
    END;
    RETURN QUERY EXECUTE
        'SELECT v.* FROM (' || page || ') page'
        ' JOIN redrive.letters v ON v.id = page.id ORDER BY page.died_at DESC, page.id DESC'
        USING filter, after, max_letters, groups, states;
END
$_$;

-- Name: live_waits(bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.live_waits(run bigint) RETURNS TABLE(queue text, waited_ms bigint)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
    SELECT w.queue::text,
           coalesce(greatest(0, extract(epoch FROM statement_timestamp() - head.ready_at) * 1000), 0)::bigint
    FROM (
        SELECT h.queue, bool_or(h.kinds IS NULL) AS takes_all,
               array_agg(n.kind) FILTER (WHERE n.kind IS NOT NULL) AS kinds
        FROM redrive.workers h
        LEFT JOIN LATERAL unnest(h.kinds) AS n (kind) ON true
        WHERE h.expires_at > statement_timestamp()
        GROUP BY h.queue
    ) w
    CROSS JOIN LATERAL (
        SELECT min(few.ready_at) AS ready_at
        FROM (
            SELECT j.ready_at, j.kind, j.generation
            FROM redrive.jobs j
            WHERE j.segment = (SELECT r.segment FROM redrive.ring r) AND j.queue = w.queue
            ORDER BY (j.generation > 0)::integer - 2 * j.priority, j.id
            LIMIT 100
        ) few
        WHERE few.generation = 0 AND (w.takes_all OR few.kind = ANY (w.kinds))
    ) head
    WHERE EXISTS (SELECT FROM redrive.redrive_runs r WHERE r.id = live_waits.run AND r.rate IS NULL)
$$;

-- Name: lock_for_edit(bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.lock_for_edit(id bigint) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    found_state text;
    found_edits integer;
BEGIN
    SELECT l.state, l.edits INTO found_state, found_edits
    FROM redrive.dead_letters l WHERE l.id = lock_for_edit.id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'redrive: letter % does not exist', lock_for_edit.id USING ERRCODE = 'invalid_parameter_value';
    ELSIF found_state NOT IN ('open', 'quarantined') THEN
        RAISE EXCEPTION 'redrive: letter % is %; only open and quarantined letters can be edited',
            lock_for_edit.id, found_state
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN found_edits;
END
$$;

-- Name: lock_letters(jsonb, text[], timestamp with time zone, bigint, boolean, boolean); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.lock_letters(filter jsonb, states text[], as_of timestamp with time zone, max_letters bigint, needs_json boolean DEFAULT false, needs_original boolean DEFAULT false) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id FROM redrive.dead_letters l WHERE l.state IN ('
        || (SELECT string_agg(quote_literal(s), ', ') FROM unnest(states) s)
        || ') AND l.died_at <= $2 AND (NOT $4 OR l.payload IS NOT NULL) AND (NOT $5 OR l.redacted IS NULL)'
        ' AND ' || redrive.filter_letters(filter) || ' ORDER BY l.died_at, l.id LIMIT $3 FOR UPDATE SKIP LOCKED'
        USING filter, as_of, max_letters, needs_json, needs_original;
END
$_$;

-- Name: make_ready(tid[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.make_ready(tids tid[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    moved bigint;
BEGIN
    WITH gone AS (
        DELETE FROM redrive.jobs_delayed d
        WHERE d.ctid = ANY (tids)
        RETURNING d.id, d.run_at, d.enqueued_at, d.attempt, d.max_attempts, d.generation, d.priority,
                  d.crashes, d.refunds, d.queue, d.kind, d.payload, d.history, d.unique_key,
                  d.outage_since, d.headers, d.group_key
    )
    INSERT INTO redrive.jobs
        (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
         refunds, queue, kind, payload, history, unique_key, outage_since, headers, group_key)
    SELECT CASE WHEN g.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                ELSE redrive.segment_of_waiting(g.queue, g.group_key, g.id, g.crashes) END, g.id, g.run_at, g.enqueued_at, g.attempt, g.max_attempts, g.generation,
           g.priority, g.crashes, g.refunds, g.queue, g.kind, g.payload, g.history, g.unique_key,
           g.outage_since, g.headers, g.group_key
    FROM gone g;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$$;

-- Name: mask_ids(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.mask_ids(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT replace(replace(replace(regexp_replace(("left"(message, 500) COLLATE "C"), '((?:us|de|TP|or|OR|no|te|TE|al|it|th|as|ot|ve|ed|se)[^\w\s]?[ :=(\[#]+\S?\w*\d\w*|[A-Za-z_]*[A-Z][A-Za-z_]*[-/]?\d+|[a-z]+-?\d\d?\d?|^\d\d\d|^[0-9A-Z]+:|\d\d\d [A-Z]|[(\[][0-9A-Z]+[)\]])|[[:xdigit:]]{8}(?:-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}|([a-z]+_)\w*\d\w*(?:[.,:+/-]\w*\d\w*)*|eyJ[\w.-]+|\w*\d\w*(?:[.,:+/-]\w*\d\w*)*'::text, ((('\2'::text || chr(2)) || '\1'::text) || chr(3)), 'g'::text), (chr(2) || chr(3)), '?'::text), chr(2), ''::text), chr(3), ''::text) AS replace;
END;

-- Name: mask_rest(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.mask_rest(message text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    -- The character classes of "C" are the same in every database.
    masked text COLLATE "C" := message;
BEGIN
    IF masked ~ '["''`\u201c]' THEN
        masked := redrive.mask_quotes(masked);
    END IF;
    IF masked ~ '[/@=\\]|[Ii][Dd]:|contains \(|arn:' THEN
        masked := redrive.mask_places(masked);
    END IF;
    IF masked ~ '\d' THEN
        masked := redrive.mask_numbers(masked);
    END IF;
    IF masked ~ ('j[bcdfghjklmnpqrtvwxz]|q[abcdefghijkmnoprsvwxyz]|v[bcdfghjkmnpqtwxz]|x[jkqz]|z[bcdfgjkmnpqrstvwx]|[kwfgh][jqxz]|[wfgh]v'
        '|p[jqxz]|c[jx]|[bd][qxz]|m[jxz]|l[jq]|s[xz]|[ty][qx]|[bcdfghjklmnpqrstvwxz]{5}|[a-z][A-Z][a-z][A-Z]')
    THEN
        masked := redrive.mask_tokens(masked);
    END IF;
    masked := translate(masked, chr(2) || chr(3), '');
    -- A list is one value, and so are a UUID, a date with a time and a number with a unit.
    IF masked ~ '\?[ ?.,:+/-]|[ (:+[-]\?|^[:+-]' THEN
        masked := regexp_replace(masked, '(^|[ ([])(?:[-+]|::)\?', '\1?', 'g');
        masked := regexp_replace(masked,
            '(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:\?[ -])?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*,?[ -]+\?',
            '?', 'g');
        masked := regexp_replace(masked, '\?(?:,? \?|::\?|[.,:+/-]?\?|(?:-[[:xdigit:]]+)+-\?| (?:GMT|UTC|AM|PM)\M'
            '| (?:[num\u00b5\u03bc]?s|secs?|seconds?|millis|milliseconds?|m|mins?|minutes?|h|hours?|days?|[Bb]ytes?|[KMGTkm]?i?B)\M)+',
            '?', 'g');
    END IF;
    RETURN masked;
END
$$;

-- Name: mask(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.mask(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT redrive.mask_rest(redrive.mask_ids(message)) AS mask_rest;
END;

-- Name: mask_numbers(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.mask_numbers(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT replace(regexp_replace((message COLLATE "C"), '(\u0002[^\u0003]*\u0003|\m(?:SQLSTATE|SQLState|sqlstate|[Ee]rrno|os error|[Ss]tatus|STATUS|HTTP|http|[Cc]ode|CODE|[Ss]ignal|[Ee]xit(?:ed)?|Msg|HRESULT|NTSTATUS|(?:[Ee]rror|[Rr]esponse|[Rr]esult|[Rr]eturn|[Rr]eason|[Vv]endor)[_ ]?[Cc]ode)(?:[_ ]?(?:[Cc]ode|[Ss]tatus|with|number|error))*["'']?[ :=(\[#]{1,3}["'']?-?(?:\dx[[:xdigit:]]{2,8}|[A-Z]{0,8}[_-]?\d{1,7}[A-Z]{0,2}\d{0,3}|[0-9A-Z]{5})\M|\m(?:[Ee]rror|ERROR)(?: \(|[ #\[])\d{1,6}\M(?: \([0-9A-Z]{5}\))?|\m[Ee]rror: \d{3}\M|\m[A-Za-z]+: \(\d{1,3}\)|HTTP/\d(?:\.\d)? \d{3}\M|^\d{3}(?: [A-Z]|:|$)|\m\d{3} (?:Client Error|Server Error|Bad|Unauthorized|Payment|Forbidden|Not|Method|Proxy|Request|Conflict|Gone|Length|Precondition|Payload|URI|Unsupported|Range|Expectation|Unprocessable|Locked|Failed|Too|Upgrade|Internal|Service|Gateway|Insufficient)\M|\m(?:returned|answered|responded(?: with)?|replied(?: with)?|response|received|got|gave|with|was)(?: an?)?(?: error| status)? \d{3}(?:$|[).,:;\]]| [A-Z]| (?:for|from|to|on|while|when|after|at|in|by|but|and|error)\M)|server on \? \(\d{1,3}\)|^[0-9A-Z]{5}:|(?:violation|error|failed|failure|exception|deadlock|timeout) [(\[][0-9A-Z]{5}[)\]]|ERROR: [0-9A-Z]{5}\M|[(\[](?:\d\d?[A-Z]\d{2,3}|[A-Z][A-Z\d]\d{3})[)\]]|\m(?:ORA|TNS|PLS|DPY|DPI|SP\d|SQL|IMP|EXP|RMAN|MY|AMQ|JBAS|WFLY|HHH|AADSTS|PGRST|ERR|CVE|CS|TS|MSB|E|P)[-_]?\d{4,7}[A-Z]?\M|\m(?:expected|type|to|into|as|for) (?:an? )?[iuf]\d{1,3}\M|\m(?:int\d{1,2}|uint\d{1,2}|float\d{1,2}|[Uu]tf-?\d{1,2}|UTF-?\d{1,2}|[Ss]ha-?\d{1,3}|SHA-?\d{1,3}|md\d|MD\d|base\d\d|S\d|s\d:[A-Z]\w+|ec\d:[A-Z]\w+|EC\d|[Hh]ttp\d|HTTP/\d(?:\.\d)?|[Oo][Aa]uth\d|[Ii][Pp]v\d|x\d{3}|TLSv?\d(?:\.\d)?|SSLv\d|v\d)\M)|(\m(?:[Cc]oupon|[Pp]romo|[Vv]oucher|[Gg]ift|[Dd]iscount|[Vv]erification|[Ss]ecurity|[Aa]ccess|[Zz]ip|[Pp]ostal|[Pp]ost|[Aa]rea|[Cc]ountry|[Pp]roduct|[Ii]tem|[Tt]racking|[Bb]ank|[Ss]ort) [Cc]ode[ :=]{1,3})\S*\d\S*|(\m[A-Za-z]{2,12}_)\w*\d\w*(?:[.,:+/-]\w*\d\w*)*|\m[A-Z]{1,4}-\w*\d\w*(?:[.,:+/-]\w*\d\w*)*|[[:xdigit:]]+(?:-[[:xdigit:]]+){4}|\w*\d\w*(?:[.,:+/-]\w*\d\w*)*'::text, ((('\2\3'::text || chr(2)) || '\1'::text) || chr(3)), 'g'::text), (chr(2) || chr(3)), '?'::text) AS replace;
END;

-- Name: mask_places(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.mask_places(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT replace(regexp_replace((message COLLATE "C"), '(\u0002[^\u0003]*\u0003|(?:application|text|image|audio|video|multipart|font)/[\w.+*-]+|\m(?:com|org|net|io|java|javax|jakarta)(?:/[\w$]+)+)|(https?://[A-Za-z-]+(?:\.[A-Za-z-]+)+)(?::[\d?]+)?(?:[/?#](?:[^\s"''<>()\u0002\u0003]*[^\s"''<>()\u0002\u0003,;:.])?)?|([a-z][a-z\d+.-]*://)[^\s"''<>()\u0002\u0003]*[^\s"''<>()\u0002\u0003,;:.]|(\)=\(|\mcontains \()[^)]*|(\marn:)[^\s"'',]+|(\m[\w.-]*(?:[Uu]ser|[Nn]ame|[Ii][Dd]|[Mm]ail|[Tt]enant|[Cc]ustomer|[Aa]ccount|[Oo]wner|[Cc]lient|[Tt]oken|[Ss]ession|[Tt]race|[Hh]ost|[Aa]ddr(?:ess)?|[Uu]rl|[Ff]ile|[Pp]ath|[Ss]ku|[Oo]rder|[Kk]ey|[Vv]alue|[Pp]assword|[Ii]p|[Ll]ogin|[Pp]hone|[Nn]ode|[Pp]od|[Ii]nstance)=|\m[\w-]*[Ii][Dd]: ?)[^\s,;&()\[\]{}"''\u0002\u0003]+|(^|[\s="''(\[,:<>])(?:/[\w.@%+~$*{}?-]+)+/?|\m[A-Za-z]:\\[^\s"'']+|[\w.+?-]+@[\w?-]+(?:\.[\w?-]+)+|[\w.?-]+/[\w.%?-]+(?:/[\w.%?-]+)+|[\w.?-]+/[\w.?-]+\.[a-z]+\M'::text, ((('\2\3\4\5\6\7'::text || chr(2)) || '\1'::text) || chr(3)), 'g'::text), (chr(2) || chr(3)), '?'::text) AS replace;
END;

-- Name: mask_quotes(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.mask_quotes(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT replace(regexp_replace((message COLLATE "C"), '(\m(?:[Cc]olumn|[Ff]ield|[Kk]ey|[Tt]able|[Rr]elation|[Cc]onstraint|[Pp]ropert(?:y|ies)|[Aa]ttribute|[Pp]aram(?:eter)?|[Aa]rgument|[Vv]ariable|[Ff]unction|[Mm]ethod|[Tt]ype|[Cc]lass|[Mm]odule|[Pp]ackage|[Ii]ndex|[Ss]equence|[Ss]chema|[Dd]atabase|[Tt]opic|[Qq]ueue|[Ss]ubject|[Rr]ole|[Ee]num|[Oo]ption|[Ff]lag|[Hh]eader|[Ss]etting|[Cc]ommand|[Oo]peration|[Aa]ction|[Pp]ermission|[Ss]cope|[Ss]ervice|[Mm]odel|[Ee]ntity|[Pp]ath|[Mm]ember|[Vv]iew|[Tt]rigger|[Ee]xtension|[Pp]lugin|[Kk]ind|[Mm]etric|[Rr]esource|[Ee]vent|[Ss]tate|[Ss]tatus|[Cc]ode|[Rr]eason|[Ee]xpected|[Mm]issing|[Rr]equired?|one of|parameter in input|KeyError|reading|setting|named|at)(?:\(s\)|e?s)?(?: (?:name|named|called|of|in|one of))?[ :=(\[]{1,3}(?:"(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+(?:\(\))?"|''(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+(?:\(\))?''|`(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+(?:\(\))?[`''])(?:(?:, | or | and |, or )(?:"(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+"|''(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+''|`(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+`))*|["''`](?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+["''`] (?:object|argument|field|column|property|attribute|parameter|operation|method|function|header|key|codec|expected|is an? required|is (?:required|missing|undefined)|is not (?:defined|a function)|must|may not|cannot be|can''t be|should)\M|["''`][a-z]+(?:_[a-z]+)+(?:_\d)?["''`]|["''`][A-Z]+(?:_[A-Z]+)+["''`]|["''`][A-Za-z][a-z]+[A-Z][A-Za-z]*["''`]|["''`][A-Za-z_$-]+(?:[.:]+[A-Za-z_$-]+){2,}(?:\(\))?["''`]|["''`][A-Za-z_$.:-]+\(\)["''`]|`(?:None|Some|Ok|Err|Self|self)`|["''](?:int|integer|str|string|float|double|number|bytes|bool|boolean|dict|list|tuple|set|object|array|null|undefined)["'']|["''`][^\w\s"''`?]{1,3}["''`]|[{,]\s*"[A-Za-z_][\w.-]*"\s*:|"(?:error_?)?(?:code|type|reason|status|Code|Type)"\s*:\s*"(?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+"|^["''](?:[A-Za-z_$.:-]|[A-Za-z_]\d{1,3})+["'']$|[A-Za-z]+''[A-Za-z]*)|(\m(?:[Vv]alues?|[Ss]tring|[Gg]ot|[Rr]eceived|[Ff]ound|[Uu]ser(?:name)?|[Vv]ariant|[Ee]ntry|[Tt]oken|literal|[Tt]ext|[Ii]d|ID|[Ee]-?mail|[Aa]ccount|[Cc]ustomer|[Tt]enant|[Hh]ost|[Uu]rl|URL|[Ff]ile(?:name)?|pars(?:e|ing)|[Oo]rder|[Ss]ession|[Rr]equest|[Pp]roject|[Nn]ear|than)[ :=(]{1,3})(?:"[^"]*"|''[^'']*(?:''\w+[^'']*)*''|`[^`]*`)|(["''`]https?://[A-Za-z-]+(?:\.[A-Za-z-]+)+)[^"''`]*["''`]|"[^"]*"|\m[bu]?''[^'']*(?:''\w+[^'']*)*''|''[^'']*(?:''\w+[^'']*)*''|`[^`'']*[`'']|\u201c[^\u201d]*\u201d'::text, ((('\2\3'::text || chr(2)) || '\1'::text) || chr(3)), 'g'::text), (chr(2) || chr(3)), '?'::text) AS replace;
END;

-- Name: mask_tokens(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.mask_tokens(message text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT replace(regexp_replace((message COLLATE "C"), '(\u0002[^\u0003]*\u0003|[Hh][Tt][Tt][Pp][Ss]?)|(\m[a-z]{2,12}_)?(?=[A-Za-z]{6})[A-Za-z]*(?:j[bcdfghjklmnpqrtvwxz]|q[abcdefghijkmnoprsvwxyz]|v[bcdfghjkmnpqtwxz]|x[jkqz]|z[bcdfgjkmnpqrstvwx]|[kwfgh][jqxz]|[wfgh]v|p[jqxz]|c[jx]|[bd][qxz]|m[jxz]|l[jq]|s[xz]|[ty][qx]|[bcdfghjklmnpqrstvwxz]{6}|[a-z][A-Z][a-z][A-Z]|[A-Z][a-z][A-Z][a-z][A-Z])[A-Za-z]*\M|(-)[bcdfghjklmnpqrstvwxz]{5}\M'::text, ((('\2\3'::text || chr(2)) || '\1'::text) || chr(3)), 'g'::text), (chr(2) || chr(3)), '?'::text) AS replace;
END;

-- Name: metric_totals(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metric_totals() RETURNS TABLE(metric text, labels text[], value double precision, counts bigint[], sum double precision)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    SET synchronize_seqscans TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    tallies redrive.metric_tally[];
    age   double precision;
BEGIN
    PERFORM redrive.require_read_committed('metric_totals');
    LOCK TABLE redrive.metric_deltas, redrive.metric_values IN ACCESS SHARE MODE;
    RETURN QUERY
    WITH deltas AS MATERIALIZED (
        SELECT d.at, d.queue, d.keys, d.labels, d.causes, d.buckets, d.counts, d.sums
        FROM redrive.metric_deltas d
        LIMIT 5000
    ),
    tallies AS (
        SELECT d.queue, u.key, u.label, u.cause, u.bucket, sum(u.count)::bigint AS count, sum(u.sum) AS sum,
               min(d.at) AS first_at, max(d.at) AS last_at
        FROM deltas d
        CROSS JOIN LATERAL unnest(d.keys, d.labels, d.causes, d.buckets, d.counts, d.sums)
            AS u (key, label, cause, bucket, count, sum)
        GROUP BY 1, 2, 3, 4, 5
    ),
    placed AS (
        SELECT p.key, p.queue, p.label, p.cause, p.value, p.counts, p.sum, p.last_at
        FROM redrive.place_metric_tallies((
            SELECT array_agg(ROW(c.queue, c.key, c.label, c.cause, c.bucket, c.count, c.sum,
                                 c.first_at, c.last_at)::redrive.metric_tally) FROM tallies c)) p
    ),
    series AS MATERIALIZED (
        SELECT coalesce(v.key, p.key) AS key, coalesce(v.queue, p.queue) AS queue,
               coalesce(v.label, p.label) AS label, coalesce(v.cause, p.cause) AS cause,
               coalesce(v.value, 0) + coalesce(p.value, 0) AS value,
               CASE WHEN p.counts IS NULL THEN v.counts ELSE redrive.add_counts(v.counts, p.counts) END AS counts,
               coalesce(v.sum, 0) + coalesce(p.sum, 0) AS sum,
               greatest(v.last_at, p.last_at) AS last_at
        FROM redrive.metric_values v
        FULL JOIN placed p ON p.key = v.key AND p.queue = v.queue AND p.label = v.label AND p.cause = v.cause
    )
    SELECT w.metric,
           ARRAY[s.queue] || (ARRAY[s.label, s.cause])[1:cardinality(w.labels)],
           CASE WHEN w.bounds IS NULL THEN s.value::double precision END,
           s.counts,
           CASE WHEN w.bounds IS NOT NULL THEN s.sum END
    FROM series s
    JOIN redrive.counter_keys w ON w.key = s.key
    WHERE w.metric IS NOT NULL
    UNION ALL
    SELECT 'redrive_queue_live_jobs', ARRAY[s.queue],
           sum(CASE WHEN s.key IN ('enqueued', 'returned') THEN s.value ELSE -s.value END)::double precision,
           NULL, NULL
    FROM series s
    WHERE s.key IN ('enqueued', 'returned', 'succeeded', 'ended')
    GROUP BY s.queue
    UNION ALL
    SELECT 'redrive_queue_last_success_timestamp_seconds', ARRAY[s.queue],
           date_part('epoch', max(s.last_at)), NULL, NULL
    FROM series s
    WHERE s.key = 'succeeded'
    GROUP BY s.queue
    UNION ALL
    SELECT 'redrive_fold_age_seconds', '{}'::text[],
           coalesce(date_part('epoch', clock_timestamp() - min(d.at)), 0), NULL, NULL
    FROM deltas d
    UNION ALL
    SELECT 'redrive_audit_drift_jobs', ARRAY[f.queue, f.set], f.drift, NULL, NULL
    FROM redrive.metric_drift f
    UNION ALL
    -- Estimate the number of names from the number of set bits.
    SELECT 'redrive_series_folded', ARRAY[f.label],
           round((-65536 * ln(1 - least(bit_count(f.names), 65535) / 65536.0))::numeric), NULL, NULL
    FROM redrive.metric_folded f;
END
$$;

-- Name: metrics_bloat(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_bloat() RETURNS TABLE(metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $_$
DECLARE
    extension_schema text;
    each_heap record;
    free_bytes double precision;
    measured jsonb := '{}';
BEGIN
    RETURN QUERY
    WITH heaps AS MATERIALIZED (
        SELECT regexp_replace(c.relname, '_[0-9]+$', '') AS name, c.oid, c.relname,
               pg_relation_size(c.oid)::double precision AS bytes,
               -- After a crash the statistics are empty; use the result of the last vacuum.
               CASE WHEN pg_stat_get_live_tuples(c.oid) + pg_stat_get_dead_tuples(c.oid) = 0
                   THEN greatest(c.reltuples, 0) ELSE pg_stat_get_live_tuples(c.oid)
               END::double precision AS live,
               pg_stat_get_dead_tuples(c.oid)::double precision AS dead,
               coalesce((SELECT o.option_value FROM pg_options_to_table(c.reloptions) o
                         WHERE o.option_name = 'fillfactor')::double precision, 100) / 100 AS filled
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
    ),
    widths AS MATERIALIZED (
        SELECT s.tablename, sum((1 - s.null_frac) * s.avg_width)::double precision AS width,
               count(*) AS columns
        FROM pg_stats s WHERE s.schemaname = 'redrive' AND NOT s.inherited
        GROUP BY s.tablename
    )
    SELECT 'redrive_table_bloat_bytes_estimate', ARRAY[h.name, 'stats'], sum(greatest(0, h.bytes - CASE
        -- A line pointer and a header with the NULL bitmap, both aligned to 8 bytes.
        WHEN w.width IS NOT NULL
            THEN h.live * (4 + 8 * ceil((23 + ceil(w.columns / 8.0)) / 8) + 8 * ceil(w.width / 8)) / h.filled
        -- Never analyzed: assume that dead rows are as wide as live ones.
        WHEN h.live > 0 THEN h.bytes * h.live / (h.live + h.dead)
        ELSE 0 END))
    FROM heaps h
    LEFT JOIN widths w ON w.tablename = h.relname
    GROUP BY h.name;

    SELECT quote_ident(n.nspname) INTO extension_schema
    FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'pgstattuple';
    IF extension_schema IS NULL
        OR NOT has_function_privilege(format('%s.pgstattuple_approx(regclass)', extension_schema), 'EXECUTE')
    THEN
        RETURN;
    END IF;
    FOR each_heap IN
        SELECT regexp_replace(c.relname, '_[0-9]+$', '') AS name, c.oid
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
            -- It reads the pages that are not all-visible: limit these to 128 MB.
            AND pg_relation_size(c.oid) / 8192 - c.relallvisible < 16384
        ORDER BY pg_relation_size(c.oid)
    LOOP
        EXIT WHEN clock_timestamp() - statement_timestamp() > interval '2 seconds';
        EXECUTE format('SELECT a.dead_tuple_len + a.approx_free_space FROM %s.pgstattuple_approx($1) a',
                       extension_schema)
            INTO free_bytes USING each_heap.oid::regclass;
        measured := measured || jsonb_build_object(
            each_heap.name, coalesce((measured ->> each_heap.name)::double precision, 0) + free_bytes);
    END LOOP;
    RETURN QUERY
    SELECT 'redrive_table_bloat_bytes_estimate', ARRAY[m.key, 'pgstattuple'], m.value::double precision
    FROM jsonb_each_text(measured) m;
END
$_$;

-- Name: metrics_cap(integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_cap(queues integer) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (GREATEST(100, (10000 / GREATEST(queues, 1))))::bigint;

-- Name: metrics_job_queues(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_job_queues() RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE known (queue, steps) AS (
            SELECT ''::text COLLATE "C", 0
            UNION ALL
            SELECT least(
                (SELECT j.queue FROM redrive.jobs j
                 WHERE j.queue > k.queue
                     AND j.queue < coalesce(
                         (SELECT min(m.queue) FROM redrive.claim_marks m WHERE m.queue > k.queue), U&'\+10FFFF')
                 ORDER BY j.queue LIMIT 1),
                (SELECT min(m.queue) FROM redrive.claim_marks m WHERE m.queue > k.queue),
                (SELECT d.queue FROM redrive.jobs_delayed d
                 WHERE d.queue > k.queue
                     AND d.queue < coalesce(
                         (SELECT min(m.queue) FROM redrive.delayed_marks m WHERE m.queue > k.queue), U&'\+10FFFF')
                 ORDER BY d.queue LIMIT 1),
                (SELECT min(m.queue) FROM redrive.delayed_marks m WHERE m.queue > k.queue)
            ), k.steps + 1
            FROM known k
            WHERE k.queue IS NOT NULL AND k.steps < 1000
        )
        SELECT k.queue FROM known k WHERE k.queue > ''
    );
END
$$;

-- Name: metrics_letter_queues(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_letter_queues() RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE known (queue, steps) AS (
            SELECT ''::text COLLATE "C", 0
            UNION ALL
            SELECT least(
                (SELECT l.queue::text FROM redrive.dead_letters l
                 WHERE l.state = 'open' AND l.queue > k.queue ORDER BY l.queue LIMIT 1),
                (SELECT g.queue::text FROM redrive.groups g WHERE g.queue > k.queue ORDER BY g.queue LIMIT 1)
            ), k.steps + 1
            FROM known k
            WHERE k.queue IS NOT NULL AND k.steps < 1000
        )
        SELECT k.queue FROM known k WHERE k.queue > ''
        UNION
        SELECT w.queue::text FROM redrive.workers w
        UNION
        SELECT r.queue::text FROM redrive.retention r WHERE r.queue IS NOT NULL
    );
END
$$;

-- Name: metrics_letters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_letters() RETURNS TABLE(metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    queues text[] := redrive.metrics_letter_queues();
    -- Letters are large, so a page holds few of them.
    cap    bigint := redrive.metrics_cap(cardinality(queues)) / 4;
    ignored bigint[] := ARRAY(SELECT g.id FROM redrive.groups g WHERE g.state = 'ignored');
BEGIN
    RETURN QUERY
    SELECT v.metric, v.labels, v.value::double precision
    FROM unnest(queues) AS q (queue)
    LEFT JOIN LATERAL (
        SELECT l.died_at FROM redrive.dead_letters l
        WHERE l.state = 'open' AND l.queue = q.queue
        ORDER BY l.died_at LIMIT 1
    ) first ON true
    -- If the first one may be ignored. The last one stands for those behind it, which are not searched.
    LEFT JOIN LATERAL (
        SELECT min(n.died_at) AS died_at
        FROM (
            SELECT l.died_at, l.group_id, row_number() OVER (ORDER BY l.died_at) AS place
            FROM redrive.dead_letters l
            WHERE cardinality(ignored) > 0 AND l.state = 'open' AND l.queue = q.queue
            ORDER BY l.died_at LIMIT cap
        ) n
        WHERE n.group_id <> ALL (ignored) OR n.place = cap
    ) relevant ON true
    CROSS JOIN LATERAL (
        SELECT CASE WHEN cardinality(ignored) > 0 THEN relevant.died_at ELSE first.died_at END AS died_at
    ) oldest
    -- One pass over the oldest letters: those older than a week are also older than a day.
    CROSS JOIN LATERAL (
        SELECT count(*) AS hour,
               count(*) FILTER (WHERE few.died_at < statement_timestamp() - interval '1 day') AS day,
               count(*) FILTER (WHERE few.died_at < statement_timestamp() - interval '7 days') AS week
        FROM (
            SELECT l.died_at, l.group_id FROM redrive.dead_letters l
            WHERE l.state = 'open' AND l.queue = q.queue
                AND l.died_at < statement_timestamp() - interval '1 hour'
            ORDER BY l.died_at LIMIT cap
        ) few
        WHERE few.group_id <> ALL (ignored)
    ) older
    LEFT JOIN LATERAL (
        SELECT r.keep FROM redrive.retention r
        WHERE r.state = 'open' AND (r.queue = q.queue OR r.queue IS NULL)
        ORDER BY r.queue NULLS LAST LIMIT 1
    ) kept ON true
    CROSS JOIN LATERAL (VALUES
        ('redrive_dlq_oldest_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - oldest.died_at))::double precision),
        ('redrive_dlq_letters_older_than', ARRAY[q.queue, '1h'], older.hour),
        ('redrive_dlq_letters_older_than', ARRAY[q.queue, '1d'], older.day),
        ('redrive_dlq_letters_older_than', ARRAY[q.queue, '7d'], older.week),
        ('redrive_dlq_retention_seconds', ARRAY[q.queue], coalesce(extract(epoch FROM kept.keep), 0))
    ) v (metric, labels, value);
END
$$;

-- Name: metrics_operations(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_operations() RETURNS TABLE(metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    queues text[] := redrive.metrics_letter_queues();
    cap    bigint := redrive.metrics_cap(cardinality(queues));
BEGIN
    RETURN QUERY
    SELECT 'redrive_workers', ARRAY[w.queue, CASE
               WHEN w.expires_at <= statement_timestamp() THEN 'expired'
               WHEN w.waiting THEN 'waiting'
               ELSE 'busy' END], count(*)::double precision
    FROM redrive.workers w
    GROUP BY 2;

    -- A worker with at least as many jobs as slots has no free slot.
    RETURN QUERY
    SELECT v.metric, ARRAY[s.queue], v.value::double precision
    FROM (
        SELECT w.queue::text AS queue, sum(w.slots) AS slots, sum(least(w.slots, coalesce(l.jobs, 0))) AS busy
        FROM redrive.workers w
        LEFT JOIN (
            SELECT h.worker_id, sum(h.job_count - cardinality(h.done)) AS jobs
            FROM redrive.leases h GROUP BY h.worker_id
        ) l ON l.worker_id = w.worker_id
        WHERE w.expires_at > statement_timestamp()
        GROUP BY w.queue
    ) s
    CROSS JOIN LATERAL (VALUES
        ('redrive_worker_slots', s.slots), ('redrive_worker_slots_busy', s.busy)
    ) v (metric, value);

    -- The breaker of a dependency counts for each queue with a worker for a kind that needs it.
    RETURN QUERY
    SELECT 'redrive_breakers', ARRAY[held.queue, b.state], count(*)::double precision
    FROM redrive.breakers b
    CROSS JOIN LATERAL (
        SELECT substr(b.name, 7) AS queue WHERE b.name LIKE 'queue:%'
        UNION ALL
        (SELECT DISTINCT w.queue::text FROM redrive.workers w
         WHERE b.name NOT LIKE 'queue:%' AND w.expires_at > statement_timestamp()
             AND (w.kinds IS NULL OR w.kinds && b.kinds))
        UNION ALL
        SELECT '__other__' WHERE b.name NOT LIKE 'queue:%' AND NOT EXISTS (
            SELECT FROM redrive.workers w
            WHERE w.expires_at > statement_timestamp() AND (w.kinds IS NULL OR w.kinds && b.kinds))
    ) held
    WHERE b.state <> 'closed'
    GROUP BY 2;

    RETURN QUERY
    SELECT v.metric, v.labels, v.value::double precision
    FROM redrive.paused_queues p
    CROSS JOIN LATERAL (VALUES
        ('redrive_queue_paused', ARRAY[p.queue, CASE WHEN p.ends_at IS NULL THEN 'none' ELSE 'planned' END], 1),
        ('redrive_queue_paused_seconds', ARRAY[p.queue],
            greatest(0, extract(epoch FROM statement_timestamp() - p.paused_at)))
    ) v (metric, labels, value);

    -- The limits of the first hundred kinds keep their names.
    RETURN QUERY
    SELECT v.metric, ARRAY[n.queue, n.label], max(v.value)
    FROM (
        SELECT l.queue::text AS queue, l.rate,
               CASE WHEN l.each_group THEN '__each_group__'
                    WHEN l.kind = '' THEN '__queue__'
                    WHEN row_number() OVER (PARTITION BY l.kind = '' ORDER BY l.set_at, l.queue, l.kind) <= 100 THEN l.kind
                    ELSE '__other__' END AS label,
               CASE WHEN l.each_group OR b.queue IS NOT NULL THEN
                    least(1, greatest(0, 1 - CASE WHEN l.each_group THEN redrive.fewest_tokens(l)
                                                  ELSE redrive.tokens_now(b, l) END / redrive.token_capacity(l)))
                    ELSE 1 END AS used
        FROM redrive.rate_limits l
        LEFT JOIN redrive.rate_buckets b ON b.queue = l.queue AND b.kind = l.kind AND NOT l.each_group
    ) n
    CROSS JOIN LATERAL (VALUES
        ('redrive_rate_limit_starts_per_second', n.rate),
        ('redrive_rate_limit_use_ratio', n.used)
    ) v (metric, value)
    GROUP BY 1, 2;

    RETURN QUERY
    SELECT 'redrive_failure_groups', ARRAY[q.queue, s.state], few.groups::double precision
    FROM unnest(queues) AS q (queue)
    CROSS JOIN unnest('{open,acknowledged,resolved,ignored}'::text[]) AS s (state)
    CROSS JOIN LATERAL (
        SELECT count(*) AS groups
        FROM (SELECT FROM redrive.groups g WHERE g.queue = q.queue AND g.state = s.state LIMIT cap) f
    ) few;

    RETURN QUERY
    SELECT 'redrive_group_regressions_total', ARRAY[r.queue], sum(r.regressions)::double precision
    FROM (
        SELECT g.queue::text AS queue, g.regressions FROM redrive.groups g WHERE g.regressions > 0
        UNION ALL
        SELECT f.queue::text, f.regressions FROM redrive.pruned_regressions f
    ) r
    GROUP BY r.queue;

    -- The first hundred schedules keep their names. A lease is read once for all schedules of its queue.
    RETURN QUERY
    WITH named AS MATERIALIZED (
        SELECT s.name, s.queue, s.priority, s.next_at, s.changed_at, s.paused_at,
               CASE WHEN row_number() OVER (ORDER BY s.created_at, s.name) <= 100 THEN s.name::text ELSE '__other__' END
                   AS label
        FROM redrive.schedules s
    ),
    latest AS MATERIALIZED (
        SELECT n.name, n.queue, n.priority, t.id, t.job_id
        FROM named n
        CROSS JOIN LATERAL (
            SELECT k.id, k.job_id FROM redrive.schedule_ticks k
            WHERE k.schedule = n.name AND k.outcome IN ('fired', 'triggered')
            ORDER BY k.id DESC LIMIT 10
        ) t
    ),
    leased AS MATERIALIZED (
        SELECT i.id FROM redrive.leases l CROSS JOIN LATERAL unnest(l.ids) AS i (id)
        WHERE l.queue = ANY (ARRAY(SELECT n.queue FROM named n)) AND i.id <> ALL (l.done)
            AND i.id = ANY (ARRAY(SELECT t.job_id FROM latest t))
    ),
    ended AS (
        SELECT t.name, t.id, coalesce(d.state <> 'recovered', false) AS is_dead
        FROM latest t
        LEFT JOIN redrive.dead_letters d ON d.id = t.job_id
        WHERE d.state IS DISTINCT FROM 'redriving'
            AND NOT EXISTS (SELECT FROM leased i WHERE i.id = t.job_id)
            AND NOT EXISTS (SELECT FROM redrive.jobs_delayed j WHERE j.id = t.job_id)
            AND NOT EXISTS (
                SELECT FROM redrive.jobs j
                WHERE j.queue = t.queue AND ((j.generation > 0)::integer - 2 * j.priority) = -2 * t.priority
                    AND j.id = t.job_id)
    ),
    in_a_row AS (
        SELECT r.name, count(*) FILTER (WHERE r.all_dead) AS deaths
        FROM (SELECT e.name, bool_and(e.is_dead) OVER (PARTITION BY e.name ORDER BY e.id DESC) AS all_dead FROM ended e) r
        GROUP BY r.name
    )
    SELECT v.metric, ARRAY[n.label], max(v.value)::double precision
    FROM named n
    LEFT JOIN in_a_row i ON i.name = n.name
    CROSS JOIN LATERAL (VALUES
        ('redrive_schedule_lag_seconds', CASE WHEN n.paused_at IS NULL THEN
            greatest(extract(epoch FROM statement_timestamp() - coalesce(n.next_at, n.changed_at)), 0) ELSE 0 END),
        ('redrive_schedule_deaths', coalesce(i.deaths, 0))
    ) v (metric, value)
    GROUP BY 1, 2;

    RETURN QUERY
    SELECT 'redrive_runs', ARRAY[r.state], count(*)::double precision
    FROM redrive.redrive_runs r
    WHERE r.state IN ('unapproved', 'running', 'paused', 'halted')
    GROUP BY r.state;

    RETURN QUERY
    SELECT 'redrive_run_letters_waiting', '{}'::text[], coalesce(sum(r.total - r.cursor), 0)::double precision
    FROM redrive.redrive_runs r
    WHERE r.state IN ('running', 'paused', 'halted');

    -- One row per run, plus outcomes that are not folded yet.
    RETURN QUERY
    SELECT v.metric, v.labels, v.value::double precision
    FROM (
        SELECT coalesce(sum(r.sent), 0) AS sent, coalesce(sum(r.recovered), 0) AS recovered,
               coalesce(sum(r.died_alike), 0) AS alike, coalesce(sum(r.died_differently), 0) AS differently
        FROM redrive.redrive_runs r
    ) a
    CROSS JOIN (
        SELECT coalesce(sum(d.recovered), 0) AS recovered, coalesce(sum(d.died_alike), 0) AS alike,
               coalesce(sum(d.died_differently), 0) AS differently
        FROM redrive.run_deltas d
    ) n
    CROSS JOIN LATERAL (VALUES
        ('redrive_run_letters_unsettled', '{}'::text[],
            a.sent - a.recovered - a.alike - a.differently - n.recovered - n.alike - n.differently),
        ('redrive_run_outcomes_total', '{recovered}', a.recovered + n.recovered),
        ('redrive_run_outcomes_total', '{died_alike}', a.alike + n.alike),
        ('redrive_run_outcomes_total', '{died_differently}', a.differently + n.differently)
    ) v (metric, labels, value);
END
$$;

-- Name: metrics_priorities(integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_priorities(queues integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN LEAST(32, GREATEST(2, (320 / GREATEST(queues, 1))));

-- Name: metrics_queues(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_queues() RETURNS TABLE(metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    queues text[]  := redrive.metrics_job_queues();
    cap    bigint  := redrive.metrics_cap(cardinality(queues));
    most   integer := redrive.metrics_priorities(cardinality(queues));
BEGIN
    RETURN QUERY
    WITH by_kind AS MATERIALIZED (
        SELECT k.queue, few.kind, count(*) AS jobs, min(few.ready_at) AS oldest_at,
               min(few.ready_at) FILTER (WHERE few.place = 1) AS next_at
        FROM unnest(queues) AS k (queue)
        CROSS JOIN LATERAL (
            -- In the order of claims: jobs that nobody takes are left behind, at its start.
            SELECT j.kind, j.ready_at,
                   row_number() OVER (ORDER BY ((j.generation > 0)::integer - 2 * j.priority), j.id) AS place
            FROM redrive.jobs j WHERE j.queue = k.queue
            ORDER BY ((j.generation > 0)::integer - 2 * j.priority), j.id LIMIT cap + 1
        ) few
        GROUP BY k.queue, few.kind
    ),
    -- Kinds with a slot keep their names. The most frequent others take the places that are left.
    named AS (
        SELECT r.queue, r.jobs,
               CASE WHEN s.name IS NOT NULL
                        OR row_number() OVER (PARTITION BY r.queue, s.name IS NULL ORDER BY r.jobs DESC, r.kind)
                           + (SELECT count(*) FROM redrive.metric_slots o WHERE o.label = 'kind' AND o.queue = r.queue)
                           <= 20
                    THEN r.kind ELSE '__other__' END AS kind
        FROM by_kind r
        LEFT JOIN redrive.metric_slots s ON s.label = 'kind' AND s.queue = r.queue AND s.name = r.kind
    ),
    counted AS MATERIALIZED (
        SELECT k.queue, ready.jobs AS ready, ready.unhandled, late.jobs AS delayed, ready.next_at,
               least(ready.oldest_at, oldest.ready_at) AS oldest_at
        FROM unnest(queues) AS k (queue)
        CROSS JOIN LATERAL (
            SELECT coalesce(bool_or(w.kinds IS NULL), false) AS takes_all,
                   coalesce(array_agg(DISTINCT n.kind) FILTER (WHERE n.kind IS NOT NULL), '{}') AS kinds
            FROM redrive.workers w
            LEFT JOIN LATERAL unnest(w.kinds) AS n (kind) ON true
            WHERE w.queue = k.queue AND w.expires_at > statement_timestamp()
        ) handled
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(r.jobs), 0) AS jobs,
                   coalesce(sum(r.jobs) FILTER (WHERE NOT handled.takes_all AND r.kind <> ALL (handled.kinds)), 0)
                       AS unhandled,
                   min(r.oldest_at) AS oldest_at, min(r.next_at) AS next_at
            FROM by_kind r WHERE r.queue = k.queue
        ) ready
        LEFT JOIN redrive.delayed_marks mark ON mark.queue = k.queue AND mark.run_at <= statement_timestamp()
        -- Few jobs lie below the mark, behind any number of dead rows, and workers promote those soon.
        CROSS JOIN LATERAL (
            SELECT count(*) AS jobs
            FROM (
                SELECT FROM redrive.jobs_delayed d
                WHERE d.queue = k.queue
                    AND (d.run_at, d.id) > (coalesce(mark.run_at, 'epoch'), coalesce(mark.id, 0))
                LIMIT cap + 1
            ) few
        ) late
        LEFT JOIN LATERAL (
            WITH RECURSIVE known (rank, steps) AS (
                SELECT (SELECT ((j.generation > 0)::integer - 2 * j.priority)
                        FROM redrive.jobs j
                        WHERE j.queue = k.queue
                        ORDER BY ((j.generation > 0)::integer - 2 * j.priority) DESC LIMIT 1), 1
                WHERE ready.jobs > cap
                UNION ALL
                SELECT (SELECT ((j.generation > 0)::integer - 2 * j.priority) FROM redrive.jobs j
                        WHERE j.queue = k.queue AND ((j.generation > 0)::integer - 2 * j.priority) < n.rank
                        ORDER BY ((j.generation > 0)::integer - 2 * j.priority) DESC LIMIT 1), n.steps + 1
                FROM known n
                WHERE n.rank IS NOT NULL AND n.steps < most
            )
            SELECT min(few.ready_at) AS ready_at
            FROM known n
            CROSS JOIN LATERAL (
                SELECT j.ready_at FROM redrive.jobs j
                WHERE j.queue = k.queue AND ((j.generation > 0)::integer - 2 * j.priority) = n.rank
                ORDER BY j.id LIMIT 10
            ) few
        ) oldest ON true
    ),
    -- Uses the columns beside `jobs`, which is not unpacked.
    leased AS MATERIALIZED (
        SELECT l.queue::text AS queue, sum(l.job_count - cardinality(l.done)) AS jobs,
               min(l.claimed_at) AS claimed_at,
               count(*) FILTER (WHERE coalesce(w.expires_at, l.claimed_at + interval '1 minute')
                                      < statement_timestamp()) AS overdue
        FROM redrive.leases l
        LEFT JOIN redrive.workers w ON w.worker_id = l.worker_id
        GROUP BY l.queue
    )
    SELECT v.metric, v.labels, v.value::double precision
    FROM counted c
    FULL JOIN leased l ON l.queue = c.queue
    CROSS JOIN LATERAL (SELECT coalesce(c.queue, l.queue) AS queue) q
    CROSS JOIN LATERAL (VALUES
        ('redrive_queue_jobs', ARRAY[q.queue, 'ready'], least(coalesce(c.ready, 0), cap)::double precision),
        ('redrive_queue_jobs', ARRAY[q.queue, 'delayed'], least(coalesce(c.delayed, 0), cap)),
        ('redrive_queue_jobs', ARRAY[q.queue, 'leased'], coalesce(l.jobs, 0)),
        ('redrive_queue_jobs_capped', ARRAY[q.queue, 'ready'], (coalesce(c.ready, 0) > cap)::integer),
        ('redrive_queue_jobs_capped', ARRAY[q.queue, 'delayed'], (coalesce(c.delayed, 0) > cap)::integer),
        ('redrive_queue_jobs_capped', ARRAY[q.queue, 'leased'], 0),
        ('redrive_queue_unhandled_jobs', ARRAY[q.queue], least(coalesce(c.unhandled, 0), cap)),
        ('redrive_queue_oldest_ready_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - c.oldest_at))),
        ('redrive_queue_next_ready_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - c.next_at))),
        ('redrive_queue_oldest_leased_age_seconds', ARRAY[q.queue],
            greatest(0, extract(epoch FROM clock_timestamp() - l.claimed_at))),
        ('redrive_queue_overdue_leases', ARRAY[q.queue], coalesce(l.overdue, 0))
    ) v (metric, labels, value)
    UNION ALL
    SELECT 'redrive_queue_ready_jobs_by_kind', ARRAY[n.queue, n.kind], sum(n.jobs)
    FROM named n
    GROUP BY n.queue, n.kind
    UNION ALL
    SELECT v.metric, ARRAY[h.queue], v.value
    FROM redrive.queues_with_held_groups(cap) h
    CROSS JOIN LATERAL (VALUES
        ('redrive_held_groups', h.groups::double precision),
        ('redrive_held_group_jobs', h.waiting),
        ('redrive_held_group_oldest_age_seconds', coalesce(greatest(0, extract(epoch FROM clock_timestamp() - h.held_at)), 0))
    ) v (metric, value);
END
$$;

-- Name: metrics_server(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_server() RETURNS TABLE(metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY
    WITH activity AS MATERIALIZED (
        SELECT a.datname = current_database() AS is_here, a.state, a.backend_type, a.wait_event_type,
               greatest(age(a.backend_xmin), age(a.backend_xid)) AS xids,
               extract(epoch FROM clock_timestamp() - a.xact_start) AS seconds
        FROM pg_stat_activity a
        WHERE a.pid <> pg_backend_pid()
    ),
    -- The catalog_xmin of a logical slot only affects catalog tables.
    held AS MATERIALIZED (
        SELECT CASE WHEN a.state LIKE 'idle in transaction%' THEN 'idle_in_transaction' ELSE 'backend' END
                   AS holder, a.xids, a.seconds
        FROM activity a
        WHERE a.is_here AND a.xids IS NOT NULL AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
        UNION ALL
        SELECT 'prepared', age(p.transaction), extract(epoch FROM clock_timestamp() - p.prepared)
        FROM pg_prepared_xacts p WHERE p.database = current_database()
        UNION ALL
        SELECT 'slot', age(s.xmin), NULL FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
        UNION ALL
        SELECT 'standby_feedback', age(r.backend_xmin), NULL
        FROM pg_stat_replication r WHERE r.backend_xmin IS NOT NULL
    ),
    slots AS MATERIALIZED (
        SELECT s.slot_name::text AS name, s.active, s.safe_wal_size,
               pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                    ELSE pg_current_wal_lsn() END, s.restart_lsn) AS retained
        FROM pg_replication_slots s
        ORDER BY 4 DESC NULLS LAST, 1
        LIMIT 20
    )
    SELECT 'redrive_pg_oldest_horizon_age_transactions', ARRAY[k.holder], coalesce(max(h.xids), 0)::double precision
    FROM unnest('{backend,idle_in_transaction,prepared,slot,standby_feedback}'::text[]) AS k (holder)
    LEFT JOIN held h ON h.holder = k.holder
    GROUP BY k.holder
    UNION ALL
    -- The library measures the age of slots and standbys, which have no timestamp.
    SELECT 'redrive_pg_oldest_horizon_age_seconds', ARRAY[k.holder],
           greatest(0, coalesce(max(h.seconds), 0))::double precision
    FROM unnest('{backend,idle_in_transaction,prepared}'::text[]) AS k (holder)
    LEFT JOIN held h ON h.holder = k.holder
    GROUP BY k.holder
    UNION ALL
    SELECT 'redrive_pg_oldest_transaction_age_seconds', '{}', greatest(0, coalesce(max(a.seconds), 0))::double precision
    FROM activity a
    WHERE a.is_here AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
    UNION ALL
    SELECT 'redrive_pg_replication_slot_active', ARRAY[s.name], s.active::integer FROM slots s
    UNION ALL
    SELECT 'redrive_pg_replication_slot_retained_wal_bytes', ARRAY[s.name], greatest(0, coalesce(s.retained, 0))
    FROM slots s
    UNION ALL
    SELECT 'redrive_pg_replication_slot_safe_wal_bytes', ARRAY[s.name], s.safe_wal_size
    FROM slots s WHERE s.safe_wal_size IS NOT NULL
    UNION ALL
    SELECT 'redrive_pg_frozen_xid_age', '{}', age(d.datfrozenxid)
    FROM pg_database d WHERE d.datname = current_database()
    UNION ALL
    SELECT 'redrive_pg_lock_waiters', '{}', count(*) FROM activity a WHERE a.is_here AND a.wait_event_type = 'Lock'
    UNION ALL
    -- Include this connection, which counts as active.
    SELECT 'redrive_pg_connections', ARRAY[s.state], sum(s.connections)
    FROM (
        SELECT a.state, 1 AS connections FROM activity a
        WHERE a.backend_type = 'client backend' AND a.state IS NOT NULL
        UNION ALL
        VALUES ('active', 1), ('idle', 0), ('idle in transaction', 0)
    ) s
    GROUP BY s.state
    UNION ALL
    SELECT 'redrive_pg_autovacuum_workers', '{}', count(*) FROM activity a WHERE a.backend_type = 'autovacuum worker'
    UNION ALL
    SELECT v.metric, '{}', v.value
    FROM (VALUES
        ('redrive_pg_connections_limit', current_setting('max_connections')::double precision),
        ('redrive_pg_autovacuum_workers_limit', current_setting('autovacuum_max_workers')::double precision),
        ('redrive_pg_in_recovery', pg_is_in_recovery()::integer),
        ('redrive_pg_start_timestamp_seconds', extract(epoch FROM pg_postmaster_start_time())),
        ('redrive_pg_stats_reset_timestamp_seconds', coalesce(extract(epoch FROM greatest(
            (SELECT d.stats_reset FROM pg_stat_database d WHERE d.datname = current_database()),
            (SELECT b.stats_reset FROM pg_stat_bgwriter b))), 0))
    ) v (metric, value);
END
$$;

-- Name: metrics_tables(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.metrics_tables() RETURNS TABLE(metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $_$
BEGIN
    RETURN QUERY
    WITH heaps AS MATERIALIZED (
        SELECT regexp_replace(c.relname, '_[0-9]+$', '') AS name, c.oid, c.reltoastrelid AS toast,
               redrive.vacuum_threshold(c.reloptions, c.reltuples) AS threshold
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
    ),
    indexes AS MATERIALIZED (
        SELECT h.name, coalesce(whole.relname, i.relname)::text AS index, sum(pg_relation_size(i.oid)) AS bytes
        FROM heaps h
        JOIN pg_index x ON x.indrelid = h.oid
        JOIN pg_class i ON i.oid = x.indexrelid
        LEFT JOIN pg_inherits p ON p.inhrelid = i.oid
        LEFT JOIN pg_class whole ON whole.oid = p.inhparent
        GROUP BY 1, 2
    ),
    tables AS MATERIALIZED (
        SELECT h.name, sum(h.threshold) AS threshold,
               sum(pg_relation_size(h.oid)) AS heap,
               sum(CASE WHEN h.toast <> 0 THEN pg_total_relation_size(h.toast) ELSE 0 END) AS toast,
               sum(pg_stat_get_live_tuples(h.oid)) AS live, sum(pg_stat_get_dead_tuples(h.oid)) AS dead,
               sum(pg_stat_get_tuples_inserted(h.oid)) AS inserted,
               sum(pg_stat_get_tuples_updated(h.oid)) AS updated,
               sum(pg_stat_get_tuples_hot_updated(h.oid)) AS hot_updated,
               sum(pg_stat_get_tuples_deleted(h.oid)) AS deleted,
               sum(pg_stat_get_numscans(h.oid)) AS scans,
               sum(pg_stat_get_autovacuum_count(h.oid)) AS auto_count,
               sum(pg_stat_get_vacuum_count(h.oid)) AS manual_count,
               max(pg_stat_get_last_autovacuum_time(h.oid)) AS auto_at,
               max(pg_stat_get_last_vacuum_time(h.oid)) AS manual_at
        FROM heaps h
        GROUP BY h.name
    )
    SELECT v.metric, v.labels, v.value::double precision
    FROM tables t
    CROSS JOIN LATERAL (VALUES
        ('redrive_table_bytes', ARRAY[t.name, 'heap'], t.heap::double precision),
        ('redrive_table_bytes', ARRAY[t.name, 'toast'], t.toast),
        ('redrive_table_bytes', ARRAY[t.name, 'index'],
            (SELECT coalesce(sum(i.bytes), 0) FROM indexes i WHERE i.name = t.name)),
        ('redrive_table_live_rows_estimate', ARRAY[t.name], t.live),
        ('redrive_table_dead_rows_estimate', ARRAY[t.name], t.dead),
        ('redrive_table_autovacuum_threshold_rows', ARRAY[t.name], t.threshold),
        ('redrive_table_rows_inserted_total', ARRAY[t.name], t.inserted),
        ('redrive_table_rows_updated_total', ARRAY[t.name], t.updated),
        ('redrive_table_rows_hot_updated_total', ARRAY[t.name], t.hot_updated),
        ('redrive_table_rows_deleted_total', ARRAY[t.name], t.deleted),
        ('redrive_table_sequential_scans_total', ARRAY[t.name], t.scans),
        ('redrive_table_vacuums_total', ARRAY[t.name, 'auto'], t.auto_count),
        ('redrive_table_vacuums_total', ARRAY[t.name, 'manual'], t.manual_count),
        ('redrive_table_last_vacuum_timestamp_seconds', ARRAY[t.name, 'auto'],
            coalesce(extract(epoch FROM t.auto_at), 0)),
        ('redrive_table_last_vacuum_timestamp_seconds', ARRAY[t.name, 'manual'],
            coalesce(extract(epoch FROM t.manual_at), 0))
    ) v (metric, labels, value)
    UNION ALL
    SELECT 'redrive_index_bytes', ARRAY[i.name, i.index], i.bytes::double precision FROM indexes i
    UNION ALL
    SELECT v.metric, '{}', coalesce(extract(epoch FROM v.moment), 0)::double precision
    FROM (SELECT max(s.turned_at) AS turned_at, max(s.truncated_at) AS truncated_at FROM redrive.ring_segments s) r
    CROSS JOIN LATERAL (VALUES
        ('redrive_ring_turned_timestamp_seconds', r.turned_at),
        ('redrive_ring_truncated_timestamp_seconds', r.truncated_at)
    ) v (metric, moment)
    UNION ALL
    SELECT 'redrive_ring_clean_segments', '{}',
           (count(*) FILTER (WHERE redrive.segment_bytes(s.segment) = 0))::double precision
    FROM redrive.ring_segments s;
END
$_$;

-- Name: move_stragglers(smallint[], smallint, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.move_stragglers(segments smallint[], to_segment smallint, move_limit integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    each_one smallint;
    fewest   smallint;
    jobs     bigint;
    lowest   bigint := move_limit + 1;
    moved    bigint;
BEGIN
    FOREACH each_one IN ARRAY segments LOOP
        EXECUTE format('SELECT count(*) FROM (SELECT FROM redrive.jobs_%s LIMIT $1) few', each_one)
            INTO jobs USING move_limit + 1;
        IF jobs > move_limit THEN
            UPDATE redrive.ring_segments s
            SET refusals = least(s.refusals + 1, 7),
                retry_at = clock_timestamp() + least(interval '1 minute', interval '1 second' * 2 ^ s.refusals)
            WHERE s.segment = each_one AND s.retry_at <= clock_timestamp();
        ELSIF jobs > 0 AND jobs < lowest THEN
            fewest := each_one;
            lowest := jobs;
        END IF;
    END LOOP;
    IF fewest IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE format(
        'WITH left_behind AS MATERIALIZED ('
        '  SELECT ctid FROM redrive.jobs_%1$s FOR UPDATE SKIP LOCKED),'
        ' gone AS ('
        '  DELETE FROM redrive.jobs_%1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM left_behind))'
        '  RETURNING id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '            crashes, refunds, queue, kind, payload, history, unique_key, outage_since,'
        '            headers, group_key)'
        ' INSERT INTO redrive.jobs'
        '  (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '   crashes, refunds, queue, kind, payload, history, unique_key, outage_since,'
        '   headers, group_key)'
        ' SELECT $1, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,'
        '        crashes, refunds, queue, kind, payload, history, unique_key, outage_since,'
        '        headers, group_key FROM gone',
        fewest)
        USING to_segment;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$_$;

-- Name: names_payload(text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.names_payload(stored text, predicate text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT stored = predicate OR (
        SELECT bool_and(strpos(stored, '(' || c.condition || ')') > 0)
        FROM unnest(string_to_array(
            CASE WHEN predicate LIKE '(%)' THEN substr(predicate, 2, length(predicate) - 2) ELSE predicate END,
            ') && (')) AS c (condition))
$$;

-- Name: new_metric_slots(redrive.metric_tally[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.new_metric_slots(tallies redrive.metric_tally[]) RETURNS TABLE(label text, queue text, name text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH new_queues AS MATERIALIZED (
        SELECT n.queue
        FROM (
            SELECT c.queue, row_number() OVER (ORDER BY min(c.first_at), c.queue)
                   + (SELECT count(*) FROM redrive.metric_slots s WHERE s.label = 'queue') AS place
            FROM unnest(tallies) c
            WHERE NOT EXISTS (
                SELECT FROM redrive.metric_slots s
                WHERE s.label = 'queue' AND s.queue = '' AND s.name = c.queue)
            GROUP BY c.queue
        ) n
        WHERE n.place <= 100
    ),
    named AS (
        SELECT w.labels[1] AS label,
               CASE WHEN EXISTS (SELECT FROM new_queues n WHERE n.queue = c.queue)
                        OR EXISTS (SELECT FROM redrive.metric_slots s
                                   WHERE s.label = 'queue' AND s.queue = '' AND s.name = c.queue)
                    THEN c.queue ELSE '__other__' END AS queue,
               c.label AS name, min(c.first_at) AS first_at
        FROM (
            SELECT u.queue, u.key, u.label, min(u.first_at) AS first_at
            FROM unnest(tallies) u
            GROUP BY 1, 2, 3
        ) c
        JOIN redrive.counter_keys w ON w.key = c.key
        WHERE w.labels[1] IN ('kind', 'error_class', 'source') AND c.label IS NOT NULL
        GROUP BY 1, 2, 3
    )
    SELECT 'queue', '', n.queue FROM new_queues n
    UNION ALL
    SELECT p.label, p.queue, p.name
    FROM (
        SELECT n.label, n.queue, n.name,
               row_number() OVER (PARTITION BY n.label, n.queue ORDER BY n.first_at, n.name)
               + (SELECT count(*) FROM redrive.metric_slots s
                  WHERE s.label = n.label AND s.queue = n.queue) AS place
        FROM named n
        WHERE NOT EXISTS (
            SELECT FROM redrive.metric_slots s
            WHERE s.label = n.label AND s.queue = n.queue AND s.name = n.name)
    ) p
    WHERE p.place <= 20
$$;

-- Name: note_group(bigint, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.note_group(group_id bigint, note text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE redrive.groups g
    SET note = left(nullif(btrim(note_group.note), ''), 4096)
    WHERE g.id = note_group.group_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('note_group', person, reason, NULL, 0,
        jsonb_build_object('group', note_group.group_id, 'note', left(note_group.note, 4096)));
    RETURN true;
END
$$;

-- Name: oldest_kept_xid(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.oldest_kept_xid() RETURNS xid
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT k.xid
    FROM (
        SELECT unnest(ARRAY[a.backend_xmin, a.backend_xid])
        FROM pg_stat_activity a
        -- Walsenders have a user and no database. Vacuum disregards the snapshots of vacuums and of the server's own
        -- processes. Most roles see no type.
        WHERE coalesce(a.datname = current_database(), a.usesysid IS NOT NULL) AND a.pid <> pg_backend_pid()
            AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
        UNION ALL
        SELECT s.xmin FROM pg_replication_slots s WHERE s.wal_status IS DISTINCT FROM 'lost'
        UNION ALL
        SELECT p.transaction FROM pg_prepared_xacts p WHERE p.database = current_database()
    ) k (xid)
    WHERE k.xid IS NOT NULL
    ORDER BY age(k.xid) DESC
    LIMIT 1
$$;

-- Name: open_breaker(text, interval, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.open_breaker(name text, duration interval DEFAULT NULL::interval, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM redrive.check_breaker_name(open_breaker.name);
    IF open_breaker.duration <= '0' OR open_breaker.duration > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the duration is %; it must be positive and at most 3650 days', open_breaker.duration
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.breakers AS b (name, state, cause, message, delay_ms, probe_at)
    VALUES (open_breaker.name, 'open', 'operator', left(open_breaker.reason, 1024), 1000,
            coalesce(clock_timestamp() + open_breaker.duration, 'infinity'))
    ON CONFLICT ON CONSTRAINT breakers_pkey DO UPDATE
    SET state = 'open', cause = 'operator', message = excluded.message, delay_ms = excluded.delay_ms,
        openings = b.openings + CASE b.state WHEN 'closed' THEN 1 ELSE 0 END,
        outages = CASE b.state WHEN 'closed' THEN 0 ELSE b.outages END, prober = NULL,
        opened_at = CASE b.state WHEN 'closed' THEN excluded.opened_at ELSE b.opened_at END,
        probe_at = excluded.probe_at, changed_at = clock_timestamp();
    PERFORM pg_notify('redrive_breaker', open_breaker.name);
    RETURN redrive.record_act('open_breaker', open_breaker.person, open_breaker.reason, NULL, 0,
        jsonb_build_object('breaker', open_breaker.name, 'duration', open_breaker.duration));
END
$$;

-- Name: open_window(text, text, bigint, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.open_window(queue text, key text, id bigint, window_ms bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    page bigint;
BEGIN
    INSERT INTO redrive.unique_windows AS w (queue, key, job_id, ends_at)
    VALUES (open_window.queue, open_window.key, open_window.id,
            clock_timestamp() + open_window.window_ms * interval '1 millisecond')
    ON CONFLICT ON CONSTRAINT unique_windows_pkey DO UPDATE
    SET job_id = excluded.job_id, ends_at = excluded.ends_at
    WHERE w.ends_at <= clock_timestamp();
    IF NOT FOUND THEN
        DELETE FROM redrive.unique_keys k WHERE k.job_id = open_window.id;
        RETURN false;
    END IF;
    page := open_window.id
        % (pg_relation_size('redrive.unique_windows') / current_setting('block_size')::bigint);
    DELETE FROM redrive.unique_windows w
    WHERE w.ctid = ANY (ARRAY(
        SELECT e.ctid
        FROM redrive.unique_windows e
        WHERE e.ctid >= format('(%s,0)', page)::tid AND e.ctid < format('(%s,0)', page + 1)::tid
            AND e.ends_at <= clock_timestamp()
        FOR UPDATE SKIP LOCKED));
    RETURN true;
END
$$;

-- Name: overlapping_runs(jsonb, boolean); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.overlapping_runs(filter jsonb, forced boolean DEFAULT false) RETURNS TABLE(run_id bigint, letters bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT r.id, count(*) FROM redrive.redrive_runs r'
        ' JOIN redrive.run_letters m ON m.run_id = r.id AND m.outcome IS NULL'
        ' JOIN redrive.dead_letters l ON l.id = m.letter_id'
        ' WHERE r.state IN (''unapproved'', ''running'', ''paused'', ''halted'')'
        ' AND (l.state = ''open'' OR $2 AND l.state = ''quarantined'') AND ' || redrive.filter_letters(filter)
        || ' GROUP BY r.id ORDER BY r.id'
        USING filter, forced;
END
$_$;

-- Name: page_editable(jsonb, bigint, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.page_editable(filter jsonb, after bigint, max_letters bigint, OUT id bigint, OUT payload jsonb, OUT edits integer) RETURNS SETOF record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id, l.payload, l.edits FROM redrive.dead_letters l'
        ' WHERE l.id > $2 AND l.state IN (''open'', ''quarantined'') AND ' || redrive.filter_letters(filter)
        || ' ORDER BY l.id LIMIT $3'
        USING filter, after, max_letters;
END
$_$;

-- Name: page_letters(jsonb, bigint, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.page_letters(filter jsonb, after bigint, max_letters bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT l.id FROM redrive.dead_letters l WHERE l.id > $2 AND ' || redrive.filter_letters(filter)
        || ' ORDER BY l.id LIMIT $3'
        USING filter, after, max_letters;
END
$_$;

-- Name: page_waiting(jsonb, jsonb, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.page_waiting(filter jsonb, place jsonb, max_jobs bigint) RETURNS TABLE(id bigint, payload json, next_place jsonb)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    each_state text;
    query      text;
BEGIN
    FOREACH each_state IN ARRAY '{delayed,ready}'::text[] LOOP
        query := redrive.waiting_query(filter, each_state);
        CONTINUE WHEN query IS NULL OR each_state = 'delayed' AND place ->> 'state' = 'ready';
        RETURN QUERY EXECUTE 'SELECT w.id, w.payload, w.place FROM (' || query || ') w'
            USING filter, CASE WHEN place ->> 'state' = each_state THEN place END, NULL::jsonb, max_jobs;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- Name: pass_slots(redrive.leases, bigint[], bigint[], bigint[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.pass_slots(lease redrive.leases, done bigint[], delayed bigint[], dead bigint[], ready bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    settled bigint[] := pass_slots.done || pass_slots.delayed || pass_slots.dead || pass_slots.ready;
    leaving bigint[] := coalesce(pass_slots.done, '{}');
    policy  redrive.group_policies;
    passed  bigint[];
BEGIN
    SELECT p.* INTO policy FROM redrive.group_policies p WHERE p.queue = lease.queue;
    IF policy.mode IS DISTINCT FROM 'ordered' THEN
        leaving := leaving || pass_slots.delayed || pass_slots.dead;
    ELSIF policy.on_death = 'continue' THEN
        leaving := leaving || pass_slots.dead;
    END IF;
    IF leaving = '{}' THEN
        RETURN 0;
    END IF;
    WITH given AS (
        SELECT s.job_id, s.group_key, row_number() OVER (PARTITION BY s.group_key ORDER BY s.slot) AS place
        FROM redrive.group_slots s
        WHERE s.job_id = ANY (leaving) AND s.queue = lease.queue
    ),
    heirs AS (
        SELECT j.id, j.group_key, row_number() OVER (PARTITION BY j.group_key ORDER BY j.id) AS place
        FROM unnest(lease.ids, lease.group_keys) AS j (id, group_key)
        WHERE j.group_key IS NOT NULL AND j.id <> ALL (leaving) AND (j.id <> ALL (lease.done) OR j.id = ANY (settled))
            AND NOT EXISTS (SELECT FROM redrive.group_slots s WHERE s.job_id = j.id)
    ),
    moved AS (
        UPDATE redrive.group_slots s
        SET job_id = h.id
        FROM given g
        JOIN heirs h ON h.group_key = g.group_key AND h.place = g.place
        WHERE s.job_id = g.job_id
        RETURNING g.job_id
    )
    SELECT coalesce(array_agg(m.job_id), '{}') INTO passed FROM moved m;
    -- The trigger of its letter frees the slot of a dead job.
    RETURN cardinality(passed) + redrive.free_slots(
        ARRAY(SELECT d.id FROM unnest(pass_slots.done) AS d (id) WHERE d.id <> ALL (passed)),
        ARRAY(SELECT d.id FROM unnest(pass_slots.delayed) AS d (id) WHERE d.id <> ALL (passed)));
END
$$;

-- Name: pass_turn(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.pass_turn() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    letter redrive.dead_letters := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    freed  record;
BEGIN
    IF TG_OP <> 'DELETE' AND letter.state = 'redriving' AND letter.queue = OLD.queue THEN
        UPDATE redrive.group_slots s SET held_at = NULL WHERE s.job_id = letter.id AND s.held_at IS NOT NULL;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' AND letter.state IN ('open', 'quarantined') AND EXISTS (
        SELECT FROM redrive.group_policies p WHERE p.queue = letter.queue AND p.on_death IN ('hold', 'divert'))
    THEN
        UPDATE redrive.group_slots s SET held_at = clock_timestamp() WHERE s.job_id = letter.id AND s.held_at IS NULL;
        IF NOT FOUND AND letter.cause <> 'diverted' THEN
            PERFORM redrive.hold_diverted(letter.queue, letter.group_key);
        END IF;
        RETURN NULL;
    END IF;
    DELETE FROM redrive.group_slots s WHERE s.job_id = letter.id RETURNING s.queue, s.group_key INTO freed;
    IF FOUND THEN
        PERFORM redrive.hold_diverted(freed.queue, freed.group_key);
        PERFORM redrive.wake(freed.queue);
    END IF;
    RETURN NULL;
END
$$;

-- Name: past_failures(redrive.dead_letters); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.past_failures(letter redrive.dead_letters) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    last jsonb := letter.history -> -1;
BEGIN
    IF letter.run_ms IS NULL AND letter.cause <> 'captured' AND last IS NOT NULL THEN
        -- A lost worker has no error. The nulls keep a reader from filling in that of the next record.
        RETURN jsonb_set(letter.history, '{-1}', '{"error_class": null, "error_message": null}' || last);
    END IF;
    IF letter.cause <> 'captured' THEN
        RETURN redrive.full_history(letter);
    END IF;
    IF last ->> 'outcome' = 'captured' AND (last ->> 'generation')::integer = letter.generation THEN
        RETURN letter.history;
    END IF;
    -- The nulls keep a reader from filling in the worker of the next record.
    RETURN letter.history || jsonb_build_object(
        'generation', letter.generation, 'attempt', 0, 'outcome', 'captured', 'run_ms', NULL,
        'error_class', letter.error_class, 'error_message', left(letter.error_message, 1000),
        'worker', NULL, 'host', NULL, 'version', NULL, 'pid', NULL, 'ended_at', letter.died_at);
END
$$;

-- Name: pause_queue(text, timestamp with time zone, interval, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.pause_queue(queue text, ends_at timestamp with time zone DEFAULT NULL::timestamp with time zone, duration interval DEFAULT NULL::interval, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    until  timestamptz;
BEGIN
    PERFORM redrive.check_name('queue', pause_queue.queue);
    IF pause_queue.ends_at IS NOT NULL AND pause_queue.duration IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: a pause has an end or a duration, not both' USING ERRCODE = 'invalid_parameter_value';
    ELSIF pause_queue.duration <= '0' OR pause_queue.duration > '3650 days' THEN
        RAISE EXCEPTION 'redrive: the duration is %; it must be positive and at most 3650 days', pause_queue.duration
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF pause_queue.ends_at <= moment THEN
        RAISE EXCEPTION 'redrive: the pause would end at %, which is in the past', pause_queue.ends_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The clock of the database decides.';
    ELSIF pause_queue.ends_at > moment + interval '3650 days' THEN
        RAISE EXCEPTION 'redrive: the pause would end at %; it may last at most 3650 days', pause_queue.ends_at
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Without an end, it lasts until the queue is resumed.';
    END IF;
    until := coalesce(pause_queue.ends_at, moment + pause_queue.duration, 'infinity');
    INSERT INTO redrive.queue_pauses AS p (queue, paused_at, ends_at, person, reason)
    VALUES (pause_queue.queue, moment, until, left(pause_queue.person, 200), left(pause_queue.reason, 1024))
    ON CONFLICT ON CONSTRAINT queue_pauses_pkey DO UPDATE
    SET paused_at = CASE WHEN p.ends_at > excluded.paused_at THEN p.paused_at ELSE excluded.paused_at END,
        ends_at = excluded.ends_at, person = excluded.person, reason = excluded.reason;
    PERFORM pg_notify('redrive_breaker', 'queue:' || pause_queue.queue);
    RETURN redrive.record_act('pause_queue', pause_queue.person, pause_queue.reason, NULL, 0,
        jsonb_build_object('queue', pause_queue.queue, 'ends_at', nullif(until, 'infinity')));
END
$$;

-- Name: pause_schedule(text, boolean, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.pause_schedule(name text, paused boolean DEFAULT true, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE redrive.schedules s
    SET paused_at = CASE WHEN pause_schedule.paused THEN coalesce(s.paused_at, clock_timestamp()) END
    WHERE s.name = pause_schedule.name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act(CASE WHEN paused THEN 'pause_schedule' ELSE 'resume_schedule' END, person, reason, NULL, 0,
                               jsonb_build_object('schedule', pause_schedule.name));
    PERFORM pg_notify('redrive_schedule', '');
    RETURN true;
END
$$;

-- Name: place_metric_tallies(redrive.metric_tally[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.place_metric_tallies(tallies redrive.metric_tally[]) RETURNS TABLE(key text, queue text, label text, cause text, value bigint, counts bigint[], sum double precision, last_at timestamp with time zone)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH slots AS MATERIALIZED (
        SELECT s.label, s.queue, s.name FROM redrive.metric_slots s
        UNION
        SELECT n.label, n.queue, n.name FROM redrive.new_metric_slots(tallies) n
    ),
    queued AS (
        SELECT c.key, coalesce(s.name, '__other__') AS queue, c.label, c.cause, c.bucket, c.count, c.sum,
               c.last_at, w.bounds,
               CASE WHEN w.labels[1] IN ('kind', 'error_class', 'source') THEN w.labels[1] END AS slotted
        FROM unnest(tallies) c
        JOIN redrive.counter_keys w ON w.key = c.key
        LEFT JOIN slots s ON s.label = 'queue' AND s.queue = '' AND s.name = c.queue
    ),
    named AS MATERIALIZED (
        SELECT q.key, q.queue,
               CASE WHEN q.slotted IS NULL THEN coalesce(q.label, '') ELSE coalesce(s.name, '__other__') END AS label,
               coalesce(q.cause, '') AS cause, q.bucket, q.bounds, sum(q.count)::bigint AS count,
               sum(q.sum) AS sum, max(q.last_at) AS last_at
        FROM queued q
        LEFT JOIN slots s ON s.label = q.slotted AND s.queue = q.queue AND s.name = q.label
        GROUP BY 1, 2, 3, 4, 5, 6
    )
    SELECT n.key, n.queue, n.label, n.cause, n.count, NULL::bigint[], 0::double precision, n.last_at
    FROM named n
    WHERE n.bounds IS NULL
    UNION ALL
    SELECT k.key, k.queue, k.label, k.cause, sum(n.count)::bigint,
           array_agg(coalesce(n.count, 0) ORDER BY b.bucket), coalesce(sum(n.sum), 0), max(n.last_at)
    FROM (
        SELECT DISTINCT n.key, n.queue, n.label, n.cause, cardinality(n.bounds) AS last_bucket
        FROM named n
        WHERE n.bounds IS NOT NULL
    ) k
    CROSS JOIN LATERAL generate_series(0, k.last_bucket) AS b (bucket)
    LEFT JOIN named n ON n.key = k.key AND n.queue = k.queue AND n.label = k.label
        AND n.cause = k.cause AND n.bucket = b.bucket
    GROUP BY 1, 2, 3, 4
$$;

-- Name: pointer_parts(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.pointer_parts(pointer text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    -- Splitting an empty text returns no parts, but this pointer has one: the key `""`.
    SELECT CASE pointer WHEN '/' THEN ARRAY[''] ELSE ARRAY(
        SELECT replace(replace(p.part, '~1', '/'), '~0', '~')
        FROM unnest(string_to_array(substr(pointer, 2), '/')) WITH ORDINALITY AS p (part, place)
        ORDER BY p.place) END
$$;

-- Name: pointer_paths(jsonb, text[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.pointer_paths(document jsonb, parts text[]) RETURNS SETOF text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    WITH RECURSIVE walk (path, value) AS (
        SELECT '{}'::text[], $1
        UNION ALL
        SELECT w.path || c.key, c.value
        FROM walk w
        CROSS JOIN LATERAL (
            SELECT $2[cardinality(w.path) + 1] AS part
        ) n
        CROSS JOIN LATERAL (
            SELECT n.part AS key, w.value #> ARRAY[n.part] AS value
            WHERE n.part <> '*'
            UNION ALL
            SELECT e.key, e.value
            FROM jsonb_each(CASE jsonb_typeof(w.value) WHEN 'object' THEN w.value ELSE '{}' END) e
            WHERE n.part = '*'
            UNION ALL
            SELECT (a.place - 1)::text, a.value
            FROM jsonb_array_elements(CASE jsonb_typeof(w.value) WHEN 'array' THEN w.value ELSE '[]' END)
                WITH ORDINALITY AS a (value, place)
            WHERE n.part = '*'
        ) c
        WHERE cardinality(w.path) < cardinality($2) AND c.value IS NOT NULL
    )
    SELECT w.path FROM walk w WHERE cardinality(w.path) = cardinality($2)
$_$;

-- Name: policy_wait(interval, double precision, interval, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.policy_wait(every interval, growth double precision, max_delay interval, generation integer) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((growth <= (1)::double precision) OR (generation <= 0)) THEN '00:00:00'::interval
             WHEN (((generation)::double precision * ln(growth)) >= ln(((EXTRACT(epoch FROM max_delay))::double precision / (EXTRACT(epoch FROM every))::double precision))) THEN (max_delay - every)
             ELSE (every * (power(growth, (generation)::double precision) - (1)::double precision))
         END AS "case";
END;

-- Name: preview_redrive(jsonb, boolean, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.preview_redrive(filter jsonb, forced boolean DEFAULT false, to_queue text DEFAULT NULL::text, max_letters bigint DEFAULT NULL::bigint) RETURNS TABLE(id bigint, group_id bigint, died_at timestamp with time zone, result text)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    RETURN QUERY EXECUTE
        'WITH members AS MATERIALIZED ('
        ' SELECT l.id, l.group_id, l.died_at, coalesce($3, l.queue::text) AS queue, l.unique_key,'
        '  CASE WHEN octet_length(l.raw) = 65536 AND EXISTS (SELECT FROM redrive.captured_pieces p'
        '    WHERE p.letter_id = l.id AND p.version = l.edits) THEN ''too_large'''
        '   WHEN l.payload IS NULL THEN ''no_json'' WHEN l.redacted IS NOT NULL AND NOT $2 THEN ''redacted'' END'
        '  AS refused'
        ' FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $2 AND l.state = ''quarantined'') AND '
        || redrive.filter_letters(filter)
        -- Without a limit, sorting all of them would be wasted work.
        || CASE WHEN max_letters IS NULL THEN '' ELSE ' ORDER BY l.died_at, l.id LIMIT $4' END || '),'
        'keyed AS ('
        ' SELECT m.*, row_number() OVER (PARTITION BY m.queue, m.unique_key ORDER BY m.died_at, m.id) AS place'
        ' FROM members m WHERE m.refused IS NULL AND m.unique_key IS NOT NULL)'
        'SELECT m.id, m.group_id, m.died_at, coalesce(m.refused, ''sent'')'
        ' FROM members m WHERE m.refused IS NOT NULL OR m.unique_key IS NULL'
        ' UNION ALL '
        'SELECT k.id, k.group_id, k.died_at, CASE'
        ' WHEN k.place > 1 OR EXISTS ('
        '  SELECT FROM redrive.unique_keys u WHERE u.queue = k.queue AND u.key = k.unique_key) THEN ''conflict'''
        ' ELSE ''sent'' END FROM keyed k'
        USING filter, forced, to_queue, max_letters;
END
$_$;

-- Name: protect_audit(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.protect_audit() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    -- Set only by `prune_audit` and `erase_from_audit`, around one statement.
    IF TG_OP IN ('UPDATE', 'DELETE') AND current_setting('redrive.audit_change', true) = TG_OP THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'redrive: the audit is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

-- Name: prune_audit(interval, bigint, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.prune_audit(older_than interval, max_records bigint DEFAULT 5000, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    deleted bigint;
    newest  timestamptz;
BEGIN
    IF older_than IS NULL OR older_than < '30 days' THEN
        RAISE EXCEPTION 'redrive: audit records can be pruned after 30 days, not after %', coalesce(older_than::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM set_config('redrive.audit_change', 'DELETE', true);
    WITH gone AS (
        DELETE FROM redrive.audit a
        WHERE a.id = ANY (ARRAY(
            SELECT o.id FROM redrive.audit o
            WHERE o.at < statement_timestamp() - older_than
            ORDER BY o.id
            LIMIT max_records))
        RETURNING a.at
    )
    SELECT count(*), max(g.at) INTO deleted, newest FROM gone g;
    PERFORM set_config('redrive.audit_change', '', true);
    IF deleted > 0 THEN
        PERFORM redrive.record_act('prune_audit', person, reason, NULL, 0, jsonb_build_object(
            'older_than', older_than, 'records', deleted, 'newest', newest));
    END IF;
    RETURN deleted;
END
$$;

-- Name: prune_groups(interval); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.prune_groups(age interval) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '50ms'
    AS $$
DECLARE
    unused bigint[];
    forgotten bigint;
BEGIN
    PERFORM redrive.require_read_committed('prune_groups');
    IF age IS NULL OR age < '0' THEN
        RAISE EXCEPTION 'redrive: invalid age % of failure groups; it must not be negative', coalesce(age::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM redrive.fold_letters();
    unused := ARRAY(
        SELECT g.id FROM redrive.failure_groups g
        WHERE g.open + g.redriving + g.recovered + g.discarded + g.quarantined = 0
            AND g.state <> 'ignored' AND g.last_seen < statement_timestamp() - age
            AND NOT EXISTS (SELECT FROM redrive.group_rules r WHERE g.id IN (r.group_id, r.into_id))
        LIMIT 10000);
    IF cardinality(unused) = 0 THEN
        RETURN 0;
    END IF;
    BEGIN
        LOCK TABLE redrive.dead_letters IN SHARE ROW EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RETURN 0;
    END;
    -- Check again: under the lock no letter can join these groups.
    WITH gone AS (
        DELETE FROM redrive.groups g
        WHERE g.id = ANY (unused)
            AND g.open + g.redriving + g.recovered + g.discarded + g.quarantined = 0
            AND NOT EXISTS (SELECT FROM redrive.letter_deltas d WHERE d.group_id = g.id)
            AND NOT EXISTS (SELECT FROM redrive.group_rules r WHERE g.id IN (r.group_id, r.into_id))
        RETURNING g.id
    ),
    hours AS (
        DELETE FROM redrive.failure_hours h USING gone WHERE h.group_id = gone.id
    ),
    details AS (
        DELETE FROM redrive.details d USING gone WHERE d.group_id = gone.id
    )
    SELECT count(*) INTO forgotten FROM gone;
    RETURN forgotten;
END
$$;

-- Name: prune_letters(interval, bigint, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.prune_letters(older_than interval, max_letters bigint DEFAULT 5000, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    AS $$
DECLARE
    chosen record;
    taken  bigint := 0;
BEGIN
    IF older_than IS NULL OR older_than < '0' THEN
        RAISE EXCEPTION 'redrive: prune needs an age, and it must not be negative' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR chosen IN
        SELECT q.queue, s.state
        FROM redrive.queues_with_letters() AS q (queue)
        CROSS JOIN (VALUES ('recovered'), ('discarded')) AS s (state)
        ORDER BY 1, 2
    LOOP
        EXIT WHEN taken >= max_letters;
        taken := taken + redrive.remove_letters(chosen.queue, chosen.state, older_than, 'delete', max_letters - taken);
    END LOOP;
    IF taken > 0 THEN
        PERFORM redrive.record_act(
            'prune', person, reason, '{"state": ["recovered", "discarded"]}', taken,
            jsonb_build_object('older_than', older_than));
    END IF;
    IF taken BETWEEN 1 AND max_letters - 1 THEN
        PERFORM redrive.prune_groups('90 days');
    END IF;
    RETURN taken;
END
$$;

-- Name: put_back(redrive.waiting_job[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.put_back(jobs redrive.waiting_job[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO redrive.jobs
        (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds, queue, kind,
         payload, history, unique_key, outage_since, headers, group_key)
    SELECT CASE WHEN j.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                ELSE redrive.segment_of_waiting(j.queue, j.group_key, j.id, j.crashes) END, j.id, j.run_at, j.enqueued_at, j.attempt,
           j.max_attempts, j.generation, j.priority, j.crashes, j.refunds, j.queue, j.kind, j.payload, j.history,
           j.unique_key, j.outage_since, j.headers, j.group_key
    FROM unnest(put_back.jobs) j WHERE j.place ->> 'state' = 'ready';
    INSERT INTO redrive.jobs_delayed
        (id, run_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
         refunds, queue, kind, payload, history, unique_key, outage_since, headers, group_key)
    SELECT j.id, j.run_at, j.enqueued_at, j.attempt, j.max_attempts, j.generation, j.priority, j.crashes,
           j.refunds, j.queue, j.kind, j.payload, j.history, j.unique_key, j.outage_since, j.headers, j.group_key
    FROM unnest(put_back.jobs) j WHERE j.place ->> 'state' = 'delayed';
END
$$;

-- Name: queues_with_held_groups(bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.queues_with_held_groups(cap bigint) RETURNS TABLE(queue text, groups bigint, waiting bigint, group_key text, letter_id bigint, held_at timestamp with time zone)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    RETURN QUERY
    SELECT p.queue::text, held.groups, behind.jobs, o.group_key, o.job_id, o.held_at
    FROM redrive.group_policies p
    CROSS JOIN LATERAL (
        SELECT count(*) AS groups
        FROM (
            SELECT FROM redrive.group_slots s WHERE s.queue = p.queue AND s.held_at IS NOT NULL
            LIMIT queues_with_held_groups.cap
        ) f
    ) held
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs
        FROM (
            SELECT
            FROM (
                SELECT s.group_key FROM redrive.group_slots s
                WHERE s.queue = p.queue AND s.held_at IS NOT NULL
                ORDER BY s.held_at, s.job_id
                LIMIT 1000
            ) h
            CROSS JOIN LATERAL (
                SELECT FROM redrive.jobs_waiting j
                WHERE j.queue = p.queue AND j.group_key = h.group_key
                -- By the index of groups, although the order has no meaning here.
                ORDER BY j.id
                LIMIT queues_with_held_groups.cap
            ) w
            LIMIT queues_with_held_groups.cap
        ) f
    ) behind
    LEFT JOIN LATERAL (
        SELECT s.group_key::text AS group_key, s.job_id, s.held_at
        FROM redrive.group_slots s
        WHERE s.queue = p.queue AND s.held_at IS NOT NULL
        ORDER BY s.held_at, s.job_id
        LIMIT 1
    ) o ON true
    WHERE p.on_death <> 'continue';
END
$$;

-- Name: queues_with_letters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.queues_with_letters() RETURNS SETOF text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
    WITH RECURSIVE closed AS (
        SELECT s.state, (
            SELECT l.queue::text FROM redrive.dead_letters l
            WHERE l.state = s.state AND l.state IN ('recovered', 'discarded')
            ORDER BY l.queue LIMIT 1) AS queue
        FROM (VALUES ('recovered'), ('discarded')) AS s (state)
        UNION ALL
        SELECT c.state, (
            SELECT l.queue::text FROM redrive.dead_letters l
            WHERE l.state = c.state AND l.state IN ('recovered', 'discarded') AND l.queue > c.queue
            ORDER BY l.queue LIMIT 1)
        FROM closed c
        WHERE c.queue IS NOT NULL
    )
    SELECT g.queue::text FROM redrive.groups g
    UNION
    SELECT c.queue FROM closed c WHERE c.queue IS NOT NULL
$$;

-- Name: readmitted(redrive.dead_letters, jsonb, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.readmitted(letter redrive.dead_letters, event jsonb, audit bigint) RETURNS redrive.dead_letters
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF letter.state = 'recovered' THEN
        letter.events := redrive.add_event(letter.events, jsonb_build_object(
            'at', letter.changed_at, 'event', 'recovered'));
    END IF;
    letter.state := CASE
        WHEN letter.state = 'quarantined' OR letter.state = 'discarded' AND letter.events -> -1 ->> 'was' = 'quarantined'
        THEN 'quarantined' ELSE 'open' END;
    letter.events := redrive.add_event(letter.events, event);
    letter.discard_reason := NULL;
    letter.run_ordinal := NULL;
    letter.audit_id := audit;
    letter.changed_at := clock_timestamp();
    RETURN letter;
END
$$;

-- Name: record_act(text, text, text, jsonb, bigint, jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.record_act(verb text, person text, reason text, filter jsonb, letters bigint, about jsonb DEFAULT NULL::jsonb) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    INSERT INTO redrive.audit (verb, person, reason, filter, letters, about)
    VALUES (record_act.verb, left(record_act.person, 200), left(record_act.reason, 1024), record_act.filter,
            record_act.letters, record_act.about)
    RETURNING id
$$;

-- Name: record_run_outcomes(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.record_run_outcomes() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM became b WHERE b.run_id IS NOT NULL AND b.state <> 'redriving') THEN
        RETURN NULL;
    END IF;
    WITH told AS (
        UPDATE redrive.run_letters m
        SET outcome = CASE
            WHEN b.state = 'recovered' THEN 'recovered'
            WHEN b.alike > 0 THEN 'died_alike'
            ELSE 'died_differently'
        END
        FROM became b
        WHERE b.run_id IS NOT NULL AND b.state <> 'redriving'
            AND m.run_id = b.run_id AND m.ordinal = b.run_ordinal AND m.outcome IS NULL
        RETURNING m.run_id, m.outcome
    )
    INSERT INTO redrive.run_deltas (run_id, recovered, died_alike, died_differently)
    SELECT t.run_id, count(*) FILTER (WHERE t.outcome = 'recovered'),
           count(*) FILTER (WHERE t.outcome = 'died_alike'),
           count(*) FILTER (WHERE t.outcome = 'died_differently')
    FROM told t
    GROUP BY t.run_id;
    RETURN NULL;
END
$$;

-- Name: redact(redrive.dead_letters); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redact(letter redrive.dead_letters) RETURNS redrive.dead_letters
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    rule redrive.redactions;
    pointer text;
    parts text[];
    pattern text;
    bytes bytea;
    whole bytea;
BEGIN
    IF letter.payload IS NULL AND octet_length(letter.raw) = 65536 THEN
        whole := (SELECT string_agg(p.bytes, '' ORDER BY p.place) FROM redrive.captured_pieces p
            WHERE p.letter_id = letter.id AND p.version = letter.edits);
    END IF;
    FOR rule IN
        SELECT r.* FROM redrive.redactions r
        WHERE (r.queue IS NULL OR r.queue = letter.queue) AND (r.kind IS NULL OR r.kind = letter.kind)
        ORDER BY r.id
    LOOP
        IF whole IS NOT NULL AND (rule.paths <> '{}' OR EXISTS (
            SELECT FROM unnest(rule.patterns) AS p (pattern) WHERE redrive.redact_bytes(whole, p.pattern) <> whole))
        THEN
            letter.raw := '[redacted]';
            letter.redacted := array_remove(letter.redacted, '') || ''::text;
            whole := NULL;
        END IF;
        FOREACH pointer IN ARRAY rule.paths LOOP
            parts := redrive.pointer_parts(pointer);
            IF letter.payload #> parts IS NOT NULL
                OR '*' = ANY (parts) AND EXISTS (SELECT FROM redrive.pointer_paths(letter.payload, parts))
            THEN
                letter.payload := redrive.redact_values(letter.payload, parts, rule.keep_types);
                -- The captured bytes contain the same value.
                letter.raw := NULL;
                letter.redacted := array_remove(letter.redacted, pointer) || pointer;
            END IF;
        END LOOP;
        FOREACH pattern IN ARRAY rule.patterns LOOP
            letter.error_message := redrive.redact_text(letter.error_message, pattern);
            letter.error_detail := redrive.redact_text(letter.error_detail, pattern);
            letter.failure_key := redrive.redact_text(letter.failure_key, pattern);
            letter.history := (
                SELECT coalesce(jsonb_agg(
                    CASE WHEN a.attempt ? 'error_message' THEN a.attempt || jsonb_build_object(
                        'error_message', redrive.redact_text(a.attempt ->> 'error_message', pattern))
                    ELSE a.attempt END ORDER BY a.place), '[]')
                FROM jsonb_array_elements(letter.history) WITH ORDINALITY AS a (attempt, place));
            IF jsonb_typeof(letter.headers) = 'object' THEN
                letter.headers := (
                    -- A long value must not grow over the limit of the headers.
                    SELECT coalesce(jsonb_object_agg(h.name, CASE WHEN length(r.value) > greatest(length(h.value), 1024)
                        THEN '[redacted]' ELSE r.value END), '{}') FROM jsonb_each_text(letter.headers) AS h (name, value)
                    CROSS JOIN LATERAL redrive.redact_text(h.value, pattern) AS r (value));
            END IF;
            IF letter.payload IS NULL THEN
                bytes := redrive.redact_bytes(letter.raw, pattern);
                IF bytes <> letter.raw THEN
                    letter.raw := bytes;
                    letter.redacted := array_remove(letter.redacted, '') || ''::text;
                END IF;
            END IF;
        END LOOP;
    END LOOP;
    RETURN letter;
END
$$;

-- Name: redact_bytes(bytea, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redact_bytes(raw bytea, pattern text) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN convert_to(redrive.redact_text(convert_from(raw, 'UTF8'), pattern), 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN CASE
        WHEN redrive.redact_text(encode(raw, 'escape'), pattern) = encode(raw, 'escape') THEN raw
        ELSE '[redacted]'
    END;
END
$$;

-- Name: redact_groups(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redact_groups() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    rule    record;
    texts   bigint;
    changed bigint := 0;
BEGIN
    FOR rule IN
        SELECT r.queue, r.kind, p.pattern
        FROM redrive.redactions r CROSS JOIN LATERAL unnest(r.patterns) AS p (pattern)
        ORDER BY r.id
    LOOP
        UPDATE redrive.groups g
        SET sample = redrive.redact_text(g.sample, rule.pattern), title = redrive.redact_text(g.title, rule.pattern)
        WHERE (rule.queue IS NULL OR rule.queue = g.queue) AND (rule.kind IS NULL OR rule.kind = g.kind)
            AND (redrive.redact_text(g.sample, rule.pattern), redrive.redact_text(g.title, rule.pattern))
                IS DISTINCT FROM (g.sample, g.title);
        GET DIAGNOSTICS texts = ROW_COUNT;
        changed := changed + texts;
        UPDATE redrive.details d
        SET detail = redrive.redact_text(d.detail, rule.pattern)
        FROM redrive.groups g
        WHERE g.id = d.group_id
            AND (rule.queue IS NULL OR rule.queue = g.queue) AND (rule.kind IS NULL OR rule.kind = g.kind)
            AND redrive.redact_text(d.detail, rule.pattern) <> d.detail;
        GET DIAGNOSTICS texts = ROW_COUNT;
        changed := changed + texts;
    END LOOP;
    RETURN changed;
END
$$;

-- Name: redact_letters(jsonb, bigint, bigint, boolean, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redact_letters(filter jsonb, after bigint, max_letters bigint, dry_run boolean, person text, reason text, audit bigint DEFAULT NULL::bigint, OUT last_id bigint, OUT letters bigint, OUT audit_id bigint) RETURNS SETOF record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    page    bigint[];
    letter  redrive.dead_letters;
    version redrive.letter_versions;
    act     bigint;
BEGIN
    EXECUTE
        'SELECT array_agg(p.id ORDER BY p.id) FROM ('
        ' SELECT l.id FROM redrive.dead_letters l'
        ' WHERE l.id > $2 AND l.state <> ''redriving'' AND ' || redrive.filter_letters(filter)
        || ' ORDER BY l.id LIMIT $3) p'
        INTO page USING filter, after, max_letters;
    IF page IS NULL THEN
        RETURN;
    END IF;
    last_id := page[cardinality(page)];
    IF dry_run THEN
        SELECT count(*) INTO letters FROM redrive.dead_letters l
        WHERE l.id = ANY (page) AND redrive.redact(l) IS DISTINCT FROM l;
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM FROM redrive.dead_letters l WHERE l.id = ANY (page) ORDER BY l.id FOR UPDATE;
    FOR letter IN
        SELECT l.* FROM redrive.dead_letters l WHERE l.id = ANY (page) AND l.edits > 0 ORDER BY l.id
    LOOP
        FOR version IN SELECT v.* FROM redrive.letter_versions v WHERE v.letter_id = letter.id LOOP
            letter.payload := version.payload;
            letter.raw := version.raw;
            letter.redacted := version.redacted;
            letter.edits := version.version;
            letter := redrive.redact(letter);
            UPDATE redrive.letter_versions v
            SET payload = letter.payload, raw = letter.raw, redacted = letter.redacted
            WHERE v.letter_id = version.letter_id AND v.version = version.version
                AND (letter.payload, letter.raw) IS DISTINCT FROM (version.payload, version.raw);
        END LOOP;
    END LOOP;
    WITH redone AS MATERIALIZED (
        SELECT l.id, redrive.redact(l) AS new, l AS old
        FROM redrive.dead_letters l
        WHERE l.id = ANY (page) AND l.state <> 'redriving'
    )
    UPDATE redrive.dead_letters l
    SET payload = (r.new).payload, raw = (r.new).raw, headers = (r.new).headers,
        error_message = (r.new).error_message, error_detail = (r.new).error_detail,
        history = (r.new).history, redacted = (r.new).redacted,
        events = redrive.add_event(l.events, jsonb_strip_nulls(jsonb_build_object(
            'at', clock_timestamp(), 'event', 'redacted', 'by', coalesce(person, session_user),
            'reason', nullif(redact_letters.reason, ''))))
    FROM redone r
    WHERE l.id = r.id AND r.new IS DISTINCT FROM r.old;
    GET DIAGNOSTICS letters = ROW_COUNT;
    PERFORM redrive.drop_redacted_pieces(page);
    IF letters > 0 THEN
        act := redrive.record_act('redact', person, reason, filter, letters,
            CASE WHEN audit IS NOT NULL THEN jsonb_build_object('batch_of', audit) END);
    END IF;
    audit_id := coalesce(audit, act);
    RETURN NEXT;
END
$_$;

-- Name: redact_text(text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redact_text(plain text, pattern text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN regexp_replace(plain, pattern, '[redacted]', 'g');
EXCEPTION WHEN OTHERS THEN
    RETURN '[redacted]';
END
$$;

-- Name: redact_values(jsonb, text[], boolean); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redact_values(document jsonb, parts text[], keep_types boolean) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    child jsonb;
BEGIN
    IF cardinality(parts) = 0 THEN
        RETURN CASE WHEN keep_types THEN CASE jsonb_typeof(document)
            WHEN 'number' THEN '0' WHEN 'boolean' THEN 'false' WHEN 'null' THEN 'null'
            WHEN 'array' THEN '[]' WHEN 'object' THEN '{}' ELSE '"[redacted]"' END
            ELSE '"[redacted]"' END::jsonb;
    ELSIF parts[1] <> '*' THEN
        child := document #> parts[1:1];
        RETURN CASE WHEN child IS NULL THEN document
            ELSE jsonb_set(document, parts[1:1], redrive.redact_values(child, parts[2:], keep_types)) END;
    END IF;
    RETURN CASE jsonb_typeof(document)
        WHEN 'object' THEN (
            SELECT coalesce(jsonb_object_agg(e.key, redrive.redact_values(e.value, parts[2:], keep_types)), '{}')
            FROM jsonb_each(document) e)
        WHEN 'array' THEN (
            SELECT coalesce(jsonb_agg(redrive.redact_values(a.value, parts[2:], keep_types) ORDER BY a.place), '[]')
            FROM jsonb_array_elements(document) WITH ORDINALITY AS a (value, place))
        ELSE document
    END;
END
$$;

-- Name: redrive(jsonb, text, text, text, integer, integer, boolean, bigint, interval); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redrive(filter jsonb, reason text DEFAULT NULL::text, person text DEFAULT NULL::text, to_queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer, force boolean DEFAULT false, max_letters bigint DEFAULT NULL::bigint, delay interval DEFAULT NULL::interval) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT count(*) FILTER (WHERE r.result = 'sent')
    FROM redrive.redrive_letters($1, statement_timestamp(), coalesce($8, 9223372036854775807), '{}',
                                 $2, $3, $4, $5, $6, $7, (extract(epoch FROM $9) * 1000)::bigint) r
$_$;

-- Name: redrive_letters(jsonb, timestamp with time zone, bigint, bigint[], text, text, text, integer, integer, boolean, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redrive_letters(filter jsonb, as_of timestamp with time zone, max_letters bigint, passed bigint[], reason text, person text, to_queue text, priority integer, max_attempts integer, forced boolean, delay_ms bigint) RETURNS TABLE(id bigint, result text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
DECLARE
    chosen bigint[];
    tried  bigint[];
    results text[];
    sent   bigint := 0;
    queues text[];
    counts bigint[];
    event  jsonb := jsonb_strip_nulls(jsonb_build_object(
        'at', clock_timestamp(), 'event', CASE WHEN forced THEN 'forced' ELSE 'redriven' END,
        'by', coalesce(person, session_user), 'reason', nullif(reason, ''), 'queue', to_queue));
BEGIN
    PERFORM redrive.check_redrive(to_queue, priority, max_attempts, forced, reason, delay_ms);
    -- All that match count, because a caller may redrive them in batches.
    IF EXISTS (SELECT FROM redrive.protections p WHERE p.approve_above IS NOT NULL) THEN
        EXECUTE
            'SELECT array_agg(q.queue), array_agg(q.letters) FROM ('
            ' SELECT l.queue::text AS queue, count(*) AS letters FROM redrive.dead_letters l'
            ' WHERE (l.state = ''open'' OR $2 AND l.state = ''quarantined'') AND l.died_at <= $3 AND '
            || redrive.filter_letters(redrive_letters.filter) || ' GROUP BY 1) q'
            INTO queues, counts USING redrive_letters.filter, forced, as_of;
        PERFORM redrive.check_size(queues, counts);
    END IF;
    chosen := ARRAY(
        SELECT c FROM redrive.lock_letters(
            redrive_letters.filter, CASE WHEN forced THEN '{open,quarantined}'::text[] ELSE '{open}' END,
            as_of, max_letters + cardinality(passed), true, NOT forced) AS c
        WHERE c <> ALL (passed)
        LIMIT max_letters);
    FOR from_place IN 1..cardinality(chosen) BY 5000 LOOP
        SELECT array_agg(b.id), array_agg(b.result), sent + count(*) FILTER (WHERE b.result = 'sent')
        INTO tried, results, sent
        FROM redrive.send_back(
            chosen[from_place:from_place + 4999], event, to_queue, priority, max_attempts, forced,
            delay_ms => nullif(delay_ms, 0)) b;
        RETURN QUERY SELECT * FROM unnest(tried, results);
    END LOOP;
    IF sent > 0 THEN
        PERFORM redrive.record_act('redrive', person, reason, redrive_letters.filter, sent,
            jsonb_strip_nulls(jsonb_build_object('to', to_queue, 'priority', priority,
                'max_attempts', max_attempts, 'delay_ms', nullif(delay_ms, 0), 'forced', nullif(forced, false))));
    END IF;
END
$_$;

-- Name: redriven_segment(text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.redriven_segment(queue text, group_key text, id bigint) RETURNS smallint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM redrive.group_slots s
    WHERE s.job_id = redriven_segment.id AND s.queue = redriven_segment.queue
    FOR UPDATE;
    -- The next statement sees what was committed meanwhile.
    RETURN redrive.entry_segment(redriven_segment.queue, redriven_segment.group_key, redriven_segment.id);
END
$$;

-- Name: refuse_death(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.refuse_death() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'redrive: job % cannot die, because letter % belongs to another job; move the sequence redrive.job_id past the greatest id with setval, and delete that letter', NEW.id, NEW.id
        USING ERRCODE = 'triggered_data_change_violation';
END
$$;

-- Name: refused_letters(bigint[], boolean, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.refused_letters(ids bigint[], forced boolean DEFAULT false, to_queue text DEFAULT NULL::text) RETURNS TABLE(id bigint, result text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
    SELECT a.id, CASE
        WHEN l.id IS NULL THEN 'gone'
        WHEN l.state = 'quarantined' AND NOT refused_letters.forced THEN 'quarantined'
        WHEN l.state NOT IN ('open', 'quarantined') THEN 'not_open'
        WHEN octet_length(l.raw) = 65536 AND EXISTS (
            SELECT FROM redrive.captured_pieces p WHERE p.letter_id = l.id AND p.version = l.edits
        ) THEN 'too_large'
        WHEN l.payload IS NULL THEN 'no_json'
        WHEN l.redacted IS NOT NULL AND NOT refused_letters.forced THEN 'redacted'
        WHEN l.unique_key IS NOT NULL AND EXISTS (
            SELECT FROM redrive.unique_keys k
            WHERE k.queue = coalesce(refused_letters.to_queue, l.queue::text) AND k.key = l.unique_key
        ) THEN 'conflict'
        ELSE 'locked'
    END
    FROM unnest(refused_letters.ids) AS a (id)
    LEFT JOIN redrive.dead_letters l ON l.id = a.id
$$;

-- Name: regroup_letters(bigint, bigint, jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.regroup_letters(rule bigint, max_letters bigint, INOUT after jsonb, OUT moved bigint, OUT locked bigint, OUT is_last boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    source  redrive.group_rules;
    from_state text := coalesce(after ->> 'state', '');
    from_time  timestamptz := coalesce((after ->> 'died_at')::timestamptz, '-infinity');
    from_id    bigint := coalesce((after ->> 'id')::bigint, 0);
    page    bigint[];
    held    bigint[];
    targets bigint[];
    total   bigint;
BEGIN
    moved := 0;
    locked := 0;
    SELECT r.* INTO source FROM redrive.group_rules r WHERE r.id = rule;
    SELECT coalesce(array_agg(p.id), '{}'), (array_agg(to_jsonb(p) ORDER BY p.state DESC, p.died_at DESC, p.id DESC))[1]
    INTO page, after
    FROM (
        (SELECT l.id, l.state, l.died_at FROM redrive.dead_letters l
         WHERE l.group_id = source.group_id AND l.state <> 'redriving'
            AND (l.state, l.died_at, l.id) > (from_state, from_time, from_id)
         ORDER BY l.state, l.died_at, l.id LIMIT max_letters)
        UNION ALL
        (SELECT l.id, l.state, l.died_at FROM redrive.dead_letters l
         WHERE l.group_id = source.group_id AND l.state = 'redriving'
            AND (l.state, l.died_at, l.id) > (from_state, from_time, from_id)
         ORDER BY l.died_at, l.id LIMIT max_letters)
        ORDER BY 2, 3, 1 LIMIT max_letters
    ) p;
    is_last := cardinality(page) < max_letters;
    held := ARRAY(
        SELECT l.id FROM redrive.dead_letters l
        WHERE l.id = ANY (page) AND l.group_id = source.group_id
        ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED);
    locked := cardinality(page) - cardinality(held);
    -- Folding updates several groups, too.
    PERFORM FROM redrive.exclusive_tasks t WHERE t.task = 'fold_letters' FOR UPDATE;
    SELECT coalesce(array_agg(m.id), '{}'), array_agg(m.target) INTO held, targets
    FROM (SELECT l.id, redrive.ruled_group(l) AS target FROM redrive.dead_letters l WHERE l.id = ANY (held)) m
    WHERE m.target <> source.group_id;
    moved := cardinality(held);
    INSERT INTO redrive.details (group_id, digest, detail)
    SELECT DISTINCT m.target, d.digest, d.detail
    FROM unnest(held, targets) AS m (id, target)
    JOIN redrive.dead_letters l ON l.id = m.id
    JOIN redrive.details d ON d.id = l.detail_id
    ON CONFLICT ON CONSTRAINT details_group_id_digest_key DO NOTHING;
    INSERT INTO redrive.letter_deltas
        (group_id, hour, died_at, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT c.group_id, c.hour, NULL, sum(c.deaths), 0, 0, 0, 0, 0
    FROM unnest(held, targets) AS m (id, target)
    JOIN redrive.dead_letters l ON l.id = m.id
    CROSS JOIN LATERAL (
        SELECT count(*) AS earlier FROM jsonb_array_elements(l.events) e
        WHERE e ->> 'event' = 'died' AND (e ->> 'group')::bigint = source.group_id) n
    CROSS JOIN LATERAL (VALUES
        (source.group_id, date_trunc('hour', l.died_at, 'UTC'), -1), (m.target, date_trunc('hour', l.died_at, 'UTC'), 1),
        (source.group_id, NULL::timestamptz, -n.earlier), (m.target, NULL, n.earlier)) AS c (group_id, hour, deaths)
    GROUP BY 1, 2
    HAVING sum(c.deaths) <> 0;
    -- The rules may just have created the group.
    UPDATE redrive.groups g
    SET first_seen = least(g.first_seen, t.first_death),
        last_seen = CASE WHEN g.first_seen >= source.at THEN t.last_death ELSE greatest(g.last_seen, t.last_death) END
    FROM (
        SELECT m.target, min(l.died_at) AS first_death, max(l.died_at) AS last_death
        FROM unnest(held, targets) AS m (id, target) JOIN redrive.dead_letters l ON l.id = m.id GROUP BY 1
    ) t
    WHERE g.id = t.target;
    UPDATE redrive.dead_letters l
    SET group_id = m.target,
        detail_id = coalesce((
            SELECT n.id FROM redrive.details d JOIN redrive.details n ON n.group_id = m.target AND n.digest = d.digest
            WHERE d.id = l.detail_id), l.detail_id)
    FROM unnest(held, targets) AS m (id, target)
    WHERE l.id = m.id AND l.state <> 'redriving';
    -- The triggers assume that the groups of redriving letters do not change.
    WITH went AS (
        UPDATE redrive.dead_letters l SET group_id = m.target
        FROM unnest(held, targets) AS m (id, target)
        WHERE l.id = m.id AND l.state = 'redriving'
        RETURNING l.group_id
    )
    INSERT INTO redrive.letter_deltas (group_id, deaths, open, redriving, recovered, discarded, quarantined)
    SELECT c.group_id, 0, 0, sum(c.redriving), 0, 0, 0
    FROM went w
    CROSS JOIN LATERAL (VALUES (source.group_id, -1), (w.group_id, 1)) AS c (group_id, redriving)
    GROUP BY 1;
    IF is_last AND source.action = 'merge'
        AND NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.group_id = source.group_id AND l.state <> 'redriving')
        AND NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.group_id = source.group_id AND l.state = 'redriving')
    THEN
        total := (SELECT f.deaths FROM redrive.failure_groups f WHERE f.id = source.group_id);
        INSERT INTO redrive.letter_deltas (group_id, deaths, open, redriving, recovered, discarded, quarantined)
        SELECT v.group_id, v.deaths, 0, 0, 0, 0, 0
        FROM (VALUES (source.group_id, -total), (source.into_id, total)) AS v (group_id, deaths)
        WHERE v.deaths <> 0;
    END IF;
END
$$;

-- Name: release_group(text, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.release_group(queue text, group_key text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held_by bigint;
BEGIN
    PERFORM redrive.check_name('queue', release_group.queue);
    DELETE FROM redrive.group_slots s
    WHERE s.queue = release_group.queue AND s.group_key = release_group.group_key AND s.held_at IS NOT NULL
    RETURNING s.job_id INTO held_by;
    IF held_by IS NOT NULL THEN
        DELETE FROM redrive.diverted_groups d
        WHERE d.queue = release_group.queue AND d.group_key = release_group.group_key;
        PERFORM redrive.record_act('release_group', release_group.person, release_group.reason,
            jsonb_build_object('ids', jsonb_build_array(held_by)), 1,
            jsonb_build_object('queue', release_group.queue, 'group_key', release_group.group_key));
        PERFORM redrive.wake(release_group.queue);
    END IF;
    RETURN held_by;
END
$$;

-- Name: remove_event(bigint, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_event(event_id bigint, action text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH gone AS (
        DELETE FROM redrive.dead_letters l
        WHERE l.id = remove_event.event_id AND l.state IN ('recovered', 'discarded')
        RETURNING l.id, l.queue, l.detail_id, l.run_id, l.run_ordinal, l AS letter
    ),
    kept AS (
        INSERT INTO redrive.archived_letters (id, queue, letter)
        SELECT g.id, g.queue, redrive.archive_json(g.letter, d.detail, (
            SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('version', v.version, 'at', v.at, 'person', v.person,
                       'reason', v.reason, 'payload', v.payload::text,
                       'raw_base64', translate(encode(v.raw, 'base64'), E'\n', ''))) ORDER BY v.version)
            FROM redrive.letter_versions v WHERE v.letter_id = g.id AND (g.letter).edits > 0))
        FROM gone g
        LEFT JOIN redrive.details d ON d.id = g.detail_id
        WHERE remove_event.action = 'archive'
    ),
    left_run AS (
        DELETE FROM redrive.run_letters m
        USING gone g, redrive.redrive_runs r
        WHERE m.run_id = g.run_id AND m.ordinal = g.run_ordinal
            AND r.id = g.run_id AND r.state IN ('finished', 'cancelled')
    ),
    -- The statement's trigger writes one audit row for all events.
    counted AS MATERIALIZED (
        SELECT set_config('redrive.removed_events',
            (coalesce(nullif(current_setting('redrive.removed_events', true), ''), '0')::bigint + 1)::text, true)
        FROM gone
    )
    SELECT count(*) > 0 FROM counted
$$;

-- Name: remove_gameday(text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_gameday(queue text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    SET jit TO 'off'
    AS $_$
DECLARE
    run_ids   bigint[];
    group_ids bigint[];
    leased    bigint;
    ready     bigint;
    delayed   bigint;
    letters   bigint;
BEGIN
    PERFORM redrive.require_read_committed('remove_gameday');
    IF NOT coalesce(remove_gameday.queue ~ '^gameday-[0-9a-f]{12}$', false) THEN
        RAISE EXCEPTION 'redrive: % is not the queue of a rehearsal', coalesce(quote_literal(remove_gameday.queue), 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Expected gameday- and 12 hexadecimal digits.';
    END IF;
    -- A fold that has read deltas of the queue would add them to its totals after they are gone.
    PERFORM FROM redrive.exclusive_tasks t
    WHERE t.task IN ('fold_letters', 'fold_metrics') ORDER BY t.task FOR UPDATE;

    DELETE FROM redrive.workers w WHERE w.queue = remove_gameday.queue;
    WITH gone AS (
        DELETE FROM redrive.leases s WHERE s.queue = remove_gameday.queue RETURNING s.job_count, s.done
    )
    SELECT coalesce(sum(g.job_count - cardinality(g.done)), 0) INTO leased FROM gone g;
    DELETE FROM redrive.jobs j WHERE j.queue = remove_gameday.queue;
    GET DIAGNOSTICS ready = ROW_COUNT;
    DELETE FROM redrive.jobs_delayed j WHERE j.queue = remove_gameday.queue;
    GET DIAGNOSTICS delayed = ROW_COUNT;
    DELETE FROM redrive.unique_keys k WHERE k.queue = remove_gameday.queue;
    DELETE FROM redrive.unique_windows w WHERE w.queue = remove_gameday.queue;
    DELETE FROM redrive.group_slots s WHERE s.queue = remove_gameday.queue;
    DELETE FROM redrive.diverted_groups d WHERE d.queue = remove_gameday.queue;
    DELETE FROM redrive.group_policies p WHERE p.queue = remove_gameday.queue;

    SELECT array_agg(r.id) INTO run_ids FROM redrive.redrive_runs r WHERE r.filter ->> 'queue' = remove_gameday.queue;
    DELETE FROM redrive.run_letters m WHERE m.run_id = ANY (run_ids);
    DELETE FROM redrive.run_chunks c WHERE c.run_id = ANY (run_ids);
    DELETE FROM redrive.redrive_runs r WHERE r.id = ANY (run_ids);

    -- Triggers delete the versions, and add deltas that are deleted below.
    DELETE FROM redrive.dead_letters l WHERE l.queue = remove_gameday.queue;
    GET DIAGNOSTICS letters = ROW_COUNT;
    DELETE FROM redrive.run_deltas d WHERE d.run_id = ANY (run_ids);
    DELETE FROM redrive.archived_letters a WHERE a.queue = remove_gameday.queue;

    SELECT array_agg(g.id) INTO group_ids FROM redrive.groups g WHERE g.queue = remove_gameday.queue;
    DELETE FROM redrive.letter_deltas d WHERE d.group_id = ANY (group_ids);
    DELETE FROM redrive.failure_hours h WHERE h.group_id = ANY (group_ids);
    DELETE FROM redrive.details d WHERE d.group_id = ANY (group_ids);
    DELETE FROM redrive.group_rules r WHERE r.group_id = ANY (group_ids) OR r.into_id = ANY (group_ids);
    DELETE FROM redrive.groups g WHERE g.id = ANY (group_ids);
    DELETE FROM redrive.pruned_regressions p WHERE p.queue = remove_gameday.queue;
    DELETE FROM redrive.breakers b WHERE b.name = 'queue:' || remove_gameday.queue;
    DELETE FROM redrive.queue_pauses p WHERE p.queue = remove_gameday.queue;
    DELETE FROM redrive.rate_limits l WHERE l.queue = remove_gameday.queue;
    DELETE FROM redrive.rate_buckets b WHERE b.queue = remove_gameday.queue;
    DELETE FROM redrive.group_buckets b WHERE b.queue = remove_gameday.queue;
    DELETE FROM redrive.claim_marks m WHERE m.queue = remove_gameday.queue;
    DELETE FROM redrive.delayed_marks m WHERE m.queue = remove_gameday.queue;

    DELETE FROM redrive.metric_deltas d WHERE d.queue = remove_gameday.queue;
    DELETE FROM redrive.metric_values v WHERE v.queue = remove_gameday.queue;
    DELETE FROM redrive.metric_slots s
    WHERE s.queue = remove_gameday.queue OR s.label = 'queue' AND s.name = remove_gameday.queue;
    DELETE FROM redrive.metric_drift d WHERE d.queue = remove_gameday.queue;

    PERFORM redrive.record_act('remove_gameday', remove_gameday.person, remove_gameday.reason, NULL, letters,
        jsonb_build_object('queue', remove_gameday.queue, 'jobs', leased + ready + delayed));
    RETURN leased + ready + delayed + letters;
END
$_$;

-- Name: remove_group_rule(bigint, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_group_rule(rule bigint, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    gone redrive.group_rules;
BEGIN
    DELETE FROM redrive.group_rules r WHERE r.id = rule RETURNING r.* INTO gone;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('remove_group_rule', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'rule', rule, 'group', gone.group_id, 'into', gone.into_id, 'by', nullif(gone.action, 'merge'), 'pattern', gone.pattern)));
    RETURN true;
END
$$;

-- Name: remove_letters(text, text, interval, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_letters(queue text, state text, keep interval, action text, max_letters bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    -- The time by which an index orders them.
    since    text := CASE WHEN state IN ('open', 'quarantined') THEN 'died_at' ELSE 'changed_at' END;
    runs     bigint[];
    members  bigint[];
    taken    bigint;
BEGIN
    EXECUTE format(
        'WITH old AS MATERIALIZED ('
        ' SELECT l.id FROM redrive.dead_letters l'
        ' WHERE l.state = %1$L AND l.queue = $1 AND l.%2$I < statement_timestamp() - $2'
        -- An open letter that was edited, reopened or restored is as young as that change.
        '  AND l.changed_at < statement_timestamp() - $2'
        ' ORDER BY l.%2$I, l.id LIMIT $3 FOR UPDATE SKIP LOCKED),'
        'gone AS ('
        ' DELETE FROM redrive.dead_letters l USING old WHERE l.id = old.id AND l.state = %1$L'
        ' RETURNING l.id, l.queue, l.detail_id, l.run_id, l.run_ordinal, l AS letter),'
        'kept AS ('
        ' INSERT INTO redrive.archived_letters (id, queue, letter)'
        ' SELECT g.id, g.queue, redrive.archive_json(g.letter, d.detail, ('
        '  SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(''version'', v.version, ''at'', v.at,'
        '   ''role'', v.role, ''person'', v.person, ''reason'', v.reason, ''redacted'', v.redacted,'
        '   ''payload'', v.payload::text,'
        '   ''raw_base64'', translate(encode(v.raw, ''base64''), E''\n'', ''''))) ORDER BY v.version)'
        '  FROM redrive.letter_versions v WHERE v.letter_id = g.id AND (g.letter).edits > 0))'
        ' FROM gone g LEFT JOIN redrive.details d ON d.id = g.detail_id'
        ' WHERE $4 = ''archive'')'
        'SELECT count(*), array_agg(g.run_id) FILTER (WHERE g.run_id IS NOT NULL),'
        ' array_agg(g.run_ordinal) FILTER (WHERE g.run_id IS NOT NULL) FROM gone g',
        state, since)
        INTO taken, runs, members
        USING queue, keep, max_letters, action;
    -- Finished runs keep their numbers, but not their members.
    IF runs IS NOT NULL THEN
        DELETE FROM redrive.run_letters m
        USING unnest(runs, members) AS g (run_id, ordinal), redrive.redrive_runs r
        WHERE m.run_id = g.run_id AND m.ordinal = g.ordinal
            AND r.id = g.run_id AND r.state IN ('finished', 'cancelled');
    END IF;
    RETURN taken;
END
$_$;

-- Name: remove_policy(text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_policy(name text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    filter jsonb;
BEGIN
    DELETE FROM redrive.policies p WHERE p.name = remove_policy.name RETURNING p.filter INTO filter;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('remove_policy', person, reason, filter, 0, jsonb_build_object('policy', remove_policy.name));
    RETURN true;
END
$$;

-- Name: remove_protection(text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_protection(queue text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM redrive.protections p WHERE p.queue = remove_protection.queue;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('unprotect_queue', person, reason, NULL, 0, jsonb_build_object('queue', remove_protection.queue));
    RETURN true;
END
$$;

-- Name: remove_rate_limit(text, text, boolean, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_rate_limit(queue text, kind text DEFAULT NULL::text, each_group boolean DEFAULT false, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM redrive.check_name('queue', remove_rate_limit.queue);
    DELETE FROM redrive.rate_limits l
    WHERE l.queue = remove_rate_limit.queue AND l.kind = coalesce(remove_rate_limit.kind, '')
        AND l.each_group = remove_rate_limit.each_group;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF remove_rate_limit.each_group THEN
        -- The row stays, so that workers find the jobs that wait.
        UPDATE redrive.group_policies p SET is_rate_limited = false WHERE p.queue = remove_rate_limit.queue;
        DELETE FROM redrive.group_buckets b WHERE b.queue = remove_rate_limit.queue;
    ELSE
        DELETE FROM redrive.rate_buckets b
        WHERE b.queue = remove_rate_limit.queue AND b.kind = coalesce(remove_rate_limit.kind, '');
    END IF;
    PERFORM redrive.record_act('remove_rate_limit', remove_rate_limit.person, remove_rate_limit.reason, NULL, 0,
        jsonb_build_object('queue', remove_rate_limit.queue, 'kind', remove_rate_limit.kind,
            'each_group', remove_rate_limit.each_group));
    PERFORM pg_notify('redrive_breaker', 'queue:' || remove_rate_limit.queue);
    RETURN true;
END
$$;

-- Name: remove_redaction(bigint, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_redaction(id bigint, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    gone redrive.redactions;
BEGIN
    DELETE FROM redrive.redactions r WHERE r.id = remove_redaction.id RETURNING r.* INTO gone;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('remove_redaction', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'redaction', gone.id, 'queue', gone.queue, 'kind', gone.kind, 'paths', gone.paths, 'patterns', gone.patterns)));
    RETURN true;
END
$$;

-- Name: remove_retention(text, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_retention(queue text, state text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM redrive.retention r
    WHERE r.queue IS NOT DISTINCT FROM remove_retention.queue AND r.state = remove_retention.state;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act(
        'remove_retention', person, reason,
        jsonb_strip_nulls(jsonb_build_object('queue', remove_retention.queue, 'state', remove_retention.state)), 0);
    RETURN true;
END
$$;

-- Name: remove_schedule(text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.remove_schedule(name text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM redrive.schedules s WHERE s.name = remove_schedule.name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('remove_schedule', person, reason, NULL, 0, jsonb_build_object('schedule', remove_schedule.name));
    RETURN true;
END
$$;

-- Name: reopen(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.reopen() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    -- A rule may be newer than the first death: redact what that death stored, such as captured bytes.
    IF EXISTS (SELECT FROM redrive.redactions) THEN
        NEW := redrive.redact(NEW);
    END IF;
    IF NEW.generation > OLD.generation THEN
        NEW.history := redrive.cut_history(
            redrive.past_failures(OLD) || NEW.history, CASE WHEN NEW.run_ms IS NULL THEN 20 ELSE 19 END);
    END IF;
    NEW.deaths := OLD.deaths + 1;
    NEW.earlier_attempts := OLD.earlier_attempts + OLD.attempts;
    NEW.audit_id := NULL;
    NEW.events := redrive.add_event(OLD.events, jsonb_build_object(
        'at', OLD.died_at, 'event', 'died', 'generation', OLD.generation, 'cause', OLD.cause,
        'error_class', OLD.error_class, 'group', OLD.group_id));
    NEW.alike := CASE
        WHEN NEW.cause = 'diverted' THEN OLD.alike
        WHEN NEW.group_id IS DISTINCT FROM OLD.group_id AND NOT redrive.is_same_failure(NEW.group_id, OLD.group_id) THEN 0
        WHEN OLD.policy_id IS NULL THEN OLD.alike + 1
        -- Policies limit generations instead.
        ELSE OLD.alike
    END;
    IF OLD.policy_id IS NULL AND NEW.cause <> 'diverted' THEN
        -- Errors that alternate are a loop, too.
        NEW.failed_redrives := least(OLD.failed_redrives + 1, 32767);
        IF NEW.alike >= 3 OR NEW.failed_redrives >= 10 THEN
            NEW.state := 'quarantined';
        END IF;
    END IF;
    RETURN NEW;
END
$$;

-- Name: reopen_captured(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.reopen_captured() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    earlier redrive.dead_letters := OLD;
BEGIN
    -- Bytes in pieces cannot be compared by their start.
    IF EXISTS (SELECT FROM redrive.captured_pieces p WHERE p.letter_id = OLD.id AND p.version = OLD.edits) THEN
        NEW.edits := OLD.edits + 1;
    END IF;
    -- A rule may be newer than the earlier failure.
    IF EXISTS (SELECT FROM redrive.redactions) THEN
        NEW := redrive.redact(NEW);
        earlier := redrive.redact(earlier);
    END IF;
    IF NEW.edits > OLD.edits OR (NEW.payload, NEW.raw) IS DISTINCT FROM (earlier.payload, earlier.raw) THEN
        INSERT INTO redrive.letter_versions (letter_id, version, payload, raw, redacted, reason)
        VALUES (earlier.id, earlier.edits, earlier.payload, earlier.raw, earlier.redacted, 'captured again');
        NEW.edits := earlier.edits + 1;
    END IF;
    NEW.history := redrive.past_failures(earlier);
    NEW.history := redrive.cut_history(redrive.past_failures(NEW), 20);
    NEW.deaths := earlier.deaths + 1;
    NEW.earlier_attempts := earlier.earlier_attempts + earlier.attempts;
    NEW.audit_id := NULL;
    NEW.events := redrive.add_event(earlier.events, jsonb_build_object(
        'at', earlier.died_at, 'event', 'died', 'generation', earlier.generation, 'cause', earlier.cause,
        'error_class', earlier.error_class, 'group', earlier.group_id));
    IF earlier.state = 'recovered' THEN
        NEW.events := redrive.add_event(NEW.events, jsonb_build_object(
            'at', earlier.changed_at, 'event', 'recovered'));
    END IF;
    -- A recovery ends a row of like deaths. A discard does not: the next one may quarantine the letter.
    IF earlier.state = 'recovered' THEN
        NEW.failed_redrives := 0;
    END IF;
    IF earlier.state = 'recovered' OR NEW.group_id <> earlier.group_id
        AND NOT redrive.is_same_failure(NEW.group_id, earlier.group_id)
    THEN
        NEW.alike := 0;
    END IF;
    RETURN NEW;
END
$$;

-- Name: reopen_discarded(jsonb, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.reopen_discarded(filter jsonb, reason text DEFAULT NULL::text, person text DEFAULT NULL::text, max_letters bigint DEFAULT NULL::bigint) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT count(*)
    FROM redrive.reopen_letters($1, statement_timestamp(), coalesce($4, 9223372036854775807), $2, $3) r
$_$;

-- Name: reopen_letters(jsonb, timestamp with time zone, bigint, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.reopen_letters(filter jsonb, as_of timestamp with time zone, max_letters bigint, reason text, person text, audit bigint DEFAULT NULL::bigint) RETURNS TABLE(id bigint, audit_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    chosen    bigint[];
    operation bigint := reopen_letters.audit;
    act       bigint;
    event     jsonb := jsonb_strip_nulls(jsonb_build_object('at', clock_timestamp(), 'event', 'reopened',
        'by', coalesce(person, session_user), 'reason', nullif(reason, '')));
BEGIN
    chosen := ARRAY(SELECT c FROM redrive.lock_letters(
        reopen_letters.filter, '{discarded}', as_of, max_letters) AS c);
    IF cardinality(chosen) = 0 THEN
        RETURN;
    END IF;
    act := redrive.record_act('reopen', person, reason, reopen_letters.filter, cardinality(chosen),
        CASE WHEN operation IS NOT NULL THEN jsonb_build_object('batch_of', operation) END);
    operation := coalesce(operation, act);
    UPDATE redrive.dead_letters l
    SET state = CASE l.events -> -1 ->> 'was' WHEN 'quarantined' THEN 'quarantined' ELSE 'open' END,
        discard_reason = NULL, audit_id = operation, changed_at = clock_timestamp(),
        events = redrive.add_event(l.events, event)
    WHERE l.id = ANY (chosen);
    RETURN QUERY SELECT u.id, operation FROM unnest(chosen) AS u (id);
END
$$;

-- Name: replace_keys(text, text[], bigint[], text[], text[], json[], bigint[], integer[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.replace_keys(queue text, keys text[], ids bigint[], kinds text[], changes text[], payloads json[], delays bigint[], priorities integer[], windows bigint[] DEFAULT NULL::bigint[]) RETURNS TABLE(key text, job_id bigint, replaced boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    wanted record;
    answer text;
BEGIN
    -- In the order of the keys, so that two callers cannot deadlock.
    FOR wanted IN
        SELECT DISTINCT ON (n.key COLLATE "C") n.*
        FROM unnest(keys, ids, kinds, changes, payloads, delays, priorities, windows)
            AS n (key, id, kind, change, payload, delay_ms, priority, window_ms)
        WHERE n.key IS NOT NULL
        ORDER BY n.key COLLATE "C", n.id
    LOOP
        replace_keys.key := wanted.key;
        -- A job may move or end between two looks. One that moves a hundred times counts as running.
        FOR look IN 1..100 LOOP
            SELECT k.job_id INTO replace_keys.job_id
            FROM redrive.take_keys(replace_keys.queue, ARRAY[wanted.key], ARRAY[wanted.id],
                                   ARRAY[wanted.window_ms]) k;
            replace_keys.replaced := false;
            EXIT WHEN replace_keys.job_id = wanted.id OR wanted.change IS NULL;
            answer := redrive.replace_waiting(replace_keys.queue, wanted.key, wanted.kind, wanted.change, wanted.payload,
                                              wanted.delay_ms, wanted.priority);
            replace_keys.replaced := answer = 'replaced';
            EXIT WHEN answer <> 'gone';
            -- The job is gone and its window is open, unless it only moved.
            EXIT WHEN wanted.window_ms IS NOT NULL
                AND NOT EXISTS (
                    SELECT FROM redrive.unique_keys k WHERE k.queue = replace_keys.queue AND k.key = wanted.key)
                AND EXISTS (
                    SELECT FROM redrive.unique_windows w
                    WHERE w.queue = replace_keys.queue AND w.key = wanted.key AND w.ends_at > clock_timestamp());
        END LOOP;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Name: replace_waiting(text, text, text, text, json, bigint, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.replace_waiting(queue text, key text, kind text, change text, payload json, delay_ms bigint, priority integer) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    held  bigint;
    moved bigint;
    -- Nearly always the job has the priority of the enqueue. An operator may have changed it.
    ranks integer[] := ARRAY[-2 * replace_waiting.priority, 1 - 2 * replace_waiting.priority];
BEGIN
    IF replace_waiting.change <> ALL ('{payload,time,both}') THEN
        RAISE EXCEPTION 'redrive: replace is %; it must be payload, time or both', replace_waiting.change
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT k.job_id INTO held
    FROM redrive.unique_keys k
    WHERE k.queue = replace_waiting.queue AND k.key = replace_waiting.key;
    IF held IS NULL THEN
        RETURN 'gone';
    END IF;
    UPDATE redrive.jobs_delayed d
    SET payload = CASE replace_waiting.change WHEN 'time' THEN d.payload ELSE replace_waiting.payload END,
        run_at = CASE replace_waiting.change WHEN 'payload' THEN d.run_at
            ELSE clock_timestamp() + replace_waiting.delay_ms * interval '1 millisecond' END
    WHERE d.id = held AND d.kind = replace_waiting.kind;
    IF FOUND THEN
        RETURN 'replaced';
    END IF;
    LOOP
        WITH gone AS (
            DELETE FROM redrive.jobs j
            WHERE j.queue = replace_waiting.queue AND (j.generation > 0)::integer - 2 * j.priority = ANY (ranks)
                AND j.id = held AND j.kind = replace_waiting.kind
            RETURNING j.*
        ),
        changed AS (
            SELECT g.*, CASE replace_waiting.change WHEN 'time' THEN g.payload ELSE replace_waiting.payload END AS new_payload,
                   replace_waiting.change <> 'payload' AND replace_waiting.delay_ms > 0 AS is_delayed
            FROM gone g
        ),
        ready AS (
            INSERT INTO redrive.jobs
                (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
                 refunds, queue, kind, payload, history, unique_key, outage_since, headers, group_key)
            -- A job that waits for its group keeps waiting.
            SELECT CASE c.segment WHEN 8 THEN 8 ELSE (SELECT r.segment FROM redrive.ring r) END, c.id, c.ready_at,
                   c.enqueued_at, c.attempt, c.max_attempts,
                   c.generation, c.priority, c.crashes, c.refunds, c.queue, c.kind, c.new_payload, c.history,
                   c.unique_key, c.outage_since, c.headers, c.group_key
            FROM changed c
            WHERE NOT c.is_delayed
        ),
        delayed AS (
            INSERT INTO redrive.jobs_delayed
                (id, run_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
                 refunds, queue, kind, payload, history, unique_key, outage_since, headers, group_key)
            SELECT c.id, clock_timestamp() + replace_waiting.delay_ms * interval '1 millisecond', c.enqueued_at, c.attempt,
                   c.max_attempts, c.generation, c.priority, c.crashes, c.refunds, c.queue, c.kind, c.new_payload,
                   c.history, c.unique_key, c.outage_since, c.headers, c.group_key
            FROM changed c
            WHERE c.is_delayed
        )
        SELECT count(*) INTO moved FROM gone;
        IF moved > 0 THEN
            RETURN 'replaced';
        END IF;
        IF cardinality(ranks) > 2 THEN
            EXIT;
        END IF;
        IF EXISTS (SELECT FROM redrive.leases l WHERE held = ANY (l.ids) AND held <> ALL (l.done)) THEN
            RETURN 'kept';
        END IF;
        ranks := ARRAY(SELECT generate_series(-2000, 2001));
    END LOOP;
    IF EXISTS (SELECT FROM redrive.jobs_delayed d WHERE d.id = held AND d.kind <> replace_waiting.kind)
        OR EXISTS (
            SELECT FROM redrive.jobs j
            WHERE j.queue = replace_waiting.queue AND (j.generation > 0)::integer - 2 * j.priority = ANY (ranks)
                AND j.id = held AND j.kind <> replace_waiting.kind)
    THEN
        RETURN 'kept';
    END IF;
    RETURN 'gone';
END
$$;

-- Name: require_read_committed(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.require_read_committed(operation text) RETURNS void
    LANGUAGE plpgsql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'redrive: % cannot run at isolation level %; it would not see what it locked',
            operation, upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'invalid_transaction_state',
                  HINT = 'Call it in a transaction with isolation level READ COMMITTED.';
    END IF;
END
$$;

-- Name: restore_archived(jsonb, bigint, bigint, boolean, text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.restore_archived(filter jsonb, after bigint, max_letters bigint, dry_run boolean, person text, reason text, audit bigint DEFAULT NULL::bigint) RETURNS TABLE(id bigint, result text, audit_id bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
DECLARE
    page    bigint[];
    results text[];
    free    bigint[];
    act     bigint;
    event   jsonb := jsonb_strip_nulls(jsonb_build_object('at', clock_timestamp(), 'event', 'restored',
        'by', coalesce(restore_archived.person, session_user), 'reason', nullif(restore_archived.reason, '')));
BEGIN
    EXECUTE
        'SELECT array_agg(p.id ORDER BY p.id) FROM ('
        ' SELECT a.id FROM redrive.archived_letters a CROSS JOIN LATERAL redrive.unarchived(a.letter) l'
        ' WHERE a.id > $2 AND ' || redrive.filter_archive(restore_archived.filter) || ' ORDER BY a.id LIMIT $3'
        || CASE WHEN dry_run THEN '' ELSE ' FOR UPDATE OF a' END || ') p'
        INTO page USING restore_archived.filter, after, max_letters;
    IF page IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(c.result ORDER BY c.id), array_agg(c.id ORDER BY c.id) FILTER (WHERE c.result = 'restored')
    INTO results, free
    FROM (
        SELECT a.id, CASE
            WHEN EXISTS (SELECT FROM redrive.dead_letters k WHERE k.id = a.id) THEN 'id_taken'
            WHEN a.letter ? 'source' AND (
                row_number() OVER (PARTITION BY a.letter -> 'source', a.letter -> 'position' ORDER BY a.id) > 1
                OR EXISTS (SELECT FROM redrive.dead_letters k
                    WHERE k.source = a.letter ->> 'source' AND k."position" = a.letter ->> 'position'))
                THEN 'position_taken'
            WHEN EXISTS (SELECT FROM redrive.unique_keys k
                WHERE k.queue = a.queue AND k.key = a.letter ->> 'unique_key') THEN 'key_taken'
            ELSE 'restored' END AS result
        FROM redrive.archived_letters a
        WHERE a.id = ANY (page)
    ) c;
    IF free IS NOT NULL AND NOT dry_run THEN
        act := redrive.record_act('restore', restore_archived.person, restore_archived.reason,
            restore_archived.filter, cardinality(free),
            CASE WHEN restore_archived.audit IS NOT NULL THEN jsonb_build_object('batch_of', restore_archived.audit) END);
        INSERT INTO redrive.dead_letters
        SELECT u.*
        FROM redrive.archived_letters a
        CROSS JOIN LATERAL redrive.readmitted(
            redrive.unarchived(a.letter), event, coalesce(restore_archived.audit, act)) u
        WHERE a.id = ANY (free)
        ORDER BY a.id;
        INSERT INTO redrive.letter_versions (letter_id, version, payload, raw, redacted, at, role, person, reason)
        SELECT a.id, (v.version ->> 'version')::integer, (v.version ->> 'payload')::jsonb,
               decode(v.version ->> 'raw_base64', 'base64'), redrive.filter_values(v.version -> 'redacted'),
               (v.version ->> 'at')::timestamptz, v.version ->> 'role', v.version ->> 'person', v.version ->> 'reason'
        FROM redrive.archived_letters a
        CROSS JOIN LATERAL jsonb_array_elements(a.letter -> 'versions') AS v (version)
        WHERE a.id = ANY (free);
        PERFORM redrive.drop_redacted_pieces(free);
        PERFORM redrive.count_restored(free);
        DELETE FROM redrive.archived_letters a WHERE a.id = ANY (free);
    END IF;
    RETURN QUERY
    SELECT u.id, u.result, coalesce(restore_archived.audit, act) FROM unnest(page, results) AS u (id, result);
END
$_$;

-- Name: restore_letter(bigint, integer, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.restore_letter(id bigint, version integer DEFAULT NULL::integer, reason text DEFAULT NULL::text, person text DEFAULT NULL::text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    found_edits integer := redrive.lock_for_edit(restore_letter.id);
    wanted integer := coalesce(restore_letter.version, found_edits - 1);
    new_version integer;
BEGIN
    SELECT r.version INTO new_version
    FROM redrive.restore_letters(
        ARRAY[restore_letter.id], wanted, restore_letter.reason, restore_letter.person,
        jsonb_build_object('ids', jsonb_build_array(restore_letter.id))) r;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'redrive: letter % has % edits and no version %',
            restore_letter.id, found_edits, wanted
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN new_version;
END
$$;

-- Name: restore_letters(bigint[], integer, text, text, jsonb, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.restore_letters(ids bigint[], to_version integer, reason text, person text, filter jsonb, audit bigint DEFAULT NULL::bigint) RETURNS TABLE(id bigint, version integer, audit_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    restored bigint[];
    versions integer[];
    act      bigint;
BEGIN
    SELECT array_agg(e.id), array_agg(e.version), min(e.audit_id) INTO restored, versions, act
    FROM (
        SELECT array_agg(l.id) AS ids, array_agg(v.payload) AS payloads, array_agg(v.raw) AS raws,
               array_agg(l.edits) AS edits
        FROM redrive.dead_letters l
        JOIN redrive.letter_versions v
            ON v.letter_id = l.id AND v.version = coalesce(restore_letters.to_version, l.edits - 1)
        WHERE l.id = ANY (restore_letters.ids)
    ) k
    CROSS JOIN LATERAL redrive.edit_letters(
        k.ids, k.payloads, k.raws, k.edits, restore_letters.reason, restore_letters.person,
        restore_letters.filter, 'restore', restore_letters.audit) e
    WHERE k.ids IS NOT NULL;
    INSERT INTO redrive.captured_pieces (letter_id, version, place, bytes)
    SELECT p.letter_id, u.version, p.place, p.bytes
    FROM unnest(restored, versions) AS u (id, version)
    JOIN redrive.captured_pieces p
        ON p.letter_id = u.id AND p.version = coalesce(restore_letters.to_version, u.version - 2);
    -- A restored payload is as redacted as it was.
    UPDATE redrive.dead_letters l
    SET redacted = v.redacted
    FROM redrive.letter_versions v
    WHERE l.id = ANY (restored) AND v.letter_id = l.id
        AND v.version = coalesce(restore_letters.to_version, l.edits - 2)
        AND v.redacted IS DISTINCT FROM l.redacted;
    RETURN QUERY SELECT u.id, u.version, act FROM unnest(restored, versions) AS u (id, version);
END
$$;

-- Name: resume_queue(text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.resume_queue(queue text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    until timestamptz;
BEGIN
    PERFORM redrive.check_name('queue', resume_queue.queue);
    DELETE FROM redrive.queue_pauses p WHERE p.queue = resume_queue.queue RETURNING p.ends_at INTO until;
    IF until IS NULL OR until <= clock_timestamp() THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('resume_queue', resume_queue.person, resume_queue.reason, NULL, 0,
        jsonb_build_object('queue', resume_queue.queue));
    PERFORM pg_notify('redrive_breaker', 'queue:' || resume_queue.queue);
    RETURN true;
END
$$;

-- Name: retention_by_queue(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.retention_by_queue() RETURNS TABLE(queue text, state text, keep interval, action text, rule bigint)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT DISTINCT ON (q.queue, r.state) q.queue, r.state, r.keep, r.action, r.id
    FROM redrive.queues_with_letters() AS q (queue)
    JOIN redrive.retention r ON r.queue = q.queue OR r.queue IS NULL
    ORDER BY q.queue, r.state, r.queue NULLS LAST
$$;

-- Name: retention_due(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.retention_due() RETURNS TABLE(queue text, state text, keep interval, action text, letters bigint)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    -- One query per state, so that each uses its index.
    SELECT r.queue, r.state, r.keep, r.action, CASE r.state
        WHEN 'open' THEN (
            SELECT count(*) FROM redrive.dead_letters l
            WHERE l.state = 'open' AND l.queue = r.queue AND l.died_at < statement_timestamp() - r.keep
                AND l.changed_at < statement_timestamp() - r.keep)
        WHEN 'quarantined' THEN (
            SELECT count(*) FROM redrive.dead_letters l
            WHERE l.state = 'quarantined' AND l.queue = r.queue AND l.died_at < statement_timestamp() - r.keep
                AND l.changed_at < statement_timestamp() - r.keep)
        ELSE (
            SELECT count(*) FROM redrive.dead_letters l
            WHERE l.state IN ('recovered', 'discarded') AND l.state = r.state AND l.queue = r.queue
                AND l.changed_at < statement_timestamp() - r.keep)
        END
    FROM redrive.retention_by_queue() r
    ORDER BY r.queue, r.state
$$;

-- Name: rewrite(regclass, anyarray, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.rewrite(heap regclass, kept anyarray, max_rows bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '50ms'
    AS $_$
DECLARE
    live_rows  bigint;
    live_bytes bigint;
    columns    text;
BEGIN
    EXECUTE format('SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0) FROM (SELECT * FROM %s LIMIT $1) t', heap)
        INTO live_rows, live_bytes USING max_rows + 1;
    IF live_rows > max_rows OR live_bytes > 16777216 OR live_bytes * 4 > redrive.table_bytes(heap) OR redrive.is_held(heap) THEN
        RETURN false;
    END IF;
    SELECT string_agg(quote_ident(a.attname), ', ') INTO columns
    FROM pg_attribute a
    WHERE a.attrelid = heap AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', heap);
    -- A new snapshot, which sees every row, because no other session can write any more.
    EXECUTE format('SELECT array_agg(t) FROM %s t', heap) INTO kept;
    EXECUTE format('TRUNCATE %s', heap);
    EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM unnest($1)', heap, columns) USING kept;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$_$;

-- Name: rule_part(redrive.dead_letters, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.rule_part(letter redrive.dead_letters, action text, pattern text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE action
        WHEN 'error' THEN CASE WHEN letter.error_message ~ pattern THEN pattern END
        WHEN 'class' THEN letter.error_class
        WHEN 'kind' THEN letter.kind::text
        WHEN 'payload' THEN left(nullif(letter.payload #>> string_to_array(pattern, '.'), ''), 100)
    END
$$;

-- Name: ruled_group(redrive.dead_letters); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.ruled_group(letter redrive.dead_letters) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    place  bigint := letter.group_id;
    rule   redrive.group_rules;
    part   text;
    parted bigint;
BEGIN
    <<steps>>
    FOR step IN 1..10 LOOP
        FOR rule IN SELECT r.* FROM redrive.group_rules r WHERE r.group_id = place ORDER BY r.id LOOP
            IF rule.action = 'merge' THEN
                place := rule.into_id;
                CONTINUE steps;
            END IF;
            part := redrive.rule_part(letter, rule.action, rule.pattern);
            CONTINUE WHEN part IS NULL;
            SELECT redrive.group_of(
                    g.queue, CASE rule.action WHEN 'kind' THEN part ELSE g.kind::text END,
                    CASE rule.action WHEN 'class' THEN part ELSE g.error_class END,
                    format('%s [%s]', g.title, concat_ws(' ', rule.action, CASE rule.action WHEN 'payload' THEN rule.pattern END, part)),
                    letter.error_message, letter.version)
            INTO parted FROM redrive.groups g WHERE g.id = place;
            CONTINUE WHEN parted IS NULL;
            place := parted;
            CONTINUE steps;
        END LOOP;
        EXIT;
    END LOOP;
    RETURN place;
END
$$;

-- Name: run_policies(uuid, interval); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.run_policies(holder uuid DEFAULT NULL::uuid, lease interval DEFAULT '00:01:00'::interval, OUT policy text, OUT letters bigint, OUT mode text, OUT error text, OUT next_tick timestamp with time zone) RETURNS SETOF record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    AS $$
DECLARE
    moment         timestamptz := statement_timestamp();
    without_queues text[] := redrive.held_queues();
    due            redrive.policies;
    tick           timestamptz;
    ids            bigint[];
BEGIN
    -- Renew own leases once half of their time has passed.
    UPDATE redrive.policies p
    SET lease_until = moment + run_policies.lease
    WHERE p.id = ANY (ARRAY(
        SELECT m.id FROM redrive.policies m
        WHERE m.holder = run_policies.holder AND m.lease_until > moment
            AND m.lease_until < moment + run_policies.lease / 2
        FOR UPDATE SKIP LOCKED));

    SELECT p.* INTO due
    FROM redrive.policies p
    WHERE p.mode <> 'paused' AND p.next_at <= moment
        AND (p.holder IS NULL OR p.holder = run_policies.holder OR p.lease_until <= moment)
        AND redrive.is_hour_allowed(p.from_hour, p.to_hour, extract(hour FROM moment AT TIME ZONE 'UTC')::integer)
        -- While its queue is held the policy waits, and its tick is not consumed.
        AND NOT (p.while_closed AND coalesce(p.filter ->> 'queue' = ANY (without_queues), false))
    ORDER BY p.next_at, p.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    -- The last scheduled tick. Earlier missed ticks are not run.
    tick := due.next_at
        + due.every * floor(extract(epoch FROM moment - due.next_at) / extract(epoch FROM due.every))::float8;
    letters := 0;
    BEGIN
        ids := redrive.due_letters(due, tick, CASE WHEN due.while_closed THEN without_queues ELSE '{}' END);
        letters := cardinality(ids);
        IF due.mode = 'active' AND letters > 0 THEN
            SELECT count(*) INTO letters
            FROM redrive.send_back(ids, jsonb_build_object(
                'at', clock_timestamp(), 'event', 'redriven', 'by', 'policy ' || due.name), policy_id => due.id) b
            WHERE b.result = 'sent';
        END IF;
        IF letters > 0 THEN
            PERFORM redrive.record_act(
                'policy', NULL, NULL, due.filter, CASE due.mode WHEN 'active' THEN letters ELSE 0 END,
                jsonb_build_object('policy', due.name, 'mode', due.mode, 'letters', letters));
        END IF;
    -- A policy that fails or exceeds the statement timeout does not stop the others.
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        GET STACKED DIAGNOSTICS error = MESSAGE_TEXT;
        letters := 0;
    END;

    UPDATE redrive.policies p
    SET last_at = moment, last_letters = run_policies.letters, last_error = left(run_policies.error, 1024),
        sent = p.sent + CASE p.mode WHEN 'active' THEN run_policies.letters ELSE 0 END,
        -- Retry a failed tick soon.
        next_at = CASE
            WHEN run_policies.error IS NULL THEN tick + p.every
            ELSE least(tick + p.every, moment + interval '1 minute')
        END,
        term = p.term + CASE WHEN p.holder IS DISTINCT FROM run_policies.holder THEN 1 ELSE 0 END,
        holder = run_policies.holder,
        lease_until = CASE WHEN run_policies.holder IS NOT NULL THEN moment + run_policies.lease END
    WHERE p.id = due.id AND p.term = due.term
    RETURNING p.next_at INTO next_tick;
    policy := due.name;
    mode := due.mode;
    RETURN NEXT;
END
$$;

-- Name: schedules; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.schedules (
    name redrive.name NOT NULL,
    cron text COLLATE pg_catalog."C",
    zone text COLLATE pg_catalog."C",
    every interval,
    queue redrive.name NOT NULL,
    kind redrive.name NOT NULL,
    payload json NOT NULL,
    priority redrive.priority NOT NULL,
    max_attempts redrive.attempt_limit NOT NULL,
    headers redrive.headers,
    missed text NOT NULL COLLATE pg_catalog."C",
    missed_ticks integer NOT NULL,
    missed_age interval NOT NULL,
    overlap text NOT NULL COLLATE pg_catalog."C",
    version bigint DEFAULT 1 NOT NULL,
    next_at redrive.run_time,
    retry_at timestamp with time zone,
    last_at timestamp with time zone,
    last_error text,
    paused_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT schedules_cron_check CHECK (((octet_length(cron) >= 1) AND (octet_length(cron) <= 256))),
    CONSTRAINT schedules_every_check CHECK (((every >= '00:00:01'::interval) AND (every <= '366 days'::interval))),
    CONSTRAINT schedules_have_one_rhythm CHECK ((((cron IS NULL) <> (every IS NULL)) AND ((cron IS NULL) = (zone IS NULL)))),
    CONSTRAINT schedules_headers_check CHECK ((octet_length((headers)::text) <= 64000)),
    CONSTRAINT schedules_missed_age_check CHECK (((missed_age >= '00:01:00'::interval) AND (missed_age <= '366 days'::interval))),
    CONSTRAINT schedules_missed_check CHECK ((missed = ANY (ARRAY['skip'::text, 'once'::text, 'all'::text]))),
    CONSTRAINT schedules_missed_ticks_check CHECK (((missed_ticks >= 1) AND (missed_ticks <= 1000))),
    CONSTRAINT schedules_overlap_check CHECK ((overlap = ANY (ARRAY['allow'::text, 'skip'::text]))),
    CONSTRAINT schedules_payload_check CHECK ((octet_length((payload)::text) <= 1048576)),
    CONSTRAINT schedules_zone_check CHECK (((octet_length(zone) >= 1) AND (octet_length(zone) <= 100)))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');

-- Name: TABLE schedules; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.schedules IS 'Jobs that are enqueued by a cron line in a time zone, or at an interval.';

-- Name: COLUMN schedules.version; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.schedules.version IS 'It grows with each change, and a tick that was planned for an older version has no effect.';

-- Name: COLUMN schedules.next_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.schedules.next_at IS 'The next tick. NULL: a worker computes it, because PostgreSQL cannot read a cron line.';

-- Name: COLUMN schedules.retry_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.schedules.retry_at IS 'When to try again after an error; NULL: there was none.';

-- Name: COLUMN schedules.last_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.schedules.last_at IS 'The latest tick that was due when a tick ran. No tick up to it runs again.';

-- Name: run_ticks(redrive.schedules, timestamp with time zone[], text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.run_ticks(due redrive.schedules, ticks timestamp with time zone[], outcome text) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    lock_key CONSTANT text := CASE due.overlap WHEN 'skip' THEN
        'redrive-schedule:' || CASE WHEN octet_length(due.name) <= 150 THEN due.name ELSE md5(due.name) END END;
    new_ids bigint[] := '{}';
    tick_at timestamptz;
    new_id  bigint;
    live_id bigint;
BEGIN
    FOREACH tick_at IN ARRAY run_ticks.ticks LOOP
        new_id := nextval('redrive.job_id');
        live_id := new_id;
        IF lock_key IS NOT NULL THEN
            SELECT k.job_id INTO live_id FROM redrive.take_keys(due.queue, ARRAY[lock_key], ARRAY[new_id]) k;
        END IF;
        INSERT INTO redrive.schedule_ticks (schedule, tick_at, outcome, job_id)
        VALUES (due.name, tick_at, CASE live_id WHEN new_id THEN run_ticks.outcome ELSE 'overlapped' END, live_id);
        CONTINUE WHEN live_id <> new_id;
        INSERT INTO redrive.jobs (segment, id, queue, kind, payload, priority, max_attempts, unique_key, headers)
        SELECT r.segment, new_id, due.queue, due.kind, due.payload, due.priority, due.max_attempts, lock_key,
               coalesce(due.headers, '{}') || jsonb_build_object('redrive-schedule', due.name, 'redrive-scheduled-for',
                   to_char(tick_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
        FROM redrive.ring r;
        new_ids := new_ids || new_id;
    END LOOP;
    INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, counts)
    SELECT m.segment, due.queue, '{enqueued,schedule_ticks,schedule_ticks}', ARRAY[NULL, run_ticks.outcome, 'overlapped'],
           ARRAY[cardinality(new_ids), cardinality(new_ids), cardinality(run_ticks.ticks) - cardinality(new_ids)]
    FROM redrive.metric_ring m
    WHERE cardinality(run_ticks.ticks) > 0;
    DELETE FROM redrive.schedule_ticks t
    WHERE t.schedule = due.name AND t.id <= (
        SELECT o.id FROM redrive.schedule_ticks o WHERE o.schedule = due.name ORDER BY o.id DESC OFFSET 100 LIMIT 1);
    IF cardinality(new_ids) > 0 THEN
        PERFORM redrive.wake(due.queue);
    END IF;
    RETURN new_ids;
END
$$;

-- Name: save_regressions(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.save_regressions() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO redrive.pruned_regressions AS f (queue, regressions)
    SELECT g.queue, sum(g.regressions) FROM gone g WHERE g.regressions > 0 GROUP BY g.queue
    ON CONFLICT ON CONSTRAINT pruned_regressions_pkey
        DO UPDATE SET regressions = f.regressions + excluded.regressions;
    RETURN NULL;
END
$$;

-- Name: schedule(text, text, text, jsonb, text, text, interval, integer, integer, jsonb, text, text, integer, interval, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.schedule(name text, queue text, kind text, payload jsonb, cron text DEFAULT NULL::text, zone text DEFAULT NULL::text, every interval DEFAULT NULL::interval, priority integer DEFAULT 0, max_attempts integer DEFAULT 5, headers jsonb DEFAULT NULL::jsonb, missed text DEFAULT 'once'::text, overlap text DEFAULT 'allow'::text, missed_ticks integer DEFAULT 100, missed_age interval DEFAULT '7 days'::interval, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    line  text := btrim(regexp_replace(schedule.cron, '\s+', ' ', 'g'));
    error text;
BEGIN
    error := CASE
        WHEN (line IS NULL) = (every IS NULL) THEN 'needs either a cron line or an interval'
        WHEN every NOT BETWEEN '1 second' AND '366 days' OR extract(year FROM every) <> 0 OR extract(month FROM every) <> 0
            THEN 'needs an interval of 1 second to 366 days, without months and years'
        WHEN every IS NOT NULL AND zone IS NOT NULL THEN 'needs no time zone for an interval'
        WHEN line !~ '^(@[A-Za-z]+|\S+( \S+){4,5})$' OR octet_length(line) > 256
            THEN 'needs a cron line of five fields, or of six with the seconds first'
        WHEN NOT EXISTS (SELECT FROM pg_timezone_names z WHERE z.name = schedule.zone) AND zone IS NOT NULL
            THEN 'needs a time zone such as Europe/Berlin, not ' || quote_literal(zone)
        WHEN payload IS NULL OR octet_length(payload::text) > 1048576 THEN 'needs a payload of at most 1048576 bytes'
        WHEN priority IS NULL OR priority NOT BETWEEN -1000 AND 1000 THEN 'needs a priority between -1000 and 1000'
        WHEN max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND 1000 THEN 'needs 1 to 1000 attempts'
        WHEN jsonb_typeof(headers) <> 'object' OR octet_length(headers::text) > 64000
            THEN 'needs headers that are a JSON object of at most 64000 bytes'
        WHEN EXISTS (SELECT FROM jsonb_object_keys(headers) AS k (name) WHERE starts_with(k.name, 'redrive-'))
            THEN 'cannot have a header whose name starts with redrive-'
        WHEN missed IS NULL OR missed NOT IN ('skip', 'once', 'all') THEN 'needs the policy skip, once or all for missed ticks'
        WHEN missed_ticks IS NULL OR missed_ticks NOT BETWEEN 1 AND 1000 THEN 'needs a limit of 1 to 1000 missed ticks'
        WHEN missed_age IS NULL OR missed_age NOT BETWEEN '1 minute' AND '366 days' THEN 'needs an age of 1 minute to 366 days for missed ticks'
        WHEN overlap IS NULL OR overlap NOT IN ('allow', 'skip') THEN 'needs the overlap allow or skip'
    END;
    IF error IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: a schedule %', error USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN redrive.set_schedule(
        schedule.name, line, CASE WHEN line IS NOT NULL THEN coalesce(zone, 'UTC') END, every, queue, kind,
        payload::text::json, priority, max_attempts, headers, missed, missed_ticks, missed_age, overlap,
        date_trunc('milliseconds', clock_timestamp()) + every, person, reason);
END
$_$;

-- Name: segment_bytes(smallint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.segment_bytes(segment smallint) RETURNS bigint
    LANGUAGE sql STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT redrive.table_bytes(format('redrive.jobs_%s', segment_bytes.segment)::regclass)
$$;

-- Name: segment_of_returned(text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.segment_of_returned(queue text, group_key text, id bigint) RETURNS smallint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (
        SELECT FROM redrive.group_policies p
        WHERE p.queue = segment_of_returned.queue AND p.mode IN ('ordered', 'limit'))
    THEN
        RETURN redrive.entry_segment(segment_of_returned.queue, segment_of_returned.group_key, segment_of_returned.id);
    END IF;
    RETURN (SELECT r.segment FROM redrive.ring r);
END
$$;

-- Name: segment_of_waiting(text, text, bigint, smallint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.segment_of_waiting(queue text, group_key text, id bigint, crashes smallint) RETURNS smallint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF segment_of_waiting.crashes > 0 THEN
        RETURN redrive.segment_of_returned(segment_of_waiting.queue, segment_of_waiting.group_key, segment_of_waiting.id);
    END IF;
    RETURN redrive.entry_segment(segment_of_waiting.queue, segment_of_waiting.group_key, segment_of_waiting.id);
END
$$;

-- Name: send_back(bigint[], jsonb, text, integer, integer, boolean, bigint, bigint[], bigint, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.send_back(ids bigint[], event jsonb, to_queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, max_attempts integer DEFAULT NULL::integer, forced boolean DEFAULT false, run_id bigint DEFAULT NULL::bigint, ordinals bigint[] DEFAULT NULL::bigint[], policy_id bigint DEFAULT NULL::bigint, delay_ms bigint DEFAULT NULL::bigint) RETURNS TABLE(id bigint, ordinal bigint, result text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    SET work_mem TO '32MB'
    AS $$
#variable_conflict use_column
DECLARE
    queues text[];
    counts bigint[];
BEGIN
    -- A run was checked when it was created or approved, a policy when it was set.
    IF EXISTS (SELECT FROM redrive.protections) THEN
        IF EXISTS (SELECT FROM redrive.redrive_runs r WHERE r.id = send_back.run_id AND r.state = 'unapproved') THEN
            RAISE EXCEPTION 'redrive: run % needs an approval', send_back.run_id
                USING ERRCODE = 'object_not_in_prerequisite_state';
        ELSIF send_back.run_id IS NULL AND send_back.policy_id IS NULL THEN
            SELECT array_agg(q.queue), array_agg(q.letters) INTO queues, counts
            FROM (
                SELECT l.queue::text AS queue, count(*) AS letters FROM redrive.dead_letters l
                WHERE l.id = ANY (send_back.ids) GROUP BY 1
            ) q;
            PERFORM redrive.check_allowed(coalesce(queues, '{}')), redrive.check_size(queues, counts);
        END IF;
    END IF;
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT l.id, a.ordinal, l.unique_key, l.died_at, coalesce(send_back.to_queue, l.queue::text) AS queue
        FROM unnest(send_back.ids, send_back.ordinals) AS a (id, ordinal)
        CROSS JOIN LATERAL (
            SELECT d.id, d.unique_key, d.died_at, d.queue
            FROM redrive.dead_letters d
            WHERE d.id = a.id AND (d.state = 'open' OR send_back.forced AND d.state = 'quarantined')
                AND d.payload IS NOT NULL AND (d.redacted IS NULL OR send_back.forced)
            FOR UPDATE SKIP LOCKED
        ) l
    ),
    -- A letter with a unique key takes it again. If a live job holds the key, the letter stays open.
    keyed AS (
        INSERT INTO redrive.unique_keys (queue, key, job_id)
        SELECT h.queue, h.unique_key, h.id
        FROM held h
        WHERE h.unique_key IS NOT NULL
        -- In a fixed order, so that two operators cannot deadlock.
        ORDER BY h.queue, h.unique_key, h.died_at, h.id
        ON CONFLICT DO NOTHING
        RETURNING job_id
    ),
    redriving AS (
        UPDATE redrive.dead_letters l
        SET state = 'redriving', changed_at = clock_timestamp(),
            -- Not coalesce, whose result would be checked against the domain for every letter.
            queue = CASE WHEN send_back.to_queue IS NULL THEN l.queue ELSE send_back.to_queue::redrive.name END,
            run_id = send_back.run_id, run_ordinal = h.ordinal, policy_id = send_back.policy_id,
            events = redrive.add_event(l.events, send_back.event)
        FROM held h
        WHERE l.id = h.id AND (h.unique_key IS NULL OR h.id IN (SELECT k.job_id FROM keyed k))
        RETURNING l.id, h.ordinal, l.queue, l.kind, l.payload, l.priority, l.max_attempts,
                  l.generation, l.enqueued_at, l.unique_key, l.group_key,
                  -- The casts keep PostgreSQL from checking the headers of every letter. A job that is sent back
                  -- does not expire.
                  CASE WHEN l.cause = 'captured' THEN redrive.captured_headers(
                          l.headers - 'redrive-expires-in-ms', l.source, l."position")::redrive.headers
                      WHEN l.headers ? 'redrive-expires-in-ms' THEN
                          (l.headers - 'redrive-expires-in-ms')::redrive.headers
                      ELSE l.headers END AS headers
    ),
    ready AS (
        INSERT INTO redrive.jobs
            (segment, id, enqueued_at, max_attempts, generation, priority, queue, kind, payload, unique_key,
             headers, group_key)
        SELECT CASE WHEN d.group_key IS NULL THEN (SELECT r.segment FROM redrive.ring r)
                    ELSE redrive.redriven_segment(d.queue, d.group_key, d.id) END, d.id, d.enqueued_at,
               coalesce(send_back.max_attempts, d.max_attempts), d.generation + 1,
               coalesce(send_back.priority, d.priority), d.queue, d.kind, d.payload, d.unique_key,
               d.headers, d.group_key
        FROM redriving d
        WHERE send_back.delay_ms IS NULL
        RETURNING queue
    ),
    delayed AS (
        INSERT INTO redrive.jobs_delayed
            (run_at, id, enqueued_at, max_attempts, generation, priority, queue, kind, payload, unique_key,
             headers, group_key)
        SELECT clock_timestamp() + send_back.delay_ms * interval '1 millisecond', d.id, d.enqueued_at,
               coalesce(send_back.max_attempts, d.max_attempts), d.generation + 1,
               coalesce(send_back.priority, d.priority), d.queue, d.kind, d.payload, d.unique_key,
               d.headers, d.group_key
        FROM redriving d
        WHERE send_back.delay_ms IS NOT NULL
    ),
    woken AS MATERIALIZED (
        SELECT redrive.wake(q.queue) FROM (SELECT DISTINCT y.queue FROM ready y) q
    )
    SELECT d.id, d.ordinal, 'sent' FROM redriving d WHERE (SELECT count(*) FROM woken) >= 0
    UNION ALL
    SELECT h.id, h.ordinal, 'conflict' FROM held h
    WHERE h.unique_key IS NOT NULL AND h.id NOT IN (SELECT k.job_id FROM keyed k);
END
$$;

-- Name: redrive_runs; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.redrive_runs (
    id bigint NOT NULL,
    state text DEFAULT 'running'::text NOT NULL COLLATE pg_catalog."C",
    filter jsonb NOT NULL,
    role text DEFAULT SESSION_USER NOT NULL,
    person text,
    reason text,
    forced boolean DEFAULT false NOT NULL,
    to_queue redrive.name,
    priority smallint,
    max_attempts integer,
    delay_ms bigint,
    rate integer,
    canary bigint DEFAULT 0 NOT NULL,
    tolerated smallint DEFAULT 10 NOT NULL,
    sample integer DEFAULT 20,
    stage integer DEFAULT 0 NOT NULL,
    stage_to bigint,
    stage_sent bigint DEFAULT 0 NOT NULL,
    stage_recovered bigint DEFAULT 0 NOT NULL,
    stage_died bigint DEFAULT 0 NOT NULL,
    driver uuid,
    driver_expires_at timestamp with time zone,
    term bigint DEFAULT 0 NOT NULL,
    next_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    cursor bigint DEFAULT 0 NOT NULL,
    sweeps smallint DEFAULT 0 NOT NULL,
    sent bigint DEFAULT 0 NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL,
    recovered bigint DEFAULT 0 NOT NULL,
    died_alike bigint DEFAULT 0 NOT NULL,
    died_differently bigint DEFAULT 0 NOT NULL,
    halted_because text,
    approved_by text,
    approved_role text,
    approved_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT redrive_runs_canary_check CHECK ((canary >= 0)),
    CONSTRAINT redrive_runs_check CHECK (((cursor >= 0) AND (cursor <= total))),
    CONSTRAINT redrive_runs_delay_ms_check CHECK ((delay_ms > 0)),
    CONSTRAINT redrive_runs_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT redrive_runs_priority_check CHECK (((priority >= '-1000'::integer) AND (priority <= 1000))),
    CONSTRAINT redrive_runs_rate_check CHECK (((rate >= 1) AND (rate <= 1000000))),
    CONSTRAINT redrive_runs_sample_check CHECK (((sample >= 1) AND (sample <= 1000000))),
    CONSTRAINT redrive_runs_stage_check CHECK ((stage >= 0)),
    CONSTRAINT redrive_runs_state_check CHECK ((state = ANY (ARRAY['unapproved'::text, 'running'::text, 'paused'::text, 'halted'::text, 'cancelled'::text, 'finished'::text]))),
    CONSTRAINT redrive_runs_tolerated_check CHECK (((tolerated >= 0) AND (tolerated <= 100))),
    CONSTRAINT runs_halted_have_a_cause CHECK (((state = 'halted'::text) <= (halted_because IS NOT NULL))),
    CONSTRAINT runs_with_a_canary_may_halt CHECK (((canary = 0) OR (sample IS NOT NULL)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');

-- Name: COLUMN redrive_runs.role; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.role IS 'The database role of the session that created it.';

-- Name: COLUMN redrive_runs.delay_ms; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.delay_ms IS 'How long a job waits until it is ready, in milliseconds; NULL: not at all.';

-- Name: COLUMN redrive_runs.rate; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.rate IS 'Letters per second; NULL: unlimited.';

-- Name: COLUMN redrive_runs.canary; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.canary IS 'How many letters are sent first, alone; 0: no canary and no ramp.';

-- Name: COLUMN redrive_runs.tolerated; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.tolerated IS 'The percentage of letters that may die again; if more die, the run halts.';

-- Name: COLUMN redrive_runs.sample; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.sample IS 'How many outcomes are needed before the run may halt, except during a canary; NULL: it never halts.';

-- Name: COLUMN redrive_runs.stage_to; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.stage_to IS 'The last member of the stage; NULL: the last one of the run.';

-- Name: COLUMN redrive_runs.stage_sent; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.stage_sent IS 'The value of `sent` when the stage began; likewise the next two.';

-- Name: COLUMN redrive_runs.term; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.term IS 'The fence: it grows with each driver, and only a step of the current term counts.';

-- Name: COLUMN redrive_runs.next_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.next_at IS 'When the next letter is due according to the rate.';

-- Name: COLUMN redrive_runs.cursor; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.cursor IS 'The last member that was tried; of a run in chunks, how many were tried.';

-- Name: COLUMN redrive_runs.sweeps; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.sweeps IS 'How many times locked members were retried.';

-- Name: COLUMN redrive_runs.approved_by; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redrive_runs.approved_by IS 'The second operator, if its size needed an approval.';

-- Name: send_members(redrive.redrive_runs, bigint[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.send_members(r redrive.redrive_runs, ids bigint[], ordinals bigint[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    gone_ids bigint[];
    gone_at  bigint[];
    sent     bigint;
BEGIN
    SELECT coalesce(array_agg(b.id), '{}'), coalesce(array_agg(b.ordinal), '{}')
    INTO gone_ids, gone_at
    FROM redrive.send_back(
        ids, jsonb_strip_nulls(jsonb_build_object(
            'at', clock_timestamp(), 'event', CASE WHEN r.forced THEN 'forced' ELSE 'redriven' END,
            'by', coalesce(r.person, session_user), 'reason', nullif(r.reason, ''),
            'run', r.id, 'queue', r.to_queue)),
        r.to_queue, r.priority, r.max_attempts, r.forced, r.id, ordinals, delay_ms => r.delay_ms) b
    WHERE b.result = 'sent';
    sent := cardinality(gone_ids);
    IF sent < cardinality(ids) THEN
        -- EXCEPT is hashed or sorted; a join of two arrays might use nested loops.
        UPDATE redrive.run_letters m
        SET outcome = 'skipped_' || f.result
        FROM (
            SELECT x.ordinal, (redrive.refused_letters(ARRAY[x.id], r.forced, r.to_queue)).result
            FROM (
                SELECT * FROM unnest(ids, ordinals) AS a (id, ordinal)
                EXCEPT
                SELECT * FROM unnest(gone_ids, gone_at) AS g (id, ordinal)
            ) x
        ) f
        WHERE m.run_id = r.id AND m.ordinal = f.ordinal;
    END IF;
    IF sent > 0 THEN
        PERFORM redrive.record_act('redrive', r.person, r.reason, r.filter, sent, jsonb_build_object('run', r.id));
    END IF;
    RETURN sent;
END
$$;

-- Name: set_group_policy(text, text, integer, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.set_group_policy(queue text, mode text, job_limit integer DEFAULT NULL::integer, on_death text DEFAULT 'continue'::text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM redrive.check_name('queue', set_group_policy.queue);
    IF coalesce(set_group_policy.mode NOT IN ('ordered', 'limit', 'fair', 'none'), true) THEN
        RAISE EXCEPTION 'redrive: the mode is %; it must be ordered, limit, fair or none',
            coalesce(quote_literal(set_group_policy.mode), 'NULL') USING ERRCODE = 'invalid_parameter_value';
    ELSIF (set_group_policy.mode = 'limit') <> (set_group_policy.job_limit IS NOT NULL) THEN
        RAISE EXCEPTION 'redrive: the mode limit needs a job_limit, and no other mode has one'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_group_policy.job_limit NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'redrive: the job_limit is %; it must be between 1 and 1000', set_group_policy.job_limit
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF coalesce(set_group_policy.on_death NOT IN ('continue', 'hold', 'divert'), true) THEN
        RAISE EXCEPTION 'redrive: on_death is %; it must be continue, hold or divert',
            coalesce(quote_literal(set_group_policy.on_death), 'NULL') USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_group_policy.on_death <> 'continue' AND set_group_policy.mode <> 'ordered' THEN
        RAISE EXCEPTION 'redrive: only an ordered group can be held or diverted by a death' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.group_policies AS p (queue, mode, job_limit, on_death)
    VALUES (set_group_policy.queue, set_group_policy.mode, coalesce(set_group_policy.job_limit, 1), set_group_policy.on_death)
    ON CONFLICT ON CONSTRAINT group_policies_pkey DO UPDATE
    SET mode = excluded.mode, job_limit = excluded.job_limit, on_death = excluded.on_death,
        changed_at = excluded.changed_at;
    IF set_group_policy.on_death = 'continue' THEN
        DELETE FROM redrive.group_slots s WHERE s.queue = set_group_policy.queue AND s.held_at IS NOT NULL;
    END IF;
    IF set_group_policy.on_death <> 'divert' THEN
        DELETE FROM redrive.diverted_groups d WHERE d.queue = set_group_policy.queue;
    END IF;
    PERFORM pg_notify('redrive_breaker', 'queue:' || set_group_policy.queue);
    RETURN redrive.record_act('set_group_policy', set_group_policy.person, set_group_policy.reason, NULL, 0,
        jsonb_strip_nulls(jsonb_build_object('queue', set_group_policy.queue, 'mode', set_group_policy.mode,
            'job_limit', set_group_policy.job_limit, 'on_death', set_group_policy.on_death)));
END
$$;

-- Name: set_group_state(bigint, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.set_group_state(group_id bigint, state text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF set_group_state.state IS NULL OR set_group_state.state NOT IN ('open', 'acknowledged', 'resolved', 'ignored') THEN
        RAISE EXCEPTION 'redrive: unknown state % of a failure group; expected open, acknowledged, resolved or ignored',
            coalesce(quote_literal(set_group_state.state), 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Store a regression that is not folded yet, or it would be lost.
    UPDATE redrive.groups g
    SET state = set_group_state.state, regressed_at = f.regressed_at, regressions = f.regressions,
        resolved_at = CASE set_group_state.state WHEN 'resolved' THEN clock_timestamp() ELSE g.resolved_at END
    FROM redrive.failure_groups f
    WHERE g.id = set_group_state.group_id AND f.id = g.id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act(
        CASE set_group_state.state WHEN 'open' THEN 'reopen' WHEN 'acknowledged' THEN 'acknowledge'
                              WHEN 'resolved' THEN 'resolve' ELSE 'ignore' END || '_group',
        person, reason, NULL, 0, jsonb_build_object('group', set_group_state.group_id));
    RETURN true;
END
$$;

-- Name: set_policy(text, jsonb, interval, integer, integer, double precision, interval, integer, integer, boolean, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.set_policy(name text, filter jsonb, every interval, batch integer DEFAULT 50, generations integer DEFAULT 10, growth double precision DEFAULT 1, max_delay interval DEFAULT NULL::interval, from_hour integer DEFAULT NULL::integer, to_hour integer DEFAULT NULL::integer, while_closed boolean DEFAULT true, mode text DEFAULT 'active'::text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    longest_wait interval := coalesce(max_delay, greatest(every, interval '7 days'));
    error   text;
    found_id  bigint;
BEGIN
    PERFORM redrive.check_name('policy', set_policy.name), redrive.filter_letters(set_policy.filter);
    error := CASE
        WHEN set_policy.filter ? 'state' THEN 'redrives open letters; its filter cannot contain a state'
        WHEN every IS NULL OR every NOT BETWEEN '1 second' AND '366 days' THEN 'needs an interval of 1 second to 366 days'
        WHEN batch IS NULL OR batch NOT BETWEEN 1 AND 10000 THEN 'needs a batch of 1 to 10000 letters'
        WHEN generations IS NULL OR generations NOT BETWEEN 1 AND 100000 THEN 'needs a limit of 1 to 100000 generations'
        WHEN growth IS NULL OR growth NOT BETWEEN 1 AND 100 THEN 'needs a growth of 1 to 100'
        WHEN longest_wait < every OR longest_wait > '3660 days' THEN 'needs a max_delay delay between its interval and 3660 days'
        WHEN (from_hour IS NULL) <> (to_hour IS NULL) OR from_hour = to_hour
            OR from_hour NOT BETWEEN 0 AND 23 OR to_hour NOT BETWEEN 0 AND 23
            THEN 'needs two different hours between 0 and 23, or none'
        WHEN while_closed IS NULL THEN 'needs while_closed to be true or false'
        WHEN mode IS NULL OR mode NOT IN ('active', 'dry_run', 'paused') THEN 'needs the mode active, dry_run or paused'
    END;
    IF error IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: a policy %', error USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM redrive.check_allowed(redrive.filter_values(set_policy.filter -> 'queue'));
    INSERT INTO redrive.policies AS p
        (name, filter, every, growth, max_delay, batch, generations, from_hour, to_hour, while_closed, mode)
    VALUES
        (set_policy.name, set_policy.filter, set_policy.every, set_policy.growth, longest_wait, set_policy.batch,
         set_policy.generations, set_policy.from_hour, set_policy.to_hour, set_policy.while_closed, set_policy.mode)
    ON CONFLICT ON CONSTRAINT policies_name_key DO UPDATE
    SET filter = excluded.filter, every = excluded.every, growth = excluded.growth,
        max_delay = excluded.max_delay, batch = excluded.batch, generations = excluded.generations,
        from_hour = excluded.from_hour, to_hour = excluded.to_hour,
        while_closed = excluded.while_closed, mode = excluded.mode,
        next_at = least(p.next_at, clock_timestamp() + excluded.every)
    RETURNING p.id INTO found_id;
    PERFORM redrive.record_act(
        'set_policy', person, reason, set_policy.filter, 0, jsonb_build_object(
            'policy', set_policy.name, 'mode', set_policy.mode, 'every', set_policy.every,
            'batch', set_policy.batch, 'generations', set_policy.generations, 'growth', set_policy.growth,
            'max_delay', longest_wait, 'from_hour', set_policy.from_hour, 'to_hour', set_policy.to_hour,
            'while_closed', set_policy.while_closed));
    RETURN found_id;
END
$$;

-- Name: set_policy_mode(text, text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.set_policy_mode(name text, mode text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    filter jsonb;
BEGIN
    IF set_policy_mode.mode IS NULL OR set_policy_mode.mode NOT IN ('active', 'dry_run', 'paused') THEN
        RAISE EXCEPTION 'redrive: a policy needs the mode active, dry_run or paused' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE redrive.policies p SET mode = set_policy_mode.mode
    WHERE p.name = set_policy_mode.name
    RETURNING p.filter INTO filter;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF set_policy_mode.mode = 'active' THEN
        PERFORM redrive.check_allowed(redrive.filter_values(filter -> 'queue'));
    END IF;
    PERFORM redrive.record_act('set_policy_mode', person, reason, filter, 0, jsonb_build_object(
        'policy', set_policy_mode.name, 'mode', set_policy_mode.mode));
    RETURN true;
END
$$;

-- Name: set_protection(text, bigint, text[], boolean, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.set_protection(queue text, approve_above bigint DEFAULT NULL::bigint, roles text[] DEFAULT NULL::text[], other_role boolean DEFAULT false, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    unknown text := (
        SELECT min(r.name) FROM unnest(roles) AS r (name)
        WHERE NOT EXISTS (SELECT FROM pg_roles k WHERE k.rolname = r.name));
BEGIN
    PERFORM redrive.check_name('queue', set_protection.queue);
    IF unknown IS NOT NULL OR approve_above < 0 OR approve_above IS NULL AND coalesce(cardinality(roles), 0) = 0 THEN
        RAISE EXCEPTION 'redrive: a protection needs roles that exist or a number of letters, not %', coalesce(unknown, approve_above::text, 'nothing')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.protections (queue, approve_above, roles, other_role)
    VALUES (set_protection.queue, set_protection.approve_above, nullif(set_protection.roles, '{}'), set_protection.other_role)
    ON CONFLICT ON CONSTRAINT protections_pkey DO UPDATE
    SET approve_above = excluded.approve_above, roles = excluded.roles, other_role = excluded.other_role;
    PERFORM redrive.record_act('protect_queue', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'queue', set_protection.queue, 'approve_above', set_protection.approve_above, 'roles', set_protection.roles,
        'other_role', nullif(set_protection.other_role, false))));
END
$$;

-- Name: set_rate_limit(text, integer, interval, integer, text, boolean, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.set_rate_limit(queue text, starts integer, period interval DEFAULT '00:00:01'::interval, burst integer DEFAULT NULL::integer, kind text DEFAULT NULL::text, each_group boolean DEFAULT false, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    old redrive.rate_limits;
    new redrive.rate_limits;
BEGIN
    PERFORM redrive.check_name('queue', set_rate_limit.queue);
    IF set_rate_limit.kind IS NOT NULL THEN
        PERFORM redrive.check_name('kind', set_rate_limit.kind);
    END IF;
    IF set_rate_limit.each_group IS NULL THEN
        RAISE EXCEPTION 'redrive: each_group is NULL; it must be true or false' USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_rate_limit.each_group AND set_rate_limit.kind IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: a rate limit of each group has no kind' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF set_rate_limit.starts IS NULL OR set_rate_limit.starts NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'redrive: the rate limit allows % starts; it must allow 1 to 1000000', coalesce(set_rate_limit.starts::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'To stop all jobs, pause the queue.';
    ELSIF set_rate_limit.period IS NULL OR set_rate_limit.period NOT BETWEEN '1 millisecond' AND '31 days' THEN
        RAISE EXCEPTION 'redrive: the period is %; it must be from 1 millisecond to 31 days', coalesce(set_rate_limit.period::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_rate_limit.burst NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'redrive: the burst is %; it must be 1 to 1000000', set_rate_limit.burst
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
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
        INSERT INTO redrive.group_policies AS p (queue, mode, job_limit, on_death, is_rate_limited)
        VALUES (new.queue, 'none', 1, 'continue', true)
        ON CONFLICT ON CONSTRAINT group_policies_pkey DO UPDATE
        SET is_rate_limited = true;
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
    PERFORM pg_notify('redrive_breaker', 'queue:' || new.queue);
    RETURN redrive.record_act('set_rate_limit', set_rate_limit.person, set_rate_limit.reason, NULL, 0,
        jsonb_build_object('queue', new.queue, 'kind', set_rate_limit.kind, 'each_group', new.each_group, 'starts', new.starts,
            'period', new.period, 'burst', new.burst));
END
$$;

-- Name: set_retention(text, text, interval, text, boolean, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.set_retention(queue text, state text, keep interval, action text DEFAULT 'delete'::text, even_open boolean DEFAULT false, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    waits  boolean := set_retention.state IN ('open', 'quarantined');
    set_id bigint;
BEGIN
    IF set_retention.queue IS NOT NULL THEN
        PERFORM redrive.check_name('queue', set_retention.queue);
    END IF;
    IF set_retention.state IS NULL OR set_retention.state NOT IN ('open', 'quarantined', 'recovered', 'discarded') THEN
        RAISE EXCEPTION 'redrive: retention needs the state open, quarantined, recovered or discarded'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.keep IS NULL OR set_retention.keep NOT BETWEEN '0' AND '36600 days' THEN
        RAISE EXCEPTION 'redrive: letters can be kept for 0 to 36600 days'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.action IS NULL OR set_retention.action NOT IN ('delete', 'archive') THEN
        RAISE EXCEPTION 'redrive: retention needs the action delete or archive' USING ERRCODE = 'invalid_parameter_value';
    ELSIF set_retention.action = 'delete' AND waits AND NOT coalesce(set_retention.even_open, false) THEN
        RAISE EXCEPTION 'redrive: % letters wait for an operator; archive them, or set even_open to delete them',
            set_retention.state USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.retention AS r (queue, state, keep, action, even_open)
    VALUES (set_retention.queue, set_retention.state, set_retention.keep, set_retention.action,
            set_retention.action = 'delete' AND waits)
    ON CONFLICT (coalesce(queue::text, ''), state) DO UPDATE
    SET keep = excluded.keep, action = excluded.action, even_open = excluded.even_open
    RETURNING r.id INTO set_id;
    PERFORM redrive.record_act(
        'set_retention', person, reason,
        jsonb_strip_nulls(jsonb_build_object('queue', set_retention.queue, 'state', set_retention.state)), 0,
        jsonb_build_object('keep', set_retention.keep, 'action', set_retention.action));
    RETURN set_id;
END
$$;

-- Name: set_schedule(text, text, text, interval, text, text, json, integer, integer, jsonb, text, integer, interval, text, timestamp with time zone, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.set_schedule(name text, cron text, zone text, every interval, queue text, kind text, payload json, priority integer, max_attempts integer, headers jsonb, missed text, missed_ticks integer, missed_age interval, overlap text, next_at timestamp with time zone, person text DEFAULT NULL::text, reason text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    result text;
BEGIN
    PERFORM redrive.check_name('schedule', set_schedule.name), redrive.check_name('queue', set_schedule.queue),
            redrive.check_name('kind', set_schedule.kind);
    INSERT INTO redrive.schedules AS s
        (name, cron, zone, every, queue, kind, payload, priority, max_attempts, headers, missed, missed_ticks,
         missed_age, overlap, next_at)
    VALUES (set_schedule.name, set_schedule.cron, set_schedule.zone, set_schedule.every, set_schedule.queue,
            set_schedule.kind, set_schedule.payload, set_schedule.priority, set_schedule.max_attempts,
            set_schedule.headers, set_schedule.missed, set_schedule.missed_ticks, set_schedule.missed_age,
            set_schedule.overlap, set_schedule.next_at)
    ON CONFLICT ON CONSTRAINT schedules_pkey DO UPDATE
    SET cron = excluded.cron, zone = excluded.zone, every = excluded.every, queue = excluded.queue,
        kind = excluded.kind, payload = excluded.payload, priority = excluded.priority,
        max_attempts = excluded.max_attempts, headers = excluded.headers, missed = excluded.missed,
        missed_ticks = excluded.missed_ticks, missed_age = excluded.missed_age, overlap = excluded.overlap,
        next_at = CASE WHEN (s.cron, s.zone, s.every) IS DISTINCT FROM (excluded.cron, excluded.zone, excluded.every)
                       THEN excluded.next_at ELSE s.next_at END,
        version = s.version + 1, retry_at = NULL, last_error = NULL, changed_at = clock_timestamp()
    WHERE (s.cron, s.zone, s.every, s.queue, s.kind, s.payload::text, s.priority, s.max_attempts, s.headers, s.missed,
           s.missed_ticks, s.missed_age, s.overlap)
        IS DISTINCT FROM
          (excluded.cron, excluded.zone, excluded.every, excluded.queue, excluded.kind, excluded.payload::text,
           excluded.priority, excluded.max_attempts, excluded.headers, excluded.missed, excluded.missed_ticks,
           excluded.missed_age, excluded.overlap)
    RETURNING CASE s.version WHEN 1 THEN 'created' ELSE 'changed' END INTO result;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    PERFORM redrive.record_act('set_schedule', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'schedule', set_schedule.name, 'result', result, 'cron', set_schedule.cron, 'zone', set_schedule.zone,
        'every', set_schedule.every, 'queue', set_schedule.queue, 'kind', set_schedule.kind,
        'missed', set_schedule.missed, 'overlap', set_schedule.overlap)));
    PERFORM pg_notify('redrive_schedule', '');
    RETURN result;
END
$$;

-- Name: settle_event(bigint, text, timestamp with time zone, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.settle_event(event_id bigint, verdict text, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, error_message text DEFAULT NULL::text, error_detail text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held   redrive.leases;
    job    redrive.leased_job;
    worker redrive.workers;
    told   text := settle_event.verdict;
    death  text := 'rejected';
    class  text;
    ran_ms bigint;
    attempt_record jsonb;
BEGIN
    DELETE FROM redrive.leases l WHERE l.lease_id = redrive.event_lease(event_id) RETURNING l.* INTO held;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT j.* INTO job FROM redrive.jobs_of(held) j;
    SELECT w.* INTO worker FROM redrive.workers w WHERE w.worker_id = held.worker_id;
    IF told IN ('retry', 'release') AND event_id = ANY (held.cancelled) THEN
        told := 'dead';
        death := 'manual';
    -- The consumer decides how often it retries, up to the greatest maximum that a job can have.
    ELSIF told = 'retry' AND job.attempt >= 1000 THEN
        told := 'dead';
        death := 'exhausted';
    END IF;
    IF told IN ('done', 'dead') THEN
        DELETE FROM redrive.unique_keys k WHERE k.job_id = event_id;
    END IF;
    IF told = 'done' AND job.group_key IS NOT NULL THEN
        PERFORM redrive.free_slots(ARRAY[event_id], '{}');
    END IF;
    IF told = 'done' THEN
        UPDATE redrive.dead_letters l SET state = 'recovered', changed_at = clock_timestamp()
        WHERE l.id = event_id AND l.state || '' = 'redriving';
        INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, counts)
        SELECT m.segment, held.queue, '{succeeded}', ARRAY[job.kind], '{1}' FROM redrive.metric_ring m;
        RETURN true;
    END IF;
    SELECT l.error_class INTO class FROM redrive.dead_letters l WHERE l.id = event_id;
    class := coalesce(class, job.history -> -1 ->> 'error_class', 'failed');
    ran_ms := greatest(extract(epoch FROM clock_timestamp() - held.claimed_at) * 1000, 0);
    attempt_record := jsonb_build_object(
        'generation', job.generation, 'attempt', job.attempt, 'outcome', CASE told WHEN 'dead' THEN death ELSE 'failed' END,
        'run_ms', ran_ms, 'error_class', class, 'error_message', left(settle_event.error_message, 1000),
        'worker', held.worker_id, 'host', worker.host, 'version', worker.version, 'pid', worker.pid,
        'ended_at', clock_timestamp());
    IF told = 'dead' THEN
        INSERT INTO redrive.dead_letters
            (id, queue, kind, cause, error_class, error_message, error_detail, payload, raw, priority, attempts,
             max_attempts, generation, crashes, history, worker_id, host, version, enqueued_at, unique_key, pid, run_ms,
             headers, group_key)
        SELECT job.id, held.queue, job.kind, death, class, redrive.clip(coalesce(settle_event.error_message, ''), 8192),
               redrive.clip(settle_event.error_detail, 65536), p.payload, p.raw, job.priority, job.attempt, job.max_attempts,
               job.generation, job.crashes, redrive.history_before(job.history, attempt_record - 'ended_at'), held.worker_id,
               worker.host, worker.version, job.enqueued_at, job.unique_key, worker.pid, least(ran_ms, 2147483647),
               job.headers, job.group_key
        FROM redrive.letter_payload(job.payload) p
        ON CONFLICT (id) DO UPDATE
        SET state = 'open', cause = excluded.cause, error_class = excluded.error_class,
            error_message = excluded.error_message, error_detail = excluded.error_detail,
            payload = excluded.payload, raw = coalesce(excluded.raw, dead_letters.raw),
            priority = excluded.priority, attempts = excluded.attempts,
            max_attempts = excluded.max_attempts, generation = excluded.generation,
            crashes = excluded.crashes, history = excluded.history, worker_id = excluded.worker_id,
            host = excluded.host, version = excluded.version, discard_reason = NULL,
            failure_key = excluded.failure_key, unique_key = excluded.unique_key, headers = excluded.headers,
            group_key = excluded.group_key, pid = excluded.pid, run_ms = excluded.run_ms,
            group_id = excluded.group_id, detail_id = excluded.detail_id,
            died_at = excluded.died_at, changed_at = excluded.changed_at;
    ELSE
        INSERT INTO redrive.jobs_delayed
            (run_at, id, enqueued_at, attempt, max_attempts, generation, priority, crashes, refunds, queue, kind, payload,
             history, unique_key, headers, group_key)
        VALUES (coalesce(settle_event.run_at, clock_timestamp()), job.id, job.enqueued_at,
                job.attempt - CASE told WHEN 'release' THEN 1 ELSE 0 END,
                greatest(job.max_attempts, job.attempt + 1), job.generation, job.priority, 0, job.refunds, held.queue,
                job.kind, job.payload,
                CASE told WHEN 'release' THEN job.history ELSE redrive.add_attempt(job.history, attempt_record) END,
                job.unique_key, job.headers, job.group_key);
        IF job.group_key IS NOT NULL THEN
            PERFORM redrive.free_slots('{}', ARRAY[event_id]);
        END IF;
    END IF;
    INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, causes, counts)
    SELECT m.segment, held.queue, array_agg(c.key), array_agg(c.label), array_agg(c.cause), array_agg(1::bigint)
    FROM redrive.metric_ring m
    CROSS JOIN (VALUES
        (CASE told WHEN 'dead' THEN 'ended' WHEN 'release' THEN 'released' ELSE 'retried' END, NULL, NULL),
        ('failed', job.kind, CASE told WHEN 'dead' THEN 'rejected' ELSE 'error' END)
    ) AS c (key, label, cause)
    WHERE c.key <> 'failed' OR told <> 'release' AND death <> 'manual'
    GROUP BY m.segment;
    RETURN true;
END
$$;

-- Name: settle_own(uuid, bigint, integer, text, integer, smallint, double precision, smallint, timestamp with time zone); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.settle_own(lease uuid, job bigint, generation integer, kind text, attempt integer, attempts_bucket smallint, wait double precision, wait_bucket smallint, born_at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    ended text;
BEGIN
    -- If the worker's host vanishes, the server ends the transaction, with its lock on the lease; see
    -- db/session.rs.
    PERFORM set_config('tcp_keepalives_idle', '30s', true),
            set_config('tcp_keepalives_interval', '10s', true),
            set_config('tcp_keepalives_count', '3', true),
            set_config('tcp_user_timeout', '60s', true);
    DELETE FROM redrive.leases l WHERE l.lease_id = settle_own.lease RETURNING l.queue INTO ended;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- The trigger count_own_run counts the handler's duration when the transaction commits.
    INSERT INTO redrive.metric_deltas (segment, queue, began_at, born_at, keys, labels, buckets, counts, sums)
    SELECT m.segment, ended, clock_timestamp(), settle_own.born_at, '{succeeded,attempts_done,wait}',
           ARRAY[settle_own.kind, NULL, NULL],
           ARRAY[NULL, settle_own.attempts_bucket, settle_own.wait_bucket],
           '{1,1,1}', ARRAY[NULL, settle_own.attempt, settle_own.wait]
    FROM redrive.metric_ring m;
    -- An update of no row runs the triggers too.
    IF settle_own.generation > 0 THEN
        -- The expression on the state rules out an index on it; see settle.sql.
        UPDATE redrive.dead_letters l
        SET state = 'recovered', changed_at = clock_timestamp()
        WHERE l.id = settle_own.job AND l.state || '' = 'redriving';
    END IF;
    RETURN true;
END
$$;

-- Name: shortened(text, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.shortened(value text, longest integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN (length(value) <= longest) THEN value
             ELSE (("left"(value, (longest - 33)) || '~'::text) || md5(value))
         END AS "case";
END;

-- Name: some_jobs_of(redrive.leases, bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.some_jobs_of(lease redrive.leases, wanted bigint[]) RETURNS SETOF redrive.leased_job
    LANGUAGE sql STABLE ROWS 100 PARALLEL SAFE
    BEGIN ATOMIC
 SELECT p.id,
     (some_jobs_of.lease).kinds[p.n] AS kinds,
     COALESCE((some_jobs_of.lease).priorities[p.n], (0)::smallint) AS "coalesce",
     (some_jobs_of.lease).payloads[p.n] AS payloads,
     COALESCE((some_jobs_of.lease).attempts[p.n], 1) AS "coalesce",
     COALESCE((some_jobs_of.lease).max_attempts[p.n], 5) AS "coalesce",
     COALESCE((some_jobs_of.lease).generations[p.n], 0) AS "coalesce",
     COALESCE((some_jobs_of.lease).crashes[p.n], (0)::smallint) AS "coalesce",
     COALESCE((some_jobs_of.lease).refunds[p.n], (0)::smallint) AS "coalesce",
     (some_jobs_of.lease).enqueued_at[p.n] AS enqueued_at,
     (some_jobs_of.lease).histories[p.n] AS histories,
     (some_jobs_of.lease).unique_keys[p.n] AS unique_keys,
     (some_jobs_of.lease).outages_since[p.n] AS outages_since,
     (some_jobs_of.lease).headers[p.n] AS headers,
     (some_jobs_of.lease).group_keys[p.n] AS group_keys
    FROM ( SELECT i.id,
             (i.n)::integer AS n
            FROM unnest((some_jobs_of.lease).ids) WITH ORDINALITY i(id, n)) p
   WHERE (((cardinality(some_jobs_of.wanted) * 8) < (some_jobs_of.lease).job_count) AND (p.id = ANY (some_jobs_of.wanted)))
 UNION ALL
  SELECT j.id,
     j.kind,
     j.priority,
     j.payload,
     j.attempt,
     j.max_attempts,
     j.generation,
     j.crashes,
     j.refunds,
     j.enqueued_at,
     j.history,
     j.unique_key,
     j.outage_since,
     j.headers,
     j.group_key
    FROM redrive.jobs_of(some_jobs_of.lease) j(id, kind, priority, payload, attempt, max_attempts, generation, crashes, refunds, enqueued_at, history, unique_key, outage_since, headers, group_key)
   WHERE ((cardinality(some_jobs_of.wanted) * 8) >= (some_jobs_of.lease).job_count);
END;

-- Name: still_redacted(text[], jsonb, jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.still_redacted(redacted text[], before jsonb, after jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT nullif(ARRAY(
        SELECT r.pointer FROM unnest($1) AS r (pointer)
        WHERE CASE r.pointer
            WHEN '' THEN $3 IS NULL
            ELSE EXISTS (
                SELECT FROM redrive.pointer_paths($2, redrive.pointer_parts(r.pointer)) AS p (path)
                WHERE $3 #> p.path = $2 #> p.path)
            END
    ), '{}')
$_$;

-- Name: table_bytes(regclass); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.table_bytes(heap regclass) RETURNS bigint
    LANGUAGE sql STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pg_relation_size(c.oid) + coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0)
    FROM pg_class c
    WHERE c.oid = table_bytes.heap
$$;

-- Name: table_holders(regclass); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.table_holders(heap regclass) RETURNS text[]
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT coalesce(array_agg(l.virtualtransaction), '{}')
    FROM pg_locks l
    JOIN pg_class c ON l.relation IN (c.oid, c.reltoastrelid)
    WHERE c.oid = table_holders.heap
        AND l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
$$;

-- Name: take_group_tokens(text, text[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.take_group_tokens(queue text, group_keys text[], job_ids bigint[]) RETURNS TABLE(job_id bigint, is_granted boolean, taken_us bigint, hold_us bigint, wait_us bigint)
    LANGUAGE plpgsql STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
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
        RETURN QUERY SELECT j.id, true, 0::bigint, NULL::bigint, 0::bigint FROM unnest(job_ids) AS j (id);
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
           (extract(epoch FROM now - statement_timestamp()) * 1e6)::bigint,
           floor(redrive.token_hold(a_limit) * 1e6)::bigint - 2,
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

-- Name: take_jobs(smallint, tid[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.take_jobs(segment smallint, tids tid[]) RETURNS SETOF redrive.jobs
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    CASE segment
        WHEN 0 THEN RETURN QUERY DELETE FROM redrive.jobs_0 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 1 THEN RETURN QUERY DELETE FROM redrive.jobs_1 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 2 THEN RETURN QUERY DELETE FROM redrive.jobs_2 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 3 THEN RETURN QUERY DELETE FROM redrive.jobs_3 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 4 THEN RETURN QUERY DELETE FROM redrive.jobs_4 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 5 THEN RETURN QUERY DELETE FROM redrive.jobs_5 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 6 THEN RETURN QUERY DELETE FROM redrive.jobs_6 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 7 THEN RETURN QUERY DELETE FROM redrive.jobs_7 j WHERE j.ctid = ANY (tids) RETURNING j.*;
        WHEN 8 THEN RETURN QUERY DELETE FROM redrive.jobs_waiting j WHERE j.ctid = ANY (tids) RETURNING j.*;
    END CASE;
END
$$;

-- Name: take_keys(text, text[], bigint[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.take_keys(queue text, keys text[], ids bigint[], windows bigint[] DEFAULT NULL::bigint[]) RETURNS TABLE(key text, job_id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    wanted record;
BEGIN
    -- In the order of the keys, so that two callers cannot deadlock.
    FOR wanted IN
        SELECT DISTINCT ON (n.key COLLATE "C") n.key, n.id, n.window_ms
        FROM unnest(take_keys.keys, take_keys.ids, take_keys.windows) AS n (key, id, window_ms)
        ORDER BY n.key COLLATE "C", n.id
    LOOP
        take_keys.key := wanted.key;
        LOOP
            IF wanted.window_ms IS NOT NULL THEN
                SELECT coalesce(k.job_id, w.job_id) INTO take_keys.job_id
                FROM redrive.unique_windows w
                LEFT JOIN redrive.unique_keys k ON k.queue = w.queue AND k.key = w.key
                WHERE w.queue = take_keys.queue AND w.key = wanted.key AND w.ends_at > clock_timestamp();
                EXIT WHEN FOUND;
            END IF;
            INSERT INTO redrive.unique_keys AS k (queue, key, job_id)
            VALUES (take_keys.queue, wanted.key, wanted.id)
            ON CONFLICT ON CONSTRAINT unique_keys_pkey DO NOTHING
            RETURNING k.job_id INTO take_keys.job_id;
            IF FOUND THEN
                EXIT WHEN wanted.window_ms IS NULL
                    OR redrive.open_window(take_keys.queue, wanted.key, wanted.id, wanted.window_ms);
                CONTINUE;
            END IF;
            SELECT k.job_id INTO take_keys.job_id
            FROM redrive.unique_keys k
            WHERE k.queue = take_keys.queue AND k.key = wanted.key;
            EXIT WHEN FOUND;
        END LOOP;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Name: take_run(bigint, uuid, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.take_run(wanted bigint, new_driver uuid, lease_ms integer, OUT id bigint, OUT term bigint) RETURNS record
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    UPDATE redrive.redrive_runs r
    SET driver = new_driver, term = r.term + 1,
        driver_expires_at = clock_timestamp() + lease_ms * interval '1 millisecond'
    WHERE r.id = (
        SELECT c.id FROM redrive.redrive_runs c
        WHERE c.state = 'running' AND (wanted IS NULL OR c.id = wanted)
            AND (c.driver IS NULL OR c.driver = new_driver OR c.driver_expires_at < statement_timestamp())
        ORDER BY c.next_at, c.id
        LIMIT 1
        FOR UPDATE SKIP LOCKED)
    RETURNING r.id, r.term
$$;

-- Name: take_slot(text, text, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.take_slot(queue text, group_key text, id bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    policy redrive.group_policies;
BEGIN
    SELECT p.* INTO policy FROM redrive.group_policies p WHERE p.queue = take_slot.queue AND p.mode IN ('ordered', 'limit');
    IF NOT FOUND OR EXISTS (SELECT FROM redrive.group_slots s WHERE s.job_id = take_slot.id) THEN
        RETURN true;
    ELSIF policy.mode = 'ordered' AND EXISTS (
        SELECT FROM redrive.jobs_waiting j
        WHERE j.queue = take_slot.queue AND j.group_key = take_slot.group_key AND j.id < take_slot.id)
    THEN
        RETURN false;
    END IF;
    INSERT INTO redrive.group_slots (queue, group_key, slot, job_id)
    SELECT take_slot.queue, take_slot.group_key, n.slot, take_slot.id
    FROM generate_series(1, policy.job_limit) AS n (slot)
    WHERE policy.job_limit > (
            SELECT count(*) FROM redrive.group_slots s
            WHERE s.queue = take_slot.queue AND s.group_key = take_slot.group_key)
        AND NOT EXISTS (
            SELECT FROM redrive.group_slots s
            WHERE s.queue = take_slot.queue AND s.group_key = take_slot.group_key AND s.slot = n.slot)
    ORDER BY n.slot
    LIMIT 1
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

-- Name: take_slots(text, text[], smallint[], bigint[]); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.take_slots(queue text, group_keys text[], slots smallint[], job_ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    -- Checked once, not for each row.
    checked redrive.name := take_slots.queue;
    taken   bigint[];
BEGIN
    -- In a fixed order, so that two claims cannot deadlock.
    INSERT INTO redrive.group_slots (queue, group_key, slot, job_id)
    SELECT checked, t.group_key, t.slot, t.job_id
    FROM unnest(take_slots.group_keys, take_slots.slots, take_slots.job_ids) AS t (group_key, slot, job_id)
    ORDER BY t.group_key COLLATE "C", t.slot;
    RETURN take_slots.job_ids;
EXCEPTION WHEN unique_violation THEN
    WITH inserted AS (
        INSERT INTO redrive.group_slots AS s (queue, group_key, slot, job_id)
        SELECT checked, t.group_key, t.slot, t.job_id
        FROM unnest(take_slots.group_keys, take_slots.slots, take_slots.job_ids) AS t (group_key, slot, job_id)
        ORDER BY t.group_key COLLATE "C", t.slot
        ON CONFLICT DO NOTHING
        RETURNING s.job_id
    )
    SELECT array_agg(i.job_id) INTO taken FROM inserted i;
    RETURN taken;
END
$$;

-- Name: take_waiting(jsonb, jsonb, jsonb, bigint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.take_waiting(filter jsonb, place jsonb, last_place jsonb, max_jobs bigint) RETURNS SETOF redrive.waiting_job
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    each_state text;
    query      text;
BEGIN
    FOREACH each_state IN ARRAY '{delayed,ready}'::text[] LOOP
        query := redrive.waiting_query(filter, each_state);
        CONTINUE WHEN query IS NULL OR each_state = 'delayed' AND place ->> 'state' = 'ready'
            OR each_state <> last_place ->> 'state';
        RETURN QUERY EXECUTE 'WITH w AS MATERIALIZED (' || query || ' FOR UPDATE SKIP LOCKED), gone AS (DELETE FROM '
            || CASE each_state
                WHEN 'delayed' THEN 'redrive.jobs_delayed j USING w WHERE j.ctid = w.tid'
                    ' RETURNING w.place, j.id, j.run_at::timestamptz, '
                ELSE 'redrive.jobs j USING w WHERE j.ctid = w.tid AND j.segment = w.segment'
                    ' RETURNING w.place, j.id, j.ready_at, ' END
            || 'j.enqueued_at, j.attempt::integer, j.max_attempts::integer, j.generation::integer,'
            ' j.priority::smallint, j.crashes::smallint, j.refunds::smallint, j.queue::text, j.kind::text, j.payload,'
            ' j.history, j.unique_key, j.outage_since, j.headers::jsonb, j.group_key::text)'
            ' SELECT g.* FROM gone g ORDER BY '
            || CASE each_state WHEN 'delayed' THEN 'g.id' ELSE 'g.queue, (g.generation > 0)::integer - 2 * g.priority, g.id' END
            USING filter, CASE WHEN place ->> 'state' = each_state THEN place END, last_place, max_jobs;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- Name: tally_added_letters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.tally_added_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    -- The bounds negated and reversed, because width_bucket counts a value on a bound above it, and it
    -- belongs below.
    mirrored double precision[] := ARRAY(
        SELECT -b FROM redrive.counter_keys w CROSS JOIN unnest(w.bounds) b
        WHERE w.key = 'attempts_dead' ORDER BY 1);
BEGIN
    INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, buckets, counts, sums)
    SELECT r.segment, c.queue, array_agg(c.key), array_agg(c.label), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT g.queue, x.key, x.label, x.bucket, sum(g.count)::bigint AS count, sum(x.sum) AS sum
        FROM (
            SELECT a.queue::text AS queue, a.kind::text AS kind, a.state, a.cause,
                   left(a.error_class, 200) AS class, count(*) AS count, sum(a.attempts) AS attempts,
                   CASE WHEN a.cause <> 'captured'
                       THEN cardinality(mirrored) - width_bucket(-a.attempts::double precision, mirrored)
                   END AS bucket,
                   -- The deaths of a letter from the archive were counted when it died.
                   a.events -> -1 ->> 'event' IS NOT DISTINCT FROM 'restored' AS is_restored,
                   CASE WHEN a.cause = 'captured' THEN a.source END AS source
            FROM added a
            GROUP BY 1, 2, 3, 4, 5, 8, 9, 10
        ) g
        CROSS JOIN LATERAL (VALUES
            ('letters', g.state, NULL::smallint, NULL::double precision),
            ('dead', g.cause, NULL, NULL),
            ('dead_kind', g.kind, NULL, NULL),
            ('dead_class', g.class, NULL, NULL),
            ('captured', g.source, NULL, NULL),
            ('attempts_dead', NULL, g.bucket::smallint, g.attempts::double precision)
        ) AS x (key, label, bucket, sum)
        WHERE (x.label IS NOT NULL OR x.bucket IS NOT NULL) AND (x.key = 'letters' OR NOT g.is_restored)
        GROUP BY 1, 2, 3, 4
    ) c
    CROSS JOIN redrive.metric_ring r
    GROUP BY r.segment, c.queue;
    RETURN NULL;
END
$$;

-- Name: tally_changed_letters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.tally_changed_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    lowest   text;
    highest  text;
    mirrored double precision[];
    moment   timestamptz := clock_timestamp();
    -- A letter that died after the first of these stayed for less than the first bound, and so on.
    borders  timestamptz[];
BEGIN
    SELECT min(b.state), max(b.state) INTO lowest, highest FROM became b;
    IF highest IS NULL THEN
        RETURN NULL;
    END IF;
    borders := ARRAY(
        SELECT moment - b * interval '1 second'
        FROM redrive.counter_keys w CROSS JOIN unnest(w.bounds) b
        WHERE w.key = 'residence' ORDER BY 1);
    -- Redrive, recovery and discard move all their letters into one state without a death, so old and
    -- new rows can be counted separately, without a join.
    IF lowest = highest AND highest IN ('redriving', 'recovered', 'discarded') THEN
        INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, buckets, counts, sums)
        SELECT r.segment, c.queue, array_agg(c.key), array_agg(c.label), array_agg(c.bucket),
               array_agg(c.count), array_agg(c.sum)
        FROM (
            SELECT x.queue, x.key, x.label, x.bucket, sum(x.count)::bigint AS count, sum(x.sum) AS sum
            FROM (
                SELECT 'letters' AS key, w.queue, w.state AS label, NULL::smallint AS bucket,
                       -w.count AS count, NULL::double precision AS sum
                FROM (SELECT o.queue::text AS queue, o.state, count(*) AS count FROM was o GROUP BY 1, 2) w
                UNION ALL
                SELECT y.key, b.queue, y.label, NULL, y.sign * b.count, NULL
                FROM (SELECT n.queue::text AS queue, count(*) AS count FROM became n GROUP BY 1) b
                -- A letter that was sent back is a live job again.
                CROSS JOIN (VALUES ('letters', highest, 1), ('returned', NULL, 1)) AS y (key, label, sign)
                WHERE y.key <> 'returned' OR highest = 'redriving'
                UNION ALL
                -- Letters that were `redriving` before do not count as returned.
                SELECT 'returned', o.queue::text, NULL, NULL, -count(*), NULL
                FROM was o
                WHERE highest = 'redriving' AND o.state = 'redriving'
                GROUP BY 2
                UNION ALL
                SELECT z.key, l.queue, z.label, z.bucket, l.count, z.sum
                FROM (
                    SELECT o.queue::text AS queue,
                           (cardinality(borders) - width_bucket(o.died_at, borders))::smallint AS bucket,
                           count(*) AS count, sum(moment - o.died_at) AS age
                    FROM was o
                    WHERE o.state <> highest
                    GROUP BY 1, 2
                ) l
                CROSS JOIN LATERAL (VALUES
                    (CASE highest WHEN 'redriving' THEN 'redriven' ELSE highest END,
                     NULL::text, NULL::smallint, NULL::double precision),
                    ('residence', CASE highest WHEN 'redriving' THEN 'redriven' ELSE 'discarded' END,
                     l.bucket, date_part('epoch', l.age))
                ) AS z (key, label, bucket, sum)
                WHERE z.key <> 'residence' OR highest <> 'recovered'
            ) x
            GROUP BY 1, 2, 3, 4
            HAVING sum(x.count) <> 0
        ) c
        CROSS JOIN redrive.metric_ring r
        GROUP BY r.segment, c.queue;
        RETURN NULL;
    END IF;

    mirrored := ARRAY(
        SELECT -b FROM redrive.counter_keys w CROSS JOIN unnest(w.bounds) b
        WHERE w.key = 'attempts_dead' ORDER BY 1);
    INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, buckets, counts, sums)
    SELECT r.segment, c.queue, array_agg(c.key), array_agg(c.label), array_agg(c.bucket),
           array_agg(c.count), array_agg(c.sum)
    FROM (
        SELECT x.queue, x.key, x.label, x.bucket, sum(x.sign * g.count)::bigint AS count, sum(x.sum) AS sum
        FROM (
            SELECT was.queue::text AS old_queue, was.state AS old_state, became.queue::text AS queue,
                   became.state, became.kind::text AS kind, became.cause,
                   left(became.error_class, 200) AS class, became.deaths > was.deaths AS has_died,
                   cardinality(mirrored) - width_bucket(-became.attempts::double precision, mirrored) AS attempted,
                   cardinality(borders) - width_bucket(was.died_at, borders) AS stayed,
                   CASE WHEN became.cause = 'captured' THEN became.source END AS source,
                   count(*) AS count, sum(became.attempts) AS attempts, sum(moment - was.died_at) AS age
            FROM was
            -- A full join, because it can only be hashed or merged; see count_changed_letters.
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
            -- A captured failure is no death of a redriven job, and made no attempts.
            (g.has_died AND g.cause <> 'captured', g.queue, 'dead_again', NULL, NULL, 1, NULL),
            (g.has_died AND g.cause <> 'captured', g.queue, 'attempts_dead', NULL, g.attempted, 1, g.attempts::double precision),
            (g.state = 'recovered', g.queue, 'recovered', NULL, NULL, 1, NULL),
            (g.state = 'discarded', g.old_queue, 'discarded', NULL, NULL, 1, NULL),
            (g.state = 'redriving', g.old_queue, 'redriven', NULL, NULL, 1, NULL),
            (g.state = 'redriving', g.queue, 'returned', NULL, NULL, 1, NULL),
            (g.state IN ('redriving', 'discarded'), g.old_queue, 'residence',
             CASE g.state WHEN 'discarded' THEN 'discarded' ELSE 'redriven' END, g.stayed, 1,
             date_part('epoch', g.age))
        ) AS x (happened, queue, key, label, bucket, sign, sum)
        WHERE x.happened
            AND (g.old_state <> g.state OR x.key IN ('letters', 'attempts_dead') OR x.key LIKE 'dead%')
        GROUP BY 1, 2, 3, 4
        HAVING sum(x.sign * g.count) <> 0
    ) c
    CROSS JOIN redrive.metric_ring r
    GROUP BY r.segment, c.queue;
    RETURN NULL;
END
$$;

-- Name: tally_removed_letters(); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.tally_removed_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, counts)
    SELECT r.segment, g.queue, array_agg('letters'::text) || ARRAY['pruned'], array_agg(g.state) || ARRAY[NULL::text],
           array_agg(-g.count) || ARRAY[sum(g.count)::bigint]
    FROM (SELECT o.queue::text AS queue, o.state, count(*) AS count FROM removed o GROUP BY 1, 2) g
    CROSS JOIN redrive.metric_ring r
    GROUP BY r.segment, g.queue;
    RETURN NULL;
END
$$;

-- Name: tick_schedule(text, bigint, timestamp with time zone, timestamp with time zone[], bigint, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.tick_schedule(name text, version bigint, due_at timestamp with time zone, ticks timestamp with time zone[], missed bigint, missed_at timestamp with time zone, next_at timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    due redrive.schedules;
BEGIN
    SELECT s.* INTO due
    FROM redrive.schedules s
    WHERE s.name = tick_schedule.name AND s.version = tick_schedule.version AND s.next_at = tick_schedule.due_at
        AND s.next_at <= statement_timestamp() AND s.paused_at IS NULL
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE redrive.schedules s
    SET next_at = tick_schedule.next_at, last_at = greatest(s.last_at, tick_schedule.missed_at, ticks[cardinality(ticks)]),
        retry_at = NULL, last_error = NULL
    WHERE s.name = due.name;
    IF tick_schedule.missed > 0 THEN
        INSERT INTO redrive.schedule_ticks (schedule, tick_at, outcome, ticks)
        VALUES (due.name, tick_schedule.missed_at, 'missed', tick_schedule.missed);
        INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, counts)
        SELECT m.segment, due.queue, '{schedule_ticks}', '{missed}', ARRAY[tick_schedule.missed]
        FROM redrive.metric_ring m;
    END IF;
    RETURN redrive.run_ticks(due, tick_schedule.ticks, 'fired');
END
$$;

-- Name: token_capacity(redrive.rate_limits); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.token_capacity(a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE a_limit.burst WHEN 1 THEN 1 ELSE a_limit.burst - redrive.token_refill(a_limit) * redrive.token_hold(a_limit) END
$$;

-- Name: token_hold(redrive.rate_limits); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.token_hold(a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT greatest(0.02, least(1, CASE a_limit.burst WHEN 1 THEN 0.05 ELSE 0.25 * a_limit.burst END / a_limit.rate))
$$;

-- Name: token_refill(redrive.rate_limits); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.token_refill(a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE a_limit.burst
        WHEN 1 THEN a_limit.rate / (1 + a_limit.rate * redrive.token_hold(a_limit))
        ELSE least(a_limit.rate, (a_limit.burst - 1) / redrive.token_hold(a_limit))
    END
$$;

-- Name: rate_buckets; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.rate_buckets (
    queue redrive.name NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    tokens double precision NOT NULL,
    counted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');

-- Name: TABLE rate_buckets; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.rate_buckets IS 'The tokens that are left of each rate limit.';

-- Name: COLUMN rate_buckets.tokens; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.rate_buckets.tokens IS 'The tokens at `counted_at`; more have come since.';

-- Name: tokens_now(redrive.rate_buckets, redrive.rate_limits); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.tokens_now(bucket redrive.rate_buckets, a_limit redrive.rate_limits) RETURNS double precision
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT least(
        redrive.token_capacity(a_limit),
        bucket.tokens + redrive.token_refill(a_limit)
            * greatest(0, extract(epoch FROM clock_timestamp() - bucket.counted_at)::double precision))
$$;

-- Name: top_frame(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.top_frame(detail text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    trace text COLLATE "C" := left(detail, 16384);
    frame text;
BEGIN
    IF position('Traceback (most recent call last)' IN trace) > 0 THEN
        -- The innermost call is the last one.
        SELECT regexp_replace(m.found[1], '^.*[/\\]', '') || ' in ' || m.found[2] INTO frame
        FROM regexp_matches(trace, '^\s*File "([^"\n]+)", line \d+, in (\S+)', 'ng') WITH ORDINALITY AS m (found, place)
        WHERE m.found[1] !~ '[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python|^<'
        ORDER BY m.place DESC
        LIMIT 1;
    ELSIF trace ~ '^goroutine \d+ \[' OR trace ~ '\ngoroutine \d+ \[' THEN
        SELECT m.found[1] INTO frame
        FROM regexp_matches(trace, '^([\w.%/-]+(?:\.\(\*?\w+\)[\w.]*)?)\([^\n]*\)\n\s+(\S+):\d+', 'ng') WITH ORDINALITY
            AS m (found, place)
        WHERE m.found[2] !~ '/go/src/|/pkg/mod/|/vendor/|/libexec/src/'
            AND m.found[1] !~ '^(?:runtime|panic|reflect|sync|testing|internal)\M'
        ORDER BY m.place
        LIMIT 1;
    ELSIF trace ~ '^ *\d+: +\S' OR trace ~ '\n *\d+: +\S' THEN
        SELECT regexp_replace(m.found[1], '::h[[:xdigit:]]{16}$', '') INTO frame
        FROM regexp_matches(trace, '^ *\d+: +(?:\dx[[:xdigit:]]+ - )?([\w<&][^\n]*?)(?: at [^\n]*)?$', 'ng') WITH ORDINALITY
            AS m (found, place)
        WHERE m.found[1] !~ ('^[<&(]*(?:dyn |mut )?(?:std|core|alloc|proc_macro|test|backtrace|redrive|anyhow|eyre|color_eyre|tokio'
                '|futures\w*|hyper\w*|reqwest|ureq|serde\w*|postgres|tokio_postgres|sqlx\w*|rayon\w*|tracing\w*)::'
                '|^<[A-Z]\w* as |^_?_?rustc?(?:_|::)|^(?:_start|main|clone\w*|start_thread|__libc\w*|<unknown>)$')
            AND m.found[1] ~ '::'
        ORDER BY m.place
        LIMIT 1;
    ELSIF trace ~ '\s+at \S' THEN
        -- The JVM: at com.acme.Order.pay(Order.java:17). Node: at pay (/app/order.js:17:5), at /app/order.js:17:5.
        SELECT coalesce(m.found[1], regexp_replace(m.found[3], '^.*[/\\]', '')) INTO frame
        FROM regexp_matches(trace,
                '^\s+at (?:async |new )?(?:(?:[\w.@-]*/{1,2})?([\w.$<>]+(?: \[as \w+\])?) ?\(([^\n]*)\)|(\S+?)(?::\d+)*)$', 'ng')
            WITH ORDINALITY AS m (found, place)
        WHERE coalesce(m.found[2], m.found[3]) !~ 'node:|node_modules|internal/|^(?:native|<anonymous>)$|^(?:std|core|alloc)::'
            AND coalesce(m.found[1], '') !~ ('^(?:java|javax|jdk|sun|com\.sun|jakarta|kotlin|kotlinx|scala|akka|groovy|clojure)\.'
                '|^(?:org\.(?:springframework|apache|hibernate|postgresql|eclipse|junit|slf4j|jboss|mariadb))\.'
                '|^(?:io\.(?:netty|grpc|micrometer|vertx|quarkus|reactivex))\.|^(?:reactor|okhttp\d|feign|retrofit\d)\.'
                '|^com\.(?:fasterxml|zaxxer|google|mysql|amazonaws|azure|stripe|oracle|microsoft)\.|^software\.amazon\.')
        ORDER BY m.place
        LIMIT 1;
    END IF;
    RETURN left(frame, 200);
END
$_$;

-- Name: trigger_schedule(text, text, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.trigger_schedule(name text, person text DEFAULT NULL::text, reason text DEFAULT NULL::text, OUT job_id bigint, OUT is_new boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    found_row redrive.schedules;
BEGIN
    SELECT s.* INTO found_row FROM redrive.schedules s WHERE s.name = trigger_schedule.name;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    is_new := cardinality(redrive.run_ticks(found_row, ARRAY[clock_timestamp()], 'triggered')) > 0;
    SELECT t.job_id INTO trigger_schedule.job_id
    FROM redrive.schedule_ticks t WHERE t.schedule = found_row.name ORDER BY t.id DESC LIMIT 1;
    PERFORM redrive.record_act(
        'trigger_schedule', person, reason, NULL, is_new::integer,
        jsonb_build_object('schedule', found_row.name, 'job', trigger_schedule.job_id));
END
$$;

-- Name: truncate_segment(smallint); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.truncate_segment(segment smallint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '50ms'
    AS $$
DECLARE
    heap     CONSTANT regclass := format('redrive.jobs_%s', segment);
    occupied boolean;
BEGIN
    IF redrive.is_held(heap) THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', heap);
    -- This sees every committed row, because no other session can write any more.
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', heap) INTO occupied;
    IF NOT occupied THEN
        EXECUTE format('TRUNCATE %s', heap);
        RETURN true;
    END IF;
    -- A job was enqueued into it in the meantime: release the lock at once.
    RAISE lock_not_available;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- Name: turn_ring(bigint, integer); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.turn_ring(segment_bytes bigint, move_limit integer) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'on'
    SET jit TO 'off'
    AS $$
DECLARE
    here      smallint;
    others    smallint[];
    due       smallint[];
    candidate smallint;
    step      text;
BEGIN
    PERFORM redrive.require_read_committed('turn_ring');
    SELECT r.segment INTO here FROM redrive.ring r;
    -- The used segments that may be searched, the next one first.
    SELECT array_agg(s.segment ORDER BY (s.segment - here + 8) % 8),
           array_agg(s.segment ORDER BY (s.segment - here + 8) % 8) FILTER (
               WHERE s.retry_at <= clock_timestamp() AND redrive.segment_bytes(s.segment) > 0)
        INTO others, due
    FROM redrive.ring_segments s
    WHERE s.segment <> here;
    IF cardinality(others) = 7 IS NOT TRUE THEN
        RAISE EXCEPTION 'redrive: the table ring_segments lacks rows; it needs eight'
            USING ERRCODE = 'no_data_found', HINT = 'Was the schema restored without its data?';
    END IF;
    -- Search without the lock, because there is usually nothing to do and a row lock costs a commit.
    SELECT s.segment INTO candidate
    FROM unnest(due) WITH ORDINALITY AS d (segment, ordinal)
    JOIN redrive.ring_segments s USING (segment)
    WHERE CASE WHEN s.drained_at IS NULL THEN NOT redrive.ends_with_jobs(s.segment)
               ELSE redrive.is_seen_drained(s.drained_at, s.drained_xid) END
    ORDER BY d.ordinal
    LIMIT 1;
    IF candidate IS NULL AND redrive.segment_bytes(here) < turn_ring.segment_bytes THEN
        RETURN 'nothing';
    END IF;
    PERFORM FROM redrive.ring_segments s WHERE s.segment = here FOR UPDATE SKIP LOCKED;
    -- Another session may hold the lock, or may just have turned the ring.
    IF NOT FOUND OR here <> (SELECT r.segment FROM redrive.ring r) THEN
        RETURN 'nothing';
    END IF;

    -- Another session may have truncated the candidate just now.
    IF redrive.segment_bytes(candidate) > 0 THEN
        step := redrive.clear_segment(candidate);
        IF step <> 'nothing' THEN
            RETURN step;
        END IF;
    END IF;
    IF redrive.segment_bytes(here) < turn_ring.segment_bytes THEN
        RETURN 'nothing';
    END IF;
    FOREACH candidate IN ARRAY others LOOP
        IF redrive.segment_bytes(candidate) = 0 THEN
            UPDATE redrive.ring_segments s SET turned_at = clock_timestamp() WHERE s.segment = candidate;
            PERFORM setval('redrive.ring_position', candidate);
            RETURN 'turned';
        END IF;
    END LOOP;
    -- No segment is clean. A drained one soon will be, and a backlog is left to be drained.
    IF EXISTS (SELECT FROM redrive.ring_segments s WHERE s.drained_at IS NOT NULL)
        OR redrive.move_stragglers(coalesce(due, '{}'), here, move_limit) = 0
    THEN
        RETURN 'nothing';
    END IF;
    RETURN 'moved';
END
$$;

-- Name: unarchived(jsonb); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.unarchived(stored jsonb) RETURNS redrive.dead_letters
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    letter redrive.dead_letters := jsonb_populate_record(NULL::redrive.dead_letters, stored - 'payload');
BEGIN
    -- jsonb_populate_record would turn a JSON null into NULL.
    letter.payload := stored -> 'payload';
    letter.raw := decode(stored ->> 'raw_base64', 'base64');
    RETURN letter;
END
$$;

-- Name: vacuum_threshold(text[], double precision); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.vacuum_threshold(options text[], rows double precision) RETURNS double precision
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE WHEN s.maximum >= 0 THEN least(s.maximum, s.base + s.scale * greatest(rows, 0))
                ELSE s.base + s.scale * greatest(rows, 0) END
    FROM (
        SELECT coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_threshold'),
                        current_setting('autovacuum_vacuum_threshold'))::double precision AS base,
               coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_scale_factor'),
                        current_setting('autovacuum_vacuum_scale_factor'))::double precision AS scale,
               -- Available since PostgreSQL 18; negative values disable it.
               coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_max_threshold'),
                        current_setting('autovacuum_vacuum_max_threshold', true), '-1')::double precision AS maximum
        FROM pg_options_to_table(options) o
    ) s
$$;

-- Name: waiting_query(jsonb, text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.waiting_query(filter jsonb, state text) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    IF state <> ALL (coalesce(redrive.filter_values(filter -> 'state'), '{ready,delayed}')) THEN
        RETURN NULL;
    ELSIF state = 'delayed' THEN
        RETURN 'SELECT j.ctid AS tid, NULL::smallint AS segment, j.id, j.payload,'
            ' jsonb_build_object(''state'', ''delayed'', ''id'', j.id) AS place'
            ' FROM redrive.jobs_delayed j WHERE ($2 IS NULL OR j.id > ($2 ->> ''id'')::bigint)'
            ' AND ($3 IS NULL OR j.id <= ($3 ->> ''id'')::bigint)'
            ' AND ' || redrive.filter_jobs(filter - 'state') || ' ORDER BY j.id LIMIT $4';
    END IF;
    RETURN 'SELECT j.ctid AS tid, j.segment, j.id, j.payload, jsonb_build_object('
        '''state'', ''ready'', ''queue'', j.queue, ''rank'', (j.generation > 0)::integer - 2 * j.priority, ''id'', j.id) AS place'
        ' FROM redrive.jobs j WHERE ($2 IS NULL OR (j.queue, (j.generation > 0)::integer - 2 * j.priority, j.id)'
        ' > ($2 ->> ''queue'', ($2 ->> ''rank'')::integer, ($2 ->> ''id'')::bigint))'
        ' AND ($3 IS NULL OR (j.queue, (j.generation > 0)::integer - 2 * j.priority, j.id)'
        ' <= ($3 ->> ''queue'', ($3 ->> ''rank'')::integer, ($3 ->> ''id'')::bigint))'
        ' AND ' || redrive.filter_jobs(filter - 'state') || ' ORDER BY j.queue, (j.generation > 0)::integer - 2 * j.priority, j.id LIMIT $4';
END
$_$;

-- Name: wake(text); Type: FUNCTION; Schema: redrive; Owner: -

CREATE FUNCTION redrive.wake(queue text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pg_notify('redrive_ready', wake.queue) IS NOT NULL
    FROM redrive.workers w
    WHERE w.queue = wake.queue AND w.waiting AND w.expires_at > statement_timestamp()
    LIMIT 1
$$;

-- Name: archived_letters; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.archived_letters (
    id bigint NOT NULL,
    queue redrive.name NOT NULL,
    archived_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    letter jsonb NOT NULL
);

-- Name: COLUMN archived_letters.letter; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.archived_letters.letter IS 'The whole letter; captured bytes as base64 in raw_base64.';

-- Name: audit; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    verb text NOT NULL COLLATE pg_catalog."C",
    role text DEFAULT SESSION_USER NOT NULL,
    person text,
    reason text,
    filter jsonb,
    letters bigint DEFAULT 0 NOT NULL,
    about jsonb,
    CONSTRAINT audit_letters_check CHECK ((letters >= 0)),
    CONSTRAINT audit_verb_check CHECK ((verb <> ''::text))
);

-- Name: TABLE audit; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.audit IS 'Append-only record of operator actions. Old records can be pruned, and values erased.';

-- Name: COLUMN audit.role; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.audit.role IS 'The database role of the session.';

-- Name: COLUMN audit.person; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.audit.person IS 'The operator as named by the program, usually user@host.';

-- Name: COLUMN audit.reason; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.audit.reason IS 'The explanation that the operator gave.';

-- Name: COLUMN audit.letters; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.audit.letters IS 'How many letters, or jobs, the action changed.';

-- Name: COLUMN audit.about; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.audit.about IS 'Further facts: the run, the group, the policy, the edit.';

-- Name: audit_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: breakers; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.breakers (
    name text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    cause text NOT NULL COLLATE pg_catalog."C",
    message text,
    kinds text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    outages bigint DEFAULT 0 NOT NULL,
    openings bigint DEFAULT 1 NOT NULL,
    probes bigint DEFAULT 0 NOT NULL,
    prober uuid,
    delay_ms bigint NOT NULL,
    opened_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    probe_at timestamp with time zone,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT breakers_cause_check CHECK ((cause = ANY (ARRAY['outage'::text, 'flood'::text, 'operator'::text]))),
    CONSTRAINT breakers_delay_ms_check CHECK ((delay_ms > 0)),
    CONSTRAINT breakers_have_a_name CHECK ((((length(name) >= 1) AND (length(name) <= 106)) AND (name = btrim(name)) AND (name !~ '[[:cntrl:]]'::text))),
    CONSTRAINT breakers_openings_check CHECK ((openings > 0)),
    CONSTRAINT breakers_outages_check CHECK ((outages >= 0)),
    CONSTRAINT breakers_probe_unless_closed CHECK (((state = 'closed'::text) = (probe_at IS NULL))),
    CONSTRAINT breakers_probes_check CHECK ((probes >= 0)),
    CONSTRAINT breakers_state_check CHECK ((state = ANY (ARRAY['closed'::text, 'open'::text, 'half_open'::text])))
)
WITH (fillfactor='50');

-- Name: TABLE breakers; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.breakers IS 'Outages, past and present: while a breaker is not closed, the jobs concerned are not claimed.';

-- Name: COLUMN breakers.name; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.breakers.name IS 'A dependency, as handlers name it; or `queue:` and a queue, for all jobs of that queue.';

-- Name: COLUMN breakers.cause; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.breakers.cause IS 'outage: handlers reported it; flood: a worker wrote too many letters; operator: by hand.';

-- Name: COLUMN breakers.kinds; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.breakers.kinds IS 'The kinds that need this dependency, as workers reported them; empty for a queue.';

-- Name: COLUMN breakers.outages; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.breakers.outages IS 'Outages in a row: those that opened it, and failed probes since.';

-- Name: COLUMN breakers.delay_ms; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.breakers.delay_ms IS 'The wait before a probe. A failed probe doubles it.';

-- Name: COLUMN breakers.probe_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.breakers.probe_at IS 'When the next probe may start; infinity: an operator must close the breaker.';

-- Name: captured_pieces; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.captured_pieces (
    letter_id bigint NOT NULL,
    version integer NOT NULL,
    place integer NOT NULL,
    bytes bytea NOT NULL,
    CONSTRAINT captured_pieces_place_check CHECK ((place > 0)),
    CONSTRAINT captured_pieces_version_check CHECK ((version >= 0))
);
ALTER TABLE ONLY redrive.captured_pieces ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Name: TABLE captured_pieces; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.captured_pieces IS 'The bytes of captured failures that exceed 16 MiB.';

-- Name: COLUMN captured_pieces.version; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.captured_pieces.version IS 'The number of edits of the letter when it had these bytes.';

-- Name: claim_marks; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.claim_marks (
    queue redrive.short_text NOT NULL,
    claims text NOT NULL COLLATE pg_catalog."C",
    rank integer NOT NULL,
    id bigint NOT NULL,
    kinds text[] COLLATE pg_catalog."C",
    left_out text[] NOT NULL COLLATE pg_catalog."C",
    noted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT claim_marks_leave_out_of_all_kinds CHECK (((kinds IS NULL) OR (left_out = '{}'::text[])))
);

-- Name: TABLE claim_marks; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.claim_marks IS 'Up to which id a process has found no job to claim; a hint for other processes.';

-- Name: COLUMN claim_marks.claims; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.claim_marks.claims IS 'A digest of `kinds` and `left_out`, which may be too long for an index.';

-- Name: COLUMN claim_marks.kinds; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.claim_marks.kinds IS 'The kinds that the process claims; NULL: all but those in `left_out`.';

-- Name: compactions; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.compactions (
    relation text NOT NULL COLLATE pg_catalog."C",
    min_bytes bigint NOT NULL,
    max_rows bigint NOT NULL,
    vacuum_bytes bigint DEFAULT 0 NOT NULL,
    kept_xid xid,
    retry_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
);

-- Name: COLUMN compactions.min_bytes; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.compactions.min_bytes IS 'The size from which the table is rewritten if three quarters of it are dead.';

-- Name: COLUMN compactions.max_rows; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.compactions.max_rows IS 'With more live rows, it is not rewritten.';

-- Name: COLUMN compactions.vacuum_bytes; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.compactions.vacuum_bytes IS 'Below this size, it is only rewritten while vacuum cannot remove its dead rows.';

-- Name: COLUMN compactions.kept_xid; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.compactions.kept_xid IS 'The oldest transaction whose dead rows vacuum kept when the table was last searched.';

-- Name: COLUMN compactions.retry_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.compactions.retry_at IS 'When it may next be searched or rewritten.';

-- Name: counter_keys; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.counter_keys (
    key text NOT NULL COLLATE pg_catalog."C",
    metric text COLLATE pg_catalog."C",
    labels text[] DEFAULT '{}'::text[] NOT NULL COLLATE pg_catalog."C",
    bounds double precision[]
);

-- Name: COLUMN counter_keys.metric; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.counter_keys.metric IS 'NULL: not published, but part of redrive_queue_live_jobs.';

-- Name: delayed_marks; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.delayed_marks (
    queue redrive.short_text NOT NULL,
    run_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    noted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

-- Name: TABLE delayed_marks; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.delayed_marks IS 'Up to which job the promotions of a process have left none; a hint for other processes.';

-- Name: COLUMN delayed_marks.run_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.delayed_marks.run_at IS 'When that job was due.';

-- Name: details_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.details ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.details_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: diverted_groups; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.diverted_groups (
    queue redrive.name NOT NULL,
    group_key redrive.group_key NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

-- Name: TABLE diverted_groups; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.diverted_groups IS 'The groups whose jobs are diverted behind a letter.';

-- Name: COLUMN diverted_groups.since; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.diverted_groups.since IS 'The first diverted job became a letter after this time; earlier letters do not count.';

-- Name: dlq_events; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.dlq_events AS
 SELECT j.id,
    j.kind AS event_type,
    j.payload,
    COALESCE(((j.history -> '-1'::integer) ->> 'error_message'::text), ((j.history -> '-1'::integer) ->> 'outcome'::text), l.error_message, ''::text) AS error_reason,
    COALESCE(l.error_detail, d.detail) AS error_stacktrace,
        CASE j.state
            WHEN 'leased'::text THEN 'PROCESSING'::text
            ELSE 'PENDING'::text
        END AS status,
    (COALESCE((l.earlier_attempts + l.attempts), 0) +
        CASE j.state
            WHEN 'leased'::text THEN (j.attempt - 1)
            ELSE j.attempt
        END) AS retry_count,
    j.run_at AS retry_after,
    COALESCE((COALESCE(((e.history -> 0) ->> 'ended_at'::text), ((e.history -> 0) ->> 2)))::timestamp with time zone, l.died_at, j.enqueued_at) AS created_at,
    COALESCE((((j.history -> '-1'::integer) ->> 'ended_at'::text))::timestamp with time zone, l.changed_at, j.enqueued_at) AS updated_at
   FROM (((redrive.live_jobs j
     LEFT JOIN redrive.dead_letters l ON (((j.generation > 0) AND (l.id = j.id))))
     LEFT JOIN redrive.details d ON ((d.id = l.detail_id)))
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN (l.id IS NULL) THEN j.history
                    ELSE l.history
                END AS history) e)
  WHERE ((j.history IS NOT NULL) OR (j.generation > 0))
UNION ALL
 SELECT l.id,
    (l.kind)::text AS event_type,
    (COALESCE(l.payload, to_jsonb(encode(l.raw, 'base64'::text))))::json AS payload,
    l.error_message AS error_reason,
    COALESCE(l.error_detail, d.detail) AS error_stacktrace,
    'PENDING'::text AS status,
    (l.earlier_attempts + l.attempts) AS retry_count,
    p.retry_after,
    l.died_at AS created_at,
    l.changed_at AS updated_at
   FROM ((( SELECT w.letter_id,
            min(w.retry_after) AS retry_after
           FROM redrive.letters_with_policy() w(letter_id, retry_after)
          GROUP BY w.letter_id) p
     JOIN redrive.dead_letters l ON ((l.id = p.letter_id)))
     LEFT JOIN redrive.details d ON ((d.id = l.detail_id)))
  WHERE (l.state = 'open'::text)
UNION ALL
 SELECT l.id,
    (l.kind)::text AS event_type,
    (COALESCE(l.payload, to_jsonb(encode(l.raw, 'base64'::text))))::json AS payload,
    l.error_message AS error_reason,
    COALESCE(l.error_detail, d.detail) AS error_stacktrace,
    'PENDING'::text AS status,
    (l.earlier_attempts + l.attempts) AS retry_count,
    l.died_at AS retry_after,
    l.died_at AS created_at,
    l.changed_at AS updated_at
   FROM (redrive.dead_letters l
     LEFT JOIN redrive.details d ON ((d.id = l.detail_id)))
  WHERE ((l.state = 'open'::text) AND (l.cause = 'captured'::text) AND (l.payload IS NOT NULL) AND (l.redacted IS NULL) AND (NOT (l.id IN ( SELECT w.letter_id
           FROM redrive.letters_with_policy() w(letter_id, retry_after)))))
UNION ALL
 SELECT l.id,
    (l.kind)::text AS event_type,
    (COALESCE(l.payload, to_jsonb(encode(l.raw, 'base64'::text))))::json AS payload,
    l.error_message AS error_reason,
    COALESCE(l.error_detail, d.detail) AS error_stacktrace,
    'FAILED_PERMANENTLY'::text AS status,
    (l.earlier_attempts + l.attempts) AS retry_count,
    l.died_at AS retry_after,
    l.died_at AS created_at,
    l.changed_at AS updated_at
   FROM (redrive.dead_letters l
     LEFT JOIN redrive.details d ON ((d.id = l.detail_id)))
  WHERE ((l.state = 'open'::text) AND ((l.cause <> 'captured'::text) OR (l.payload IS NULL) OR (l.redacted IS NOT NULL)) AND (NOT (l.id IN ( SELECT w.letter_id
           FROM redrive.letters_with_policy() w(letter_id, retry_after)))))
UNION ALL
 SELECT l.id,
    (l.kind)::text AS event_type,
    (COALESCE(l.payload, to_jsonb(encode(l.raw, 'base64'::text))))::json AS payload,
    l.error_message AS error_reason,
    COALESCE(l.error_detail, d.detail) AS error_stacktrace,
    'FAILED_PERMANENTLY'::text AS status,
    (l.earlier_attempts + l.attempts) AS retry_count,
    l.died_at AS retry_after,
    l.died_at AS created_at,
    l.changed_at AS updated_at
   FROM (redrive.dead_letters l
     LEFT JOIN redrive.details d ON ((d.id = l.detail_id)))
  WHERE (l.state = ANY (ARRAY['quarantined'::text, 'discarded'::text]))
UNION ALL
 SELECT l.id,
    (l.kind)::text AS event_type,
    (COALESCE(l.payload, to_jsonb(encode(l.raw, 'base64'::text))))::json AS payload,
    l.error_message AS error_reason,
    COALESCE(l.error_detail, d.detail) AS error_stacktrace,
    'SUCCEEDED'::text AS status,
    (l.earlier_attempts + l.attempts) AS retry_count,
    l.died_at AS retry_after,
    l.died_at AS created_at,
    l.changed_at AS updated_at
   FROM (redrive.dead_letters l
     LEFT JOIN redrive.details d ON ((d.id = l.detail_id)))
  WHERE (l.state = 'recovered'::text);

-- Name: VIEW dlq_events; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.dlq_events IS 'Failed events in the columns and states of the classic PostgreSQL dead letter table.';

-- Name: dlq_events_archive; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.dlq_events_archive AS
 SELECT a.id,
    (a.letter ->> 'kind'::text) AS event_type,
    (COALESCE((a.letter -> 'payload'::text), (a.letter -> 'raw_base64'::text)))::json AS payload,
    (a.letter ->> 'error_message'::text) AS error_reason,
    (a.letter ->> 'error_detail'::text) AS error_stacktrace,
        CASE (a.letter ->> 'state'::text)
            WHEN 'recovered'::text THEN 'SUCCEEDED'::text
            ELSE 'FAILED_PERMANENTLY'::text
        END AS status,
    (COALESCE(((a.letter ->> 'earlier_attempts'::text))::integer, 0) + COALESCE(((a.letter ->> 'attempts'::text))::integer, 0)) AS retry_count,
    ((a.letter ->> 'died_at'::text))::timestamp with time zone AS retry_after,
    ((a.letter ->> 'died_at'::text))::timestamp with time zone AS created_at,
    ((a.letter ->> 'changed_at'::text))::timestamp with time zone AS updated_at
   FROM redrive.archived_letters a;

-- Name: VIEW dlq_events_archive; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.dlq_events_archive IS 'Archived letters in the columns of dlq_events.';

-- Name: exclusive_tasks; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.exclusive_tasks (
    task text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT exclusive_tasks_task_check CHECK ((task = ANY (ARRAY['fold_letters'::text, 'fold_metrics'::text, 'apply_retention'::text, 'audit_counters'::text])))
);

-- Name: letter_deltas; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.letter_deltas (
    group_id bigint NOT NULL,
    hour timestamp with time zone,
    died_at timestamp with time zone,
    deaths bigint NOT NULL,
    open bigint NOT NULL,
    redriving bigint NOT NULL,
    recovered bigint NOT NULL,
    discarded bigint NOT NULL,
    quarantined bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

ALTER TABLE ONLY redrive.letter_deltas REPLICA IDENTITY FULL;

-- Name: COLUMN letter_deltas.hour; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.letter_deltas.hour IS 'Hour of the deaths; NULL: no death, only changes of state.';

-- Name: COLUMN letter_deltas.died_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.letter_deltas.died_at IS 'Time of the last death.';

-- Name: failure_groups; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.failure_groups AS
 SELECT g.id,
    g.fingerprint,
    (g.queue)::text AS queue,
    (g.kind)::text AS kind,
    g.error_class,
    g.title,
    g.sample,
        CASE
            WHEN ((g.state = 'resolved'::text) AND (n.died_at > g.resolved_at)) THEN 'open'::text
            ELSE g.state
        END AS state,
    g.note,
    g.owner,
    g.first_seen,
    g.first_version,
    GREATEST(g.last_seen, n.died_at) AS last_seen,
    g.resolved_at,
        CASE
            WHEN ((g.state = 'resolved'::text) AND (n.died_at > g.resolved_at)) THEN n.died_at
            ELSE g.regressed_at
        END AS regressed_at,
        CASE
            WHEN ((g.state = 'resolved'::text) AND (n.died_at > g.resolved_at)) THEN (g.regressions + 1)
            ELSE g.regressions
        END AS regressions,
    (g.deaths + COALESCE(n.deaths, (0)::bigint)) AS deaths,
    (g.open + COALESCE(n.open, (0)::bigint)) AS open,
    (g.redriving + COALESCE(n.redriving, (0)::bigint)) AS redriving,
    (g.recovered + COALESCE(n.recovered, (0)::bigint)) AS recovered,
    (g.discarded + COALESCE(n.discarded, (0)::bigint)) AS discarded,
    (g.quarantined + COALESCE(n.quarantined, (0)::bigint)) AS quarantined
   FROM (redrive.groups g
     LEFT JOIN ( SELECT d.group_id,
            (sum(d.deaths))::bigint AS deaths,
            (sum(d.open))::bigint AS open,
            (sum(d.redriving))::bigint AS redriving,
            (sum(d.recovered))::bigint AS recovered,
            (sum(d.discarded))::bigint AS discarded,
            (sum(d.quarantined))::bigint AS quarantined,
            max(d.died_at) AS died_at
           FROM redrive.letter_deltas d
          GROUP BY d.group_id) n ON ((n.group_id = g.id)));

-- Name: VIEW failure_groups; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.failure_groups IS 'Letters that died of the same error, with exact numbers.';

-- Name: failure_hours; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.failure_hours (
    group_id bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    deaths bigint NOT NULL
);

-- Name: group_buckets; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.group_buckets (
    queue redrive.name NOT NULL,
    group_key redrive.group_key NOT NULL,
    full_at timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

-- Name: TABLE group_buckets; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.group_buckets IS 'The groups that have fewer tokens than the rate limit of each group grants at once.';

-- Name: COLUMN group_buckets.full_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.group_buckets.full_at IS 'When all its tokens are back, if no job starts.';

-- Name: group_rules; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.group_rules (
    id bigint NOT NULL,
    group_id bigint NOT NULL,
    action text NOT NULL COLLATE pg_catalog."C",
    into_id bigint,
    pattern text,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    person text,
    reason text,
    CONSTRAINT group_rules_action_check CHECK ((action = ANY (ARRAY['merge'::text, 'error'::text, 'class'::text, 'kind'::text, 'payload'::text]))),
    CONSTRAINT group_rules_merge_into_a_group CHECK (((action = 'merge'::text) = (into_id IS NOT NULL))),
    CONSTRAINT group_rules_pattern_check CHECK (((octet_length(pattern) >= 1) AND (octet_length(pattern) <= 1024))),
    CONSTRAINT group_rules_split_by_a_pattern CHECK (((action = ANY (ARRAY['error'::text, 'payload'::text])) = (pattern IS NOT NULL)))
);

-- Name: COLUMN group_rules.action; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.group_rules.action IS 'merge: into another group. Otherwise a split: by a pattern of the error message, by error class, by kind, or by a payload value.';

-- Name: COLUMN group_rules.pattern; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.group_rules.pattern IS 'error: a regular expression. payload: the path of a value, such as tenant.id.';

-- Name: group_rules_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.group_rules ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.group_rules_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: groups_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.groups ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: jobs_waiting; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_waiting (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_waiting ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_waiting REPLICA IDENTITY FULL;

-- Name: held_groups; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.held_groups AS
 SELECT (s.queue)::text AS queue,
    (s.group_key)::text AS group_key,
    s.job_id AS letter_id,
    s.held_at,
    (l.kind)::text AS kind,
    l.error_class,
    ( SELECT count(*) AS count
           FROM redrive.jobs_waiting j
          WHERE (((j.queue)::text = (s.queue)::text) AND ((j.group_key)::text = (s.group_key)::text))) AS waiting,
    ( SELECT count(*) AS count
           FROM (redrive.dead_letters b
             JOIN redrive.diverted_groups d ON ((((d.queue)::text = (b.queue)::text) AND ((d.group_key)::text = (b.group_key)::text) AND (b.died_at >= d.since))))
          WHERE (((b.queue)::text = (s.queue)::text) AND ((b.group_key)::text = (s.group_key)::text) AND (b.cause = 'diverted'::text) AND (b.state = ANY (ARRAY['open'::text, 'quarantined'::text])) AND (b.id <> s.job_id))) AS diverted
   FROM (redrive.group_slots s
     JOIN redrive.dead_letters l ON ((l.id = s.job_id)))
  WHERE (s.held_at IS NOT NULL);

-- Name: VIEW held_groups; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.held_groups IS 'The groups that a letter holds, with the number of jobs that wait and of letters that were diverted behind it.';

-- Name: jobs_0; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_0 (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_0 ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_0 REPLICA IDENTITY FULL;

-- Name: jobs_1; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_1 (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_1 ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_1 REPLICA IDENTITY FULL;

-- Name: jobs_2; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_2 (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_2 ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_2 REPLICA IDENTITY FULL;

-- Name: jobs_3; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_3 (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_3 ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_3 REPLICA IDENTITY FULL;

-- Name: jobs_4; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_4 (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_4 ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_4 REPLICA IDENTITY FULL;

-- Name: jobs_5; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_5 (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_5 ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_5 REPLICA IDENTITY FULL;

-- Name: jobs_6; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_6 (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_6 ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_6 REPLICA IDENTITY FULL;

-- Name: jobs_7; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.jobs_7 (
    id bigint DEFAULT nextval('redrive.job_id'::regclass) NOT NULL,
    ready_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    enqueued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt redrive.counter DEFAULT 0 NOT NULL,
    max_attempts redrive.attempt_limit DEFAULT 5 NOT NULL,
    generation redrive.counter DEFAULT 0 NOT NULL,
    segment smallint NOT NULL,
    priority redrive.priority DEFAULT 0 NOT NULL,
    crashes redrive.small_counter DEFAULT 0 NOT NULL,
    refunds redrive.small_counter DEFAULT 0 NOT NULL,
    queue redrive.short_text NOT NULL,
    kind redrive.short_text NOT NULL,
    payload json NOT NULL,
    history jsonb,
    unique_key text COLLATE pg_catalog."C",
    outage_since timestamp with time zone,
    headers redrive.headers,
    group_key redrive.group_key,
    CONSTRAINT jobs_have_an_attempt_left CHECK (((attempt)::integer < (max_attempts)::integer))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');
ALTER TABLE ONLY redrive.jobs_7 ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE ONLY redrive.jobs_7 REPLICA IDENTITY FULL;

-- Name: letter_versions; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.letter_versions (
    letter_id bigint NOT NULL,
    version integer NOT NULL,
    payload jsonb,
    raw bytea,
    redacted text[],
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    role text DEFAULT SESSION_USER NOT NULL,
    person text,
    reason text,
    CONSTRAINT letter_versions_keep_something CHECK (((payload IS NOT NULL) OR (raw IS NOT NULL))),
    CONSTRAINT letter_versions_version_check CHECK ((version >= 0))
);

-- Name: TABLE letter_versions; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.letter_versions IS 'The content of letters before their edits.';

-- Name: COLUMN letter_versions.redacted; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.letter_versions.redacted IS 'JSON pointers of the redacted values, as in dead_letters; NULL: none.';

-- Name: COLUMN letter_versions.at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.letter_versions.at IS 'When the edit replaced it.';

-- Name: COLUMN letter_versions.person; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.letter_versions.person IS 'The operator as named by the program; role is the database role.';

-- Name: COLUMN letter_versions.reason; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.letter_versions.reason IS 'The explanation that the operator gave.';

-- Name: metric_deltas; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.metric_deltas (
    segment smallint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    began_at timestamp with time zone,
    born_at timestamp with time zone,
    queue text NOT NULL COLLATE pg_catalog."C",
    keys text[] NOT NULL COLLATE pg_catalog."C",
    labels text[] COLLATE pg_catalog."C",
    causes text[] COLLATE pg_catalog."C",
    buckets smallint[],
    counts bigint[] NOT NULL,
    sums double precision[]
)
PARTITION BY LIST (segment);

-- Name: COLUMN metric_deltas.began_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_deltas.began_at IS 'Start of a handler that settles its job in its transaction: the run time is counted at commit.';

-- Name: COLUMN metric_deltas.born_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_deltas.born_at IS 'When that job was first enqueued.';

-- Name: COLUMN metric_deltas.labels; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_deltas.labels IS 'The first label after the queue.';

-- Name: COLUMN metric_deltas.causes; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_deltas.causes IS 'The second label after the queue.';

-- Name: COLUMN metric_deltas.buckets; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_deltas.buckets IS 'For histograms: the number of bounds below the observed value.';

-- Name: metric_deltas_0; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.metric_deltas_0 (
    segment smallint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    began_at timestamp with time zone,
    born_at timestamp with time zone,
    queue text NOT NULL COLLATE pg_catalog."C",
    keys text[] NOT NULL COLLATE pg_catalog."C",
    labels text[] COLLATE pg_catalog."C",
    causes text[] COLLATE pg_catalog."C",
    buckets smallint[],
    counts bigint[] NOT NULL,
    sums double precision[]
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

ALTER TABLE ONLY redrive.metric_deltas_0 REPLICA IDENTITY FULL;

-- Name: metric_deltas_1; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.metric_deltas_1 (
    segment smallint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    began_at timestamp with time zone,
    born_at timestamp with time zone,
    queue text NOT NULL COLLATE pg_catalog."C",
    keys text[] NOT NULL COLLATE pg_catalog."C",
    labels text[] COLLATE pg_catalog."C",
    causes text[] COLLATE pg_catalog."C",
    buckets smallint[],
    counts bigint[] NOT NULL,
    sums double precision[]
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

ALTER TABLE ONLY redrive.metric_deltas_1 REPLICA IDENTITY FULL;

-- Name: metric_deltas_2; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.metric_deltas_2 (
    segment smallint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    began_at timestamp with time zone,
    born_at timestamp with time zone,
    queue text NOT NULL COLLATE pg_catalog."C",
    keys text[] NOT NULL COLLATE pg_catalog."C",
    labels text[] COLLATE pg_catalog."C",
    causes text[] COLLATE pg_catalog."C",
    buckets smallint[],
    counts bigint[] NOT NULL,
    sums double precision[]
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

ALTER TABLE ONLY redrive.metric_deltas_2 REPLICA IDENTITY FULL;

-- Name: metric_drift; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.metric_drift (
    queue text NOT NULL COLLATE pg_catalog."C",
    set text NOT NULL COLLATE pg_catalog."C",
    rows bigint NOT NULL,
    total bigint NOT NULL,
    drift bigint NOT NULL,
    audited_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT metric_drift_set_check CHECK ((set = ANY (ARRAY['live'::text, 'dlq'::text])))
);

-- Name: COLUMN metric_drift.drift; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_drift.drift IS 'Rows minus total; if only the states of letters differ, the sum of their differences.';

-- Name: metric_folded; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.metric_folded (
    label text NOT NULL COLLATE pg_catalog."C",
    names bit(65536) NOT NULL
);

-- Name: COLUMN metric_folded.names; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_folded.names IS 'The hash of a name selects its bit. The number of set bits estimates the number of names.';

-- Name: metric_ring_position; Type: SEQUENCE; Schema: redrive; Owner: -

CREATE SEQUENCE redrive.metric_ring_position
    AS smallint
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    MAXVALUE 2
    CACHE 1;

-- Name: metric_ring; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.metric_ring AS
 SELECT (p.last_value)::smallint AS segment
   FROM redrive.metric_ring_position p;

-- Name: metric_slots; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.metric_slots (
    label text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT metric_slots_label_check CHECK ((label = ANY (ARRAY['queue'::text, 'kind'::text, 'error_class'::text, 'source'::text])))
);

-- Name: COLUMN metric_slots.queue; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_slots.queue IS 'The queue of a kind, an error class or a source; empty for a queue.';

-- Name: metric_values; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.metric_values (
    key text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    label text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    cause text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    value bigint NOT NULL,
    counts bigint[],
    sum double precision DEFAULT 0 NOT NULL,
    last_at timestamp with time zone NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');

-- Name: COLUMN metric_values.counts; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_values.counts IS 'For a histogram: counts per bucket, not cumulative; value is their sum.';

-- Name: COLUMN metric_values.last_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.metric_values.last_at IS 'When it was last counted.';

-- Name: migrations; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    breaking boolean NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    applied_by text DEFAULT SESSION_USER NOT NULL
);

-- Name: queue_pauses; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.queue_pauses (
    queue redrive.name NOT NULL,
    paused_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    person text,
    reason text
);

-- Name: TABLE queue_pauses; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.queue_pauses IS 'Pauses of queues. One that has ended remains until the next pause or resume.';

-- Name: COLUMN queue_pauses.ends_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.queue_pauses.ends_at IS 'When it ends by itself; infinity: an operator must resume the queue.';

-- Name: paused_queues; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.paused_queues AS
 SELECT (p.queue)::text AS queue,
    p.paused_at,
    NULLIF(p.ends_at, 'infinity'::timestamp with time zone) AS ends_at,
    p.person,
    p.reason
   FROM redrive.queue_pauses p
  WHERE (p.ends_at > statement_timestamp());

-- Name: VIEW paused_queues; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.paused_queues IS 'The queues that are paused now, with the person and the reason.';

-- Name: policies_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.policies ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.policies_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: protections; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.protections (
    queue redrive.name NOT NULL,
    approve_above bigint,
    roles text[] COLLATE pg_catalog."C",
    other_role boolean DEFAULT false NOT NULL,
    CONSTRAINT protections_approve_above_check CHECK ((approve_above >= 0)),
    CONSTRAINT protections_require_something CHECK ((num_nonnulls(approve_above, roles) > 0)),
    CONSTRAINT protections_roles_check CHECK ((cardinality(roles) > 0))
);

-- Name: COLUMN protections.approve_above; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.protections.approve_above IS 'A run with more letters of the queue needs the approval of a second operator; NULL: none does.';

-- Name: COLUMN protections.roles; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.protections.roles IS 'Only these database roles and their members may redrive; NULL: every operator.';

-- Name: COLUMN protections.other_role; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.protections.other_role IS 'Whether the approval must come from another database role. The server verifies the role of a session; a program chooses the name of its operator.';

-- Name: pruned_regressions; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.pruned_regressions (
    queue redrive.name NOT NULL,
    regressions bigint NOT NULL
);

-- Name: workers; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.workers (
    worker_id uuid NOT NULL,
    queue redrive.name NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    slots integer NOT NULL,
    kinds text[] COLLATE pg_catalog."C",
    waiting boolean DEFAULT false NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT workers_slots_check CHECK ((slots > 0))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');

-- Name: COLUMN workers.kinds; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.workers.kinds IS 'The kinds it handles; NULL: all.';

-- Name: COLUMN workers.waiting; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.workers.waiting IS 'The worker is idle: an enqueue should notify it.';

-- Name: queues; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.queues AS
 WITH ready AS (
         SELECT (j.queue)::text AS queue,
            count(*) AS jobs,
            min(j.ready_at) AS oldest
           FROM redrive.jobs j
          GROUP BY (j.queue)::text
        ), delayed AS (
         SELECT (d.queue)::text AS queue,
            count(*) AS jobs
           FROM redrive.jobs_delayed d
          GROUP BY (d.queue)::text
        ), leased AS (
         SELECT (l.queue)::text AS queue,
            sum((l.job_count - cardinality(l.done))) AS jobs
           FROM redrive.leases l
          GROUP BY (l.queue)::text
        ), served AS (
         SELECT (w.queue)::text AS queue,
            count(*) AS workers,
            sum(w.slots) AS slots
           FROM redrive.workers w
          WHERE (w.expires_at > statement_timestamp())
          GROUP BY (w.queue)::text
        ), dead AS (
         SELECT g.queue,
            sum(g.open) AS open,
            sum(g.redriving) AS redriving,
            sum(g.recovered) AS recovered,
            sum(g.discarded) AS discarded,
            sum(g.quarantined) AS quarantined
           FROM redrive.failure_groups g
          GROUP BY g.queue
        ), paused AS (
         SELECT p.queue,
            p.paused_at,
            p.ends_at
           FROM redrive.paused_queues p
        )
 SELECT queue,
        CASE
            WHEN (paused.paused_at IS NULL) THEN 'running'::text
            ELSE 'paused'::text
        END AS state,
    paused.paused_at,
    paused.ends_at AS pause_ends_at,
    COALESCE(ready.jobs, (0)::bigint) AS ready,
    COALESCE(delayed.jobs, (0)::bigint) AS delayed,
    COALESCE(leased.jobs, (0)::bigint) AS leased,
    ready.oldest AS oldest_ready,
    COALESCE(served.workers, (0)::bigint) AS workers,
    COALESCE(served.slots, (0)::bigint) AS slots,
    (COALESCE(dead.open, (0)::numeric))::bigint AS open,
    (COALESCE(dead.redriving, (0)::numeric))::bigint AS redriving,
    (COALESCE(dead.recovered, (0)::numeric))::bigint AS recovered,
    (COALESCE(dead.discarded, (0)::numeric))::bigint AS discarded,
    (COALESCE(dead.quarantined, (0)::numeric))::bigint AS quarantined
   FROM (((((ready
     FULL JOIN delayed USING (queue))
     FULL JOIN leased USING (queue))
     FULL JOIN served USING (queue))
     FULL JOIN dead USING (queue))
     FULL JOIN paused USING (queue));

-- Name: VIEW queues; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.queues IS 'The numbers of every queue, counted row by row; meant for people, not for polling.';

-- Name: redactions; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.redactions (
    id bigint NOT NULL,
    queue redrive.name,
    kind redrive.name,
    paths text[] DEFAULT '{}'::text[] NOT NULL,
    patterns text[] DEFAULT '{}'::text[] NOT NULL,
    keep_types boolean DEFAULT false NOT NULL
);

-- Name: COLUMN redactions.queue; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redactions.queue IS 'NULL: every queue.';

-- Name: COLUMN redactions.kind; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redactions.kind IS 'NULL: every kind.';

-- Name: COLUMN redactions.paths; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redactions.paths IS 'JSON pointers into the payload, such as /card/number; * stands for every element of an array or member of an object.';

-- Name: COLUMN redactions.patterns; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redactions.patterns IS 'PostgreSQL regular expressions, for error texts, headers and bytes that are not JSON.';

-- Name: COLUMN redactions.keep_types; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.redactions.keep_types IS 'Replace a payload value by one of its own type: 0, false, null, [], {}.';

-- Name: redactions_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.redactions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.redactions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: redrive_runs_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.redrive_runs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.redrive_runs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: retention; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.retention (
    id bigint NOT NULL,
    queue redrive.name,
    state text NOT NULL COLLATE pg_catalog."C",
    keep interval NOT NULL,
    action text NOT NULL COLLATE pg_catalog."C",
    even_open boolean DEFAULT false NOT NULL,
    CONSTRAINT retention_action_check CHECK ((action = ANY (ARRAY['delete'::text, 'archive'::text]))),
    CONSTRAINT retention_keep_check CHECK (((keep >= '00:00:00'::interval) AND (keep <= '36600 days'::interval))),
    CONSTRAINT retention_keeps_waiting_letters CHECK (((action = 'archive'::text) OR (state = ANY (ARRAY['recovered'::text, 'discarded'::text])) OR even_open)),
    CONSTRAINT retention_state_check CHECK ((state = ANY (ARRAY['open'::text, 'quarantined'::text, 'recovered'::text, 'discarded'::text])))
);

-- Name: TABLE retention; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.retention IS 'How long letters are kept; without a rule, forever.';

-- Name: COLUMN retention.queue; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.retention.queue IS 'NULL: every queue without a rule for this state.';

-- Name: COLUMN retention.keep; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.retention.keep IS 'Time since the letter was closed; for an open or quarantined one, since it died or an operator last changed it.';

-- Name: COLUMN retention.even_open; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.retention.even_open IS 'Confirms that letters that wait for an operator are deleted.';

-- Name: retention_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.retention ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.retention_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: ring_segments; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.ring_segments (
    segment smallint NOT NULL,
    turned_at timestamp with time zone,
    truncated_at timestamp with time zone,
    drained_at timestamp with time zone,
    drained_xid xid8,
    retry_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    refusals redrive.small_counter DEFAULT 0 NOT NULL,
    CONSTRAINT ring_segments_are_drained_at_a_transaction CHECK (((drained_at IS NULL) = (drained_xid IS NULL))),
    CONSTRAINT ring_segments_segment_check CHECK (((segment >= 0) AND (segment <= 7)))
);

-- Name: COLUMN ring_segments.turned_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.ring_segments.turned_at IS 'When the ring last turned to the segment; NULL: never.';

-- Name: COLUMN ring_segments.truncated_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.ring_segments.truncated_at IS 'When the segment was last truncated; NULL: never.';

-- Name: COLUMN ring_segments.drained_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.ring_segments.drained_at IS 'When the segment was found without a job; NULL: it holds jobs, or nothing at all.';

-- Name: COLUMN ring_segments.drained_xid; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.ring_segments.drained_xid IS 'A snapshot that is not older than this transaction sees that the segment has no job.';

-- Name: COLUMN ring_segments.retry_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.ring_segments.retry_at IS 'When the segment may next be searched or locked.';

-- Name: COLUMN ring_segments.refusals; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.ring_segments.refusals IS 'How often in a row it could not be truncated. Each doubles the wait.';

-- Name: run_chunks; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.run_chunks (
    run_id bigint NOT NULL,
    upto bigint NOT NULL,
    cursor bigint NOT NULL,
    CONSTRAINT run_chunks_have_a_member_left CHECK ((cursor < upto))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');

-- Name: COLUMN run_chunks.upto; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.run_chunks.upto IS 'The last member of the chunk.';

-- Name: COLUMN run_chunks.cursor; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.run_chunks.cursor IS 'The last member that was tried.';

-- Name: run_deltas; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.run_deltas (
    run_id bigint NOT NULL,
    tried bigint DEFAULT 0 NOT NULL,
    sent bigint DEFAULT 0 NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL,
    recovered bigint DEFAULT 0 NOT NULL,
    died_alike bigint DEFAULT 0 NOT NULL,
    died_differently bigint DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

ALTER TABLE ONLY redrive.run_deltas REPLICA IDENTITY FULL;

-- Name: run_letters; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.run_letters (
    run_id bigint NOT NULL,
    ordinal bigint NOT NULL,
    letter_id bigint NOT NULL,
    outcome text COLLATE pg_catalog."C",
    CONSTRAINT run_letters_outcome_check CHECK ((outcome = ANY (ARRAY['recovered'::text, 'died_alike'::text, 'died_differently'::text, 'skipped_gone'::text, 'skipped_not_open'::text, 'skipped_quarantined'::text, 'skipped_too_large'::text, 'skipped_no_json'::text, 'skipped_redacted'::text, 'skipped_conflict'::text, 'skipped_locked'::text])))
)
WITH (fillfactor='55', autovacuum_vacuum_scale_factor='0.1');

-- Name: runs; Type: VIEW; Schema: redrive; Owner: -

CREATE VIEW redrive.runs AS
 SELECT r.id,
    r.state,
    r.filter,
    r.person,
    r.reason,
    r.forced,
    (r.to_queue)::text AS to_queue,
    r.priority,
    r.max_attempts,
    r.delay_ms,
    r.rate,
    r.canary,
    r.tolerated,
    r.sample,
    r.stage,
    r.stage_to,
    r.driver,
    COALESCE((r.driver_expires_at > statement_timestamp()), false) AS is_driven,
    r.total,
    (r.cursor + COALESCE(n.tried, (0)::bigint)) AS cursor,
    (r.sent + COALESCE(n.sent, (0)::bigint)) AS sent,
    (r.skipped + COALESCE(n.skipped, (0)::bigint)) AS skipped,
    (r.recovered + COALESCE(n.recovered, (0)::bigint)) AS recovered,
    (r.died_alike + COALESCE(n.died_alike, (0)::bigint)) AS died_alike,
    (r.died_differently + COALESCE(n.died_differently, (0)::bigint)) AS died_differently,
    ((((r.sent - r.recovered) - r.died_alike) - r.died_differently) + COALESCE((((n.sent - n.recovered) - n.died_alike) - n.died_differently), (0)::bigint)) AS still_running,
    r.halted_because,
    r.role,
    r.approved_by,
    r.approved_at,
    r.created_at,
    r.started_at,
    r.ended_at
   FROM (redrive.redrive_runs r
     LEFT JOIN LATERAL ( SELECT (sum(d.tried))::bigint AS tried,
            (sum(d.sent))::bigint AS sent,
            (sum(d.skipped))::bigint AS skipped,
            (sum(d.recovered))::bigint AS recovered,
            (sum(d.died_alike))::bigint AS died_alike,
            (sum(d.died_differently))::bigint AS died_differently
           FROM redrive.run_deltas d
          WHERE (d.run_id = r.id)) n ON (true));

-- Name: VIEW runs; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON VIEW redrive.runs IS 'Redrive runs with exact numbers: recovered, died alike, died differently, still running.';

-- Name: schedule_ticks; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.schedule_ticks (
    id bigint NOT NULL,
    schedule redrive.name NOT NULL,
    tick_at timestamp with time zone NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    outcome text NOT NULL COLLATE pg_catalog."C",
    ticks bigint DEFAULT 1 NOT NULL,
    job_id bigint,
    CONSTRAINT schedule_ticks_have_a_job CHECK (((outcome = 'missed'::text) = (job_id IS NULL))),
    CONSTRAINT schedule_ticks_outcome_check CHECK ((outcome = ANY (ARRAY['fired'::text, 'triggered'::text, 'overlapped'::text, 'missed'::text]))),
    CONSTRAINT schedule_ticks_ticks_check CHECK ((ticks > 0))
);

-- Name: COLUMN schedule_ticks.tick_at; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.schedule_ticks.tick_at IS 'The time of the tick; of several missed ones, the latest.';

-- Name: COLUMN schedule_ticks.ticks; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.schedule_ticks.ticks IS 'How many missed ticks the row stands for.';

-- Name: COLUMN schedule_ticks.job_id; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.schedule_ticks.job_id IS 'The new job, or the live job because of which the tick was skipped.';

-- Name: schedule_ticks_id_seq; Type: SEQUENCE; Schema: redrive; Owner: -

ALTER TABLE redrive.schedule_ticks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME redrive.schedule_ticks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

-- Name: unique_keys; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.unique_keys (
    queue redrive.name NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    job_id bigint NOT NULL,
    CONSTRAINT unique_keys_key_check CHECK (((octet_length(key) >= 1) AND (octet_length(key) <= 200)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

-- Name: TABLE unique_keys; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.unique_keys IS 'The keys of unique jobs, each with the live job that holds it.';

-- Name: unique_windows; Type: TABLE; Schema: redrive; Owner: -

CREATE TABLE redrive.unique_windows (
    queue redrive.name NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    job_id bigint NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    CONSTRAINT unique_windows_key_check CHECK (((octet_length(key) >= 1) AND (octet_length(key) <= 200)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='10000');

-- Name: TABLE unique_windows; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON TABLE redrive.unique_windows IS 'The windows in which no other job with the same unique key is stored.';

-- Name: COLUMN unique_windows.job_id; Type: COMMENT; Schema: redrive; Owner: -

COMMENT ON COLUMN redrive.unique_windows.job_id IS 'The job that opened the window, which may have ended.';

-- Name: jobs_0; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_0 FOR VALUES IN ('0');

-- Name: jobs_1; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_1 FOR VALUES IN ('1');

-- Name: jobs_2; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_2 FOR VALUES IN ('2');

-- Name: jobs_3; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_3 FOR VALUES IN ('3');

-- Name: jobs_4; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_4 FOR VALUES IN ('4');

-- Name: jobs_5; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_5 FOR VALUES IN ('5');

-- Name: jobs_6; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_6 FOR VALUES IN ('6');

-- Name: jobs_7; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_7 FOR VALUES IN ('7');

-- Name: jobs_waiting; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs ATTACH PARTITION redrive.jobs_waiting FOR VALUES IN ('8');

-- Name: metric_deltas_0; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.metric_deltas ATTACH PARTITION redrive.metric_deltas_0 FOR VALUES IN ('0');

-- Name: metric_deltas_1; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.metric_deltas ATTACH PARTITION redrive.metric_deltas_1 FOR VALUES IN ('1');

-- Name: metric_deltas_2; Type: TABLE ATTACH; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.metric_deltas ATTACH PARTITION redrive.metric_deltas_2 FOR VALUES IN ('2');

-- Name: dlq_events status; Type: DEFAULT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.dlq_events ALTER COLUMN status SET DEFAULT 'PENDING'::text;

-- Name: dlq_events retry_count; Type: DEFAULT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.dlq_events ALTER COLUMN retry_count SET DEFAULT 0;

-- Name: dlq_events retry_after; Type: DEFAULT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.dlq_events ALTER COLUMN retry_after SET DEFAULT now();

-- Name: dlq_events created_at; Type: DEFAULT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.dlq_events ALTER COLUMN created_at SET DEFAULT now();

-- Name: dlq_events updated_at; Type: DEFAULT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.dlq_events ALTER COLUMN updated_at SET DEFAULT now();

-- Name: archived_letters archived_letters_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.archived_letters
    ADD CONSTRAINT archived_letters_pkey PRIMARY KEY (id);

-- Name: audit audit_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

-- Name: breakers breakers_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.breakers
    ADD CONSTRAINT breakers_pkey PRIMARY KEY (name);

-- Name: captured_pieces captured_pieces_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.captured_pieces
    ADD CONSTRAINT captured_pieces_pkey PRIMARY KEY (letter_id, version, place);

-- Name: claim_marks claim_marks_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.claim_marks
    ADD CONSTRAINT claim_marks_pkey PRIMARY KEY (queue, claims, rank);

-- Name: compactions compactions_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.compactions
    ADD CONSTRAINT compactions_pkey PRIMARY KEY (relation);

-- Name: counter_keys counter_keys_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.counter_keys
    ADD CONSTRAINT counter_keys_pkey PRIMARY KEY (key);

-- Name: dead_letters dead_letters_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (id);

-- Name: delayed_marks delayed_marks_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.delayed_marks
    ADD CONSTRAINT delayed_marks_pkey PRIMARY KEY (queue);

-- Name: details details_group_id_digest_key; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.details
    ADD CONSTRAINT details_group_id_digest_key UNIQUE (group_id, digest);

-- Name: details details_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.details
    ADD CONSTRAINT details_pkey PRIMARY KEY (id);

-- Name: diverted_groups diverted_groups_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.diverted_groups
    ADD CONSTRAINT diverted_groups_pkey PRIMARY KEY (queue, group_key);

-- Name: exclusive_tasks exclusive_tasks_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.exclusive_tasks
    ADD CONSTRAINT exclusive_tasks_pkey PRIMARY KEY (task);

-- Name: failure_hours failure_hours_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.failure_hours
    ADD CONSTRAINT failure_hours_pkey PRIMARY KEY (group_id, hour);

-- Name: group_buckets group_buckets_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.group_buckets
    ADD CONSTRAINT group_buckets_pkey PRIMARY KEY (queue, group_key);

-- Name: group_policies group_policies_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.group_policies
    ADD CONSTRAINT group_policies_pkey PRIMARY KEY (queue);

-- Name: group_rules group_rules_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.group_rules
    ADD CONSTRAINT group_rules_pkey PRIMARY KEY (id);

-- Name: group_slots group_slots_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.group_slots
    ADD CONSTRAINT group_slots_pkey PRIMARY KEY (queue, group_key, slot);

-- Name: groups groups_fingerprint_key; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.groups
    ADD CONSTRAINT groups_fingerprint_key UNIQUE (fingerprint);

-- Name: groups groups_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (id);

-- Name: jobs_delayed jobs_delayed_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.jobs_delayed
    ADD CONSTRAINT jobs_delayed_pkey PRIMARY KEY (id);

-- Name: leases leases_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (lease_id);

-- Name: letter_versions letter_versions_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.letter_versions
    ADD CONSTRAINT letter_versions_pkey PRIMARY KEY (letter_id, version);

-- Name: metric_drift metric_drift_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.metric_drift
    ADD CONSTRAINT metric_drift_pkey PRIMARY KEY (queue, set);

-- Name: metric_folded metric_folded_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.metric_folded
    ADD CONSTRAINT metric_folded_pkey PRIMARY KEY (label);

-- Name: metric_slots metric_slots_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.metric_slots
    ADD CONSTRAINT metric_slots_pkey PRIMARY KEY (label, queue, name);

-- Name: metric_values metric_values_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.metric_values
    ADD CONSTRAINT metric_values_pkey PRIMARY KEY (key, queue, label, cause);

-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

-- Name: policies policies_name_key; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.policies
    ADD CONSTRAINT policies_name_key UNIQUE (name);

-- Name: policies policies_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.policies
    ADD CONSTRAINT policies_pkey PRIMARY KEY (id);

-- Name: protections protections_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.protections
    ADD CONSTRAINT protections_pkey PRIMARY KEY (queue);

-- Name: pruned_regressions pruned_regressions_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.pruned_regressions
    ADD CONSTRAINT pruned_regressions_pkey PRIMARY KEY (queue);

-- Name: queue_pauses queue_pauses_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.queue_pauses
    ADD CONSTRAINT queue_pauses_pkey PRIMARY KEY (queue);

-- Name: rate_buckets rate_buckets_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.rate_buckets
    ADD CONSTRAINT rate_buckets_pkey PRIMARY KEY (queue, kind);

-- Name: rate_limits rate_limits_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.rate_limits
    ADD CONSTRAINT rate_limits_pkey PRIMARY KEY (queue, kind, each_group);

-- Name: redactions redactions_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.redactions
    ADD CONSTRAINT redactions_pkey PRIMARY KEY (id);

-- Name: redrive_runs redrive_runs_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.redrive_runs
    ADD CONSTRAINT redrive_runs_pkey PRIMARY KEY (id);

-- Name: retention retention_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.retention
    ADD CONSTRAINT retention_pkey PRIMARY KEY (id);

-- Name: ring_segments ring_segments_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.ring_segments
    ADD CONSTRAINT ring_segments_pkey PRIMARY KEY (segment);

-- Name: run_chunks run_chunks_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.run_chunks
    ADD CONSTRAINT run_chunks_pkey PRIMARY KEY (run_id, upto);

-- Name: run_letters run_letters_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.run_letters
    ADD CONSTRAINT run_letters_pkey PRIMARY KEY (run_id, ordinal);

-- Name: schedule_ticks schedule_ticks_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.schedule_ticks
    ADD CONSTRAINT schedule_ticks_pkey PRIMARY KEY (id);

-- Name: schedules schedules_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (name);

-- Name: unique_keys unique_keys_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.unique_keys
    ADD CONSTRAINT unique_keys_pkey PRIMARY KEY (queue, key);

-- Name: unique_windows unique_windows_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.unique_windows
    ADD CONSTRAINT unique_windows_pkey PRIMARY KEY (queue, key);

-- Name: workers workers_pkey; Type: CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (worker_id);

-- Name: archived_letters_by_queue; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX archived_letters_by_queue ON redrive.archived_letters USING btree (queue, id);

-- Name: dead_letters_by_audit; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_by_audit ON redrive.dead_letters USING btree (audit_id, died_at, id) WHERE (audit_id IS NOT NULL);

-- Name: dead_letters_by_group; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_by_group ON redrive.dead_letters USING btree (group_id, state, died_at, id) WHERE (state <> 'redriving'::text);

-- Name: dead_letters_by_kind; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_by_kind ON redrive.dead_letters USING btree (kind) WHERE (state <> 'redriving'::text);

-- Name: dead_letters_by_state; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_by_state ON redrive.dead_letters USING btree (state, queue, changed_at, id) WHERE (state = ANY (ARRAY['recovered'::text, 'discarded'::text, 'quarantined'::text]));

-- Name: dead_letters_captured_once; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX dead_letters_captured_once ON redrive.dead_letters USING btree (source, "position") WHERE (source IS NOT NULL);

-- Name: dead_letters_diverted; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_diverted ON redrive.dead_letters USING btree (queue, group_key, id) WHERE ((cause = 'diverted'::text) AND (state = ANY (ARRAY['open'::text, 'quarantined'::text])));

-- Name: dead_letters_for_list; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_for_list ON redrive.dead_letters USING btree (died_at, id) WHERE (state <> 'redriving'::text);

-- Name: dead_letters_open_captured; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_open_captured ON redrive.dead_letters USING btree (died_at) WHERE ((state = 'open'::text) AND (cause = 'captured'::text));

-- Name: dead_letters_open_for_redrive; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_open_for_redrive ON redrive.dead_letters USING btree (queue, died_at, id) WHERE (state = 'open'::text);

-- Name: dead_letters_open_not_redrivable; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_open_not_redrivable ON redrive.dead_letters USING btree (group_id) WHERE ((state = 'open'::text) AND ((payload IS NULL) OR (redacted IS NOT NULL)));

-- Name: dead_letters_redriving; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX dead_letters_redriving ON redrive.dead_letters USING btree (died_at, id) WHERE (state = 'redriving'::text);

-- Name: group_buckets_by_time; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX group_buckets_by_time ON redrive.group_buckets USING btree ((((queue)::text || ''::text)), full_at);

-- Name: group_rules_by_group; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX group_rules_by_group ON redrive.group_rules USING btree (group_id, action, COALESCE(pattern, ''::text));

-- Name: group_slots_by_job; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX group_slots_by_job ON redrive.group_slots USING btree (job_id);

-- Name: group_slots_held; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX group_slots_held ON redrive.group_slots USING btree (queue, held_at, job_id) WHERE (held_at IS NOT NULL);

-- Name: groups_by_class; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX groups_by_class ON redrive.groups USING btree (error_class, queue, kind);

-- Name: groups_by_queue; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX groups_by_queue ON redrive.groups USING btree (queue, state);

-- Name: groups_regressed; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX groups_regressed ON redrive.groups USING btree (queue) INCLUDE (regressions) WHERE (regressions > 0);

-- Name: jobs_for_claim; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_for_claim ON ONLY redrive.jobs USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_0_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_0_queue_expr_id_segment_idx ON redrive.jobs_0 USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_1_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_1_queue_expr_id_segment_idx ON redrive.jobs_1 USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_2_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_2_queue_expr_id_segment_idx ON redrive.jobs_2 USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_3_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_3_queue_expr_id_segment_idx ON redrive.jobs_3 USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_4_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_4_queue_expr_id_segment_idx ON redrive.jobs_4 USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_5_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_5_queue_expr_id_segment_idx ON redrive.jobs_5 USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_6_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_6_queue_expr_id_segment_idx ON redrive.jobs_6 USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_7_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_7_queue_expr_id_segment_idx ON redrive.jobs_7 USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: jobs_delayed_for_promote; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX jobs_delayed_for_promote ON redrive.jobs_delayed USING btree (queue, run_at, id);

-- Name: jobs_waiting_by_group; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX jobs_waiting_by_group ON redrive.jobs_waiting USING btree (queue, group_key, id);

-- Name: jobs_waiting_by_id; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX jobs_waiting_by_id ON redrive.jobs_waiting USING btree (queue, ((id + 0)));

-- Name: jobs_waiting_queue_expr_id_segment_idx; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX jobs_waiting_queue_expr_id_segment_idx ON redrive.jobs_waiting USING btree (queue, (((((generation)::integer > 0))::integer - (2 * (priority)::smallint))), id, segment);

-- Name: leases_for_reap; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX leases_for_reap ON redrive.leases USING btree (worker_id);

-- Name: redrive_runs_running; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX redrive_runs_running ON redrive.redrive_runs USING btree (next_at) WHERE (state = 'running'::text);

-- Name: redrive_runs_unfinished; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX redrive_runs_unfinished ON redrive.redrive_runs USING btree (state) WHERE (state = ANY (ARRAY['unapproved'::text, 'running'::text, 'paused'::text, 'halted'::text]));

-- Name: retention_one_rule; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX retention_one_rule ON redrive.retention USING btree (COALESCE((queue)::text, ''::text), state);

-- Name: run_deltas_by_run; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX run_deltas_by_run ON redrive.run_deltas USING btree (run_id);

-- Name: run_letters_by_letter; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX run_letters_by_letter ON redrive.run_letters USING btree (letter_id, run_id);

-- Name: schedule_ticks_by_schedule; Type: INDEX; Schema: redrive; Owner: -

CREATE INDEX schedule_ticks_by_schedule ON redrive.schedule_ticks USING btree (schedule, id);

-- Name: schedule_ticks_run_once; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX schedule_ticks_run_once ON redrive.schedule_ticks USING btree (schedule, tick_at) WHERE (outcome = 'fired'::text);

-- Name: unique_keys_by_job; Type: INDEX; Schema: redrive; Owner: -

CREATE UNIQUE INDEX unique_keys_by_job ON redrive.unique_keys USING btree (job_id);

-- Name: jobs_0_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_0_queue_expr_id_segment_idx;

-- Name: jobs_1_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_1_queue_expr_id_segment_idx;

-- Name: jobs_2_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_2_queue_expr_id_segment_idx;

-- Name: jobs_3_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_3_queue_expr_id_segment_idx;

-- Name: jobs_4_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_4_queue_expr_id_segment_idx;

-- Name: jobs_5_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_5_queue_expr_id_segment_idx;

-- Name: jobs_6_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_6_queue_expr_id_segment_idx;

-- Name: jobs_7_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_7_queue_expr_id_segment_idx;

-- Name: jobs_waiting_queue_expr_id_segment_idx; Type: INDEX ATTACH; Schema: redrive; Owner: -

ALTER INDEX redrive.jobs_for_claim ATTACH PARTITION redrive.jobs_waiting_queue_expr_id_segment_idx;

-- Name: dlq_events add_to_events; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER add_to_events INSTEAD OF INSERT ON redrive.dlq_events FOR EACH ROW EXECUTE FUNCTION redrive.add_to_events();

-- Name: audit append_only; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON redrive.audit FOR EACH STATEMENT EXECUTE FUNCTION redrive.protect_audit();

-- Name: dlq_events_archive archive_event; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER archive_event INSTEAD OF INSERT ON redrive.dlq_events_archive FOR EACH ROW EXECUTE FUNCTION redrive.archive_event();

-- Name: dlq_events_archive audit_archived; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER audit_archived AFTER INSERT ON redrive.dlq_events_archive FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_removed_events();

-- Name: dlq_events audit_deleted; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER audit_deleted AFTER DELETE ON redrive.dlq_events FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_removed_events();

-- Name: dead_letters bury; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER bury BEFORE INSERT ON redrive.dead_letters FOR EACH ROW EXECUTE FUNCTION redrive.complete_letter();

-- Name: dlq_events change_event; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER change_event INSTEAD OF UPDATE ON redrive.dlq_events FOR EACH ROW EXECUTE FUNCTION redrive.change_event();

-- Name: redactions check_redaction; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER check_redaction BEFORE INSERT OR UPDATE ON redrive.redactions FOR EACH ROW EXECUTE FUNCTION redrive.check_redaction();

-- Name: dead_letters count_added; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER count_added AFTER INSERT ON redrive.dead_letters REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_added_letters();

-- Name: dead_letters count_changed; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER count_changed AFTER UPDATE ON redrive.dead_letters REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_changed_letters();

-- Name: metric_deltas count_own_run; Type: TRIGGER; Schema: redrive; Owner: -

CREATE CONSTRAINT TRIGGER count_own_run AFTER INSERT ON redrive.metric_deltas DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.began_at IS NOT NULL)) EXECUTE FUNCTION redrive.count_own_run();

-- Name: dead_letters count_removed; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER count_removed AFTER DELETE ON redrive.dead_letters REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.count_removed_letters();

-- Name: dlq_events delete_event; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER delete_event INSTEAD OF DELETE ON redrive.dlq_events FOR EACH ROW EXECUTE FUNCTION redrive.delete_event();

-- Name: archived_letters delete_pieces; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER delete_pieces AFTER DELETE ON redrive.archived_letters REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.delete_pieces();

-- Name: dead_letters delete_pieces; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER delete_pieces AFTER DELETE ON redrive.dead_letters REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.delete_pieces();

-- Name: letter_versions delete_version_pieces; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER delete_version_pieces AFTER DELETE ON redrive.letter_versions REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.delete_version_pieces();

-- Name: dead_letters delete_versions; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER delete_versions AFTER DELETE ON redrive.dead_letters REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.delete_versions();

-- Name: dead_letters pass_turn; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER pass_turn AFTER UPDATE OF state ON redrive.dead_letters FOR EACH ROW WHEN (((new.group_key IS NOT NULL) AND (old.state <> new.state))) EXECUTE FUNCTION redrive.pass_turn();

-- Name: dead_letters pass_turn_at_death; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER pass_turn_at_death AFTER INSERT ON redrive.dead_letters FOR EACH ROW WHEN ((new.group_key IS NOT NULL)) EXECUTE FUNCTION redrive.pass_turn();

-- Name: dead_letters pass_turn_of_deleted; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER pass_turn_of_deleted AFTER DELETE ON redrive.dead_letters FOR EACH ROW WHEN (((old.group_key IS NOT NULL) AND (old.state <> 'redriving'::text))) EXECUTE FUNCTION redrive.pass_turn();

-- Name: dead_letters record_run_outcomes; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER record_run_outcomes AFTER UPDATE ON redrive.dead_letters REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION redrive.record_run_outcomes();

-- Name: dead_letters refuse_death; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER refuse_death BEFORE UPDATE OF cause ON redrive.dead_letters FOR EACH ROW WHEN (((new.generation <= old.generation) OR ((old.state <> 'redriving'::text) AND (NOT ((new.cause = 'captured'::text) AND (old.state = ANY (ARRAY['recovered'::text, 'discarded'::text]))))))) EXECUTE FUNCTION redrive.refuse_death();

-- Name: dead_letters reopen; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER reopen BEFORE UPDATE OF state ON redrive.dead_letters FOR EACH ROW WHEN (((old.state = 'redriving'::text) AND (new.state = 'open'::text))) EXECUTE FUNCTION redrive.reopen();

-- Name: dead_letters reopen_captured; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER reopen_captured BEFORE UPDATE OF state ON redrive.dead_letters FOR EACH ROW WHEN (((old.state = ANY (ARRAY['recovered'::text, 'discarded'::text])) AND (new.state = 'open'::text) AND (new.generation > old.generation))) EXECUTE FUNCTION redrive.reopen_captured();

-- Name: groups save_regressions; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER save_regressions AFTER DELETE ON redrive.groups REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION redrive.save_regressions();

-- Name: dead_letters tally_added_letters; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER tally_added_letters AFTER INSERT ON redrive.dead_letters REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION redrive.tally_added_letters();

-- Name: dead_letters tally_changed_letters; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER tally_changed_letters AFTER UPDATE ON redrive.dead_letters REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION redrive.tally_changed_letters();

-- Name: dead_letters tally_removed_letters; Type: TRIGGER; Schema: redrive; Owner: -

CREATE TRIGGER tally_removed_letters AFTER DELETE ON redrive.dead_letters REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION redrive.tally_removed_letters();

-- Name: schedule_ticks schedule_ticks_schedule_fkey; Type: FK CONSTRAINT; Schema: redrive; Owner: -

ALTER TABLE ONLY redrive.schedule_ticks
    ADD CONSTRAINT schedule_ticks_schedule_fkey FOREIGN KEY (schedule) REFERENCES redrive.schedules(name) ON DELETE CASCADE;
