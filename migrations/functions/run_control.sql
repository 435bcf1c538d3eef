-- Purpose: Creating, pausing, resuming and cancelling redrive runs.

-- Creates a run over the letters that match a filter now, at most `max_letters` of them, and writes the audit.
-- Returns its id and the number of letters, or NULL and 0 if none match. If `driver` is NULL, any worker may drive the run.
-- `only_ids` narrows the filter and is not kept. If the run has more letters of a queue than its protection allows, it is
-- `unapproved` until a second operator approves it.
CREATE OR REPLACE FUNCTION redrive.create_run(
    filter       jsonb,
    person       text    DEFAULT NULL,
    reason       text    DEFAULT NULL,
    to_queue     text    DEFAULT NULL,
    priority     integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    force        boolean DEFAULT false,
    max_letters         bigint  DEFAULT 9223372036854775807,
    rate         integer DEFAULT 100,
    canary       bigint  DEFAULT 0,
    driver       uuid    DEFAULT NULL,
    lease_ms     integer DEFAULT 10000,
    tolerated    integer DEFAULT 10,
    only_ids     bigint[] DEFAULT NULL,
    delay_ms     bigint  DEFAULT NULL,
    OUT id       bigint,
    OUT letters  bigint
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    in_order CONSTANT text := redrive.redrive_order(create_run.filter);
    queues text[];
    needs_approval boolean;
BEGIN
    PERFORM redrive.check_redrive(create_run.to_queue, create_run.priority, create_run.max_attempts, force, create_run.reason,
                                  create_run.delay_ms, create_run.rate, create_run.canary, create_run.tolerated);
    create_run.id := nextval(pg_get_serial_sequence('redrive.redrive_runs', 'id'));
    EXECUTE
        'INSERT INTO redrive.run_letters (run_id, ordinal, letter_id)'
        ' SELECT $2, row_number() OVER (ORDER BY ' || in_order || '), l.id FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $4 AND l.state = ''quarantined'') AND '
        || redrive.filter_letters(create_run.filter)
        || CASE WHEN create_run.only_ids IS NULL THEN '' ELSE ' AND l.id = ANY ($5)' END ||
        ' ORDER BY ' || in_order || ' LIMIT $3'
        USING create_run.filter, create_run.id, redrive.limit_of('max_letters', create_run.max_letters), force, create_run.only_ids;
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
        PERFORM redrive.check_protections(coalesce(queues, '{}'));
    END IF;
    INSERT INTO redrive.redrive_runs
        (id, state, filter, person, reason, forced, to_queue, priority, max_attempts, delay_ms, rate, canary, tolerated,
         stage_to, driver, driver_expires_at, total)
    OVERRIDING SYSTEM VALUE VALUES
        (create_run.id, CASE WHEN needs_approval THEN 'unapproved' ELSE 'running' END, create_run.filter, left(create_run.person, 200), left(create_run.reason, 1024), force,
         create_run.to_queue, create_run.priority, create_run.max_attempts, nullif(create_run.delay_ms, 0),
         create_run.rate,
         create_run.canary, create_run.tolerated, nullif(create_run.canary, 0), create_run.driver,
         CASE WHEN create_run.driver IS NOT NULL
             THEN clock_timestamp() + lease_ms * interval '1 millisecond' END, letters);
    INSERT INTO redrive.run_chunks (run_id, upto, cursor)
    SELECT create_run.id, least(s.before + c.size, letters), s.before
    FROM (SELECT CASE WHEN create_run.rate IS NULL AND create_run.canary = 0 THEN 5000 ELSE letters END) AS c (size)
    CROSS JOIN LATERAL generate_series(0, letters - 1, c.size) AS s (before);
    PERFORM redrive.record_act('create_run', create_run.person, create_run.reason, create_run.filter, 0,
        jsonb_strip_nulls(jsonb_build_object('run', create_run.id, 'members', letters,
            'to', create_run.to_queue, 'priority', create_run.priority,
            'max_attempts', create_run.max_attempts, 'delay_ms', nullif(create_run.delay_ms, 0),
            'rate', create_run.rate,
            'canary', nullif(create_run.canary, 0), 'tolerated', nullif(create_run.tolerated, 10),
            'needs_approval', nullif(coalesce(needs_approval, false), false), 'only', cardinality(create_run.only_ids), 'forced', nullif(force, false))));
END
$$;

-- Approves, pauses, resumes or cancels a run and writes the audit. An approval must come from another operator than
-- the run, or from another role if the run has no operator. Returns the state before and after, which are equal if the
-- action does not apply; NULL: no such run. A halted run resumes with a new stage, so that the failures that halted it are
-- not counted again.
-- Locks: the row of the run; it waits for a step in progress. Index: the primary key of redrive_runs.
CREATE OR REPLACE FUNCTION redrive.change_run(
    run bigint, verb text, person text DEFAULT NULL, reason text DEFAULT NULL, OUT was text, OUT became text
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    allowed text[];
    creator redrive.redrive_runs;
BEGIN
    allowed := CASE verb
        WHEN 'approve' THEN '{unapproved}'::text[]
        WHEN 'pause' THEN '{running}'::text[]
        WHEN 'resume' THEN '{paused,halted}'::text[]
        WHEN 'cancel' THEN '{unapproved,running,paused,halted}'::text[]
    END;
    PERFORM redrive.refuse(CASE WHEN allowed IS NULL THEN format(
        'unknown verb %s; expected approve, pause, resume or cancel', coalesce(verb, 'NULL')) END);
    SELECT r.* INTO creator FROM redrive.redrive_runs r WHERE r.id = run FOR UPDATE;
    was := creator.state;
    became := was;
    IF was IS NULL OR was <> ALL (allowed) THEN
        RETURN;
    END IF;
    IF verb = 'approve' THEN
        PERFORM redrive.check_protections(ARRAY[p.queue::text])
        FROM redrive.run_letters m
        JOIN redrive.dead_letters l ON l.id = m.letter_id
        JOIN redrive.protections p ON p.queue = l.queue
        WHERE m.run_id = run
        GROUP BY p.queue;
        IF coalesce(person, '') = '' OR left(person, 200) = creator.person
            OR session_user = creator.role AND creator.person IS NULL
        THEN
            RAISE EXCEPTION 'redrive: run % was created by % with role %; another operator% must approve it', run,
                coalesce(creator.person, 'an operator without a name'), creator.role,
                CASE WHEN creator.person IS NULL THEN ' with another role' ELSE '' END
                USING ERRCODE = 'insufficient_privilege';
        END IF;
    END IF;
    became := CASE verb WHEN 'pause' THEN 'paused' WHEN 'cancel' THEN 'cancelled' ELSE 'running' END;
    UPDATE redrive.redrive_runs r
    SET state = became, driver = NULL, driver_expires_at = NULL, halted_because = NULL, ended_at = CASE verb WHEN 'cancel' THEN clock_timestamp() END,
        next_at = clock_timestamp(), progress_at = clock_timestamp(),
        approved_by = CASE verb WHEN 'approve' THEN left(change_run.person, 200) ELSE r.approved_by END,
        approved_at = CASE verb WHEN 'approve' THEN clock_timestamp() ELSE r.approved_at END,
        stage = CASE was WHEN 'halted' THEN r.stage + 1 ELSE r.stage END,
        stage_to = CASE was WHEN 'halted' THEN n.cursor + nullif(r.canary, 0) ELSE r.stage_to END,
        stage_sent = CASE was WHEN 'halted' THEN n.sent ELSE r.stage_sent END,
        stage_recovered = CASE was WHEN 'halted' THEN n.recovered ELSE r.stage_recovered END,
        stage_died = CASE was WHEN 'halted' THEN n.died_alike + n.died_differently ELSE r.stage_died END
    FROM redrive.runs n
    WHERE r.id = run AND n.id = run;
    PERFORM redrive.record_act(verb || '_run', person, reason, NULL, 0, jsonb_build_object('run', run));
END
$$;

-- Folds the outcomes of runs that have no driver, up to `max_rows` of each, so that `run_deltas` stays small. Returns how
-- many were folded.
CREATE OR REPLACE FUNCTION redrive.fold_runs(max_rows integer DEFAULT 20000) RETURNS bigint
    LANGUAGE sql VOLATILE
    SET enable_seqscan = off
AS $$
    SELECT coalesce(sum(redrive.fold_run(r.id, $1)), 0)::bigint
    FROM (
        -- The driver of a run folds its deltas.
        SELECT c.id FROM redrive.redrive_runs c
        WHERE c.state <> 'running' AND c.id IN (SELECT d.run_id FROM redrive.run_deltas d)
        FOR UPDATE SKIP LOCKED
    ) r
$$;
