-- Purpose: Sending letters back as jobs.

-- Checks the arguments of redrives and runs; only a run has the last three.
CREATE OR REPLACE FUNCTION redrive.check_redrive(
    to_queue text, priority integer, max_attempts integer, forced boolean, reason text, delay_ms bigint,
    rate integer DEFAULT NULL, canary bigint DEFAULT 0, tolerated integer DEFAULT 0
) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    PERFORM redrive.check_name('queue', coalesce(to_queue, '?'));
    PERFORM redrive.refuse((
        SELECT format('the %s is %s; it must be between %s and %s', v.name, coalesce(v.value::text, 'NULL'), v.least, v.most)
        FROM (VALUES
            ('priority', priority, -1000, 1000, false), ('max_attempts', max_attempts, 1, 1000, false),
            ('delay in milliseconds', delay_ms, 0, 315360000000, false), ('rate', rate, 1, 1000000, false),
            ('canary', canary, 0, 4294967295, true), ('tolerated percentage', tolerated, 0, 100, true)
        ) AS v (name, value, least, most, is_needed)
        WHERE v.value NOT BETWEEN v.least AND v.most OR v.value IS NULL AND v.is_needed
        LIMIT 1));
    PERFORM redrive.refuse(CASE WHEN forced IS NULL OR forced AND coalesce(btrim(reason, E' \t\r\n'), '') = ''
        THEN 'a forced redrive needs a reason' END);
END
$$;

-- Returns the order in which letters `l` that match a filter go back, as the end of a query: the oldest death first. Of
-- a diverted group, a letter that goes before an earlier one only becomes a letter again, so these go in the order of
-- their ids, as if all had died when the group was diverted.
CREATE OR REPLACE FUNCTION redrive.redrive_order(filter jsonb) RETURNS text
    LANGUAGE sql STABLE
    RETURN CASE WHEN EXISTS (
        SELECT FROM redrive.diverted_groups d
        WHERE NOT filter ? 'queue' OR d.queue = ANY (redrive.filter_values(filter -> 'queue')))
    THEN 'coalesce((SELECT d.since FROM redrive.diverted_groups d'
        ' WHERE d.queue = l.queue AND d.group_key = l.group_key), l.died_at), l.id'
    -- An index has this order.
    ELSE 'l.died_at, l.id' END;

-- Returns the headers of a captured failure's job: those of the failure, and `redrive-source` and
-- `redrive-position`. Headers that would be too large do not change.
CREATE OR REPLACE FUNCTION redrive.captured_headers(headers jsonb, source text, "position" text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN octet_length(w.headers::text) <= 65536 THEN w.headers ELSE captured_headers.headers END
    -- Of a source or position that was shortened, the headers have the original.
    FROM (SELECT json_build_object('redrive-source', captured_headers.source,
        'redrive-position', captured_headers."position")::jsonb || coalesce(captured_headers.headers, '{}')) AS w (headers);
END;

-- Returns whether a role is one of those that may redrive, or a member of one; NULL: every role may.
CREATE OR REPLACE FUNCTION redrive.may_redrive(role text, roles text[]) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN $2 IS NULL OR EXISTS (
        SELECT FROM pg_roles k JOIN pg_roles own ON own.rolname = $1 AND pg_has_role(own.oid, k.oid, 'MEMBER')
        WHERE k.rolname = ANY ($2));

-- Returns the protected queues that have open or quarantined letters `l` which match a filter and are `eligible`, with their
-- number, counted up to one more than needs no approval.
CREATE OR REPLACE FUNCTION redrive.protected_letters(filter jsonb, eligible text)
    RETURNS TABLE (queue text, approve_above bigint, roles text[], letters bigint)
    LANGUAGE plpgsql STABLE
    -- Without statistics the planner would rather read all of a queue.
    SET enable_seqscan = off
AS $$
DECLARE
    conditions CONSTANT text := redrive.filter_letters(filter);
    few        text[];
BEGIN
    FOR queue, approve_above, roles IN
        SELECT p.queue, p.approve_above, p.roles FROM redrive.protections p
        WHERE (p.queue = protected_letters.filter ->> 'queue') IS NOT FALSE
    LOOP
        -- These keys have an index, which finds few letters without reading a whole queue. IS TRUE hides that of open letters.
        IF few IS NULL AND filter ?| '{ids,group,class,audit}' THEN
            EXECUTE format(
                'SELECT ARRAY(SELECT l.queue FROM redrive.dead_letters l'
                ' WHERE l.state IN (''open'', ''quarantined'') AND (%s) IS TRUE AND %s LIMIT 1000)', eligible, conditions)
                INTO few USING filter;
        END IF;
        letters := (SELECT count(*) FROM unnest(few) AS f (queue) WHERE f.queue = protected_letters.queue);
        IF (cardinality(few) < 1000) IS NOT TRUE THEN
            -- The queue and the state are constants, for the partial indexes: else each protection could read all letters.
            EXECUTE format(
                'SELECT count(*) FROM ('
                ' (SELECT FROM redrive.dead_letters l WHERE l.queue = %1$L AND l.state = ''open'' AND %2$s AND %3$s LIMIT $2)'
                ' UNION ALL'
                ' (SELECT FROM redrive.dead_letters l WHERE l.queue = %1$L AND l.state = ''quarantined'' AND %2$s AND %3$s LIMIT $2)'
                ' LIMIT $2) few', protected_letters.queue, eligible, conditions)
                INTO letters
                USING filter, least(coalesce(protected_letters.approve_above, 0), 9223372036854775806) + 1;
        END IF;
        IF letters > 0 THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- Raises an error if the role of the session may not redrive letters of one of these queues (NULL: of any queue), or if
-- one of them requires an approval for this number of letters.
CREATE OR REPLACE FUNCTION redrive.check_protections(queues text[], letters bigint[] DEFAULT '{}') RETURNS void
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    refused record;
BEGIN
    SELECT p.*, r.may INTO refused
    FROM redrive.protections p
    CROSS JOIN redrive.may_redrive(session_user, p.roles) AS r (may)
    LEFT JOIN unnest(queues, letters) AS n (queue, letters) ON n.queue = p.queue
    WHERE (queues IS NULL OR n.queue IS NOT NULL) AND (NOT r.may OR n.letters > p.approve_above)
    ORDER BY p.queue
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    ELSIF NOT refused.may THEN
        RAISE EXCEPTION 'redrive: role % may not redrive letters of queue %; it is limited to the roles: %',
            session_user, refused.queue, array_to_string(refused.roles, ', ')
            USING ERRCODE = 'insufficient_privilege', HINT = 'redrive dlq protection list';
    END IF;
    RAISE EXCEPTION 'redrive: more than % letters of queue % need the approval of a second operator; create a redrive run',
        refused.approve_above, refused.queue
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'redrive dlq redrive ... --detach creates a run; redrive dlq runs approve approves it.';
END
$$;

-- Returns the unique key that a letter takes again when it goes back to a queue; NULL: none. A letter that holds its group
-- leaves its key to a job that waits behind it: neither could ever run before the other.
CREATE OR REPLACE FUNCTION redrive.retaken_key(id bigint, queue text, to_queue text, group_key text, unique_key text)
RETURNS text
    LANGUAGE sql STABLE
    SET enable_seqscan = off
AS $$
SELECT CASE WHEN NOT EXISTS (
        SELECT FROM redrive.group_slots s
        JOIN redrive.unique_keys k ON k.queue = s.queue AND k.key = $5
        WHERE s.job_id = $1 AND s.held_at IS NOT NULL AND s.queue = coalesce($3, $2) AND (
            EXISTS (
                SELECT FROM redrive.jobs_waiting j
                WHERE j.queue = s.queue AND (j.meta).group_key = s.group_key AND j.id = k.job_id)
            OR EXISTS (
                SELECT FROM redrive.jobs_delayed j
                WHERE j.id = k.job_id AND j.queue = s.queue AND (j.meta).group_key = s.group_key)))
    THEN $5 END
$$;

-- Locks those of these letters that are of diverted groups. Returns the ones that must wait: another session has locked
-- them for long, or one before them in their group.
--
-- The statement that ends a job locks the next letter of its group for a moment. To pass that letter would divert those
-- behind it again.
CREATE OR REPLACE FUNCTION redrive.lock_diverted(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    diverted CONSTANT bigint[] := ARRAY(
        SELECT l.id
        FROM redrive.dead_letters l
        JOIN redrive.diverted_groups g ON g.queue = l.queue AND g.group_key = l.group_key
        WHERE l.id = ANY (lock_diverted.ids) AND l.cause = 'diverted' AND l.state IN ('open', 'quarantined'));
    held     CONSTANT bigint[] := redrive.hold_letters(diverted);
BEGIN
    RETURN ARRAY(
        SELECT l.id FROM redrive.dead_letters l
        WHERE l.id = ANY (diverted) AND EXISTS (
            SELECT FROM redrive.dead_letters b
            WHERE b.id = ANY (diverted) AND b.id <> ALL (held) AND b.id <= l.id AND b.queue = l.queue AND b.group_key = l.group_key));
END
$$;

-- Returns why a redrive leaves out a letter, apart from its unique key, its group and its locks; NULL: it takes it. Without
-- settings and subqueries the planner inlines it, so that no letter is copied.
CREATE OR REPLACE FUNCTION redrive.refusal(l redrive.dead_letters, forced boolean, as_of timestamptz) RETURNS text
    LANGUAGE sql STABLE
    RETURN CASE
        WHEN l.state = 'quarantined' AND forced IS NOT TRUE THEN 'quarantined'
        WHEN l.state NOT IN ('open', 'quarantined') THEN 'not_open'
        WHEN l.payload IS NULL THEN
            CASE WHEN octet_length(l.raw) > 16777216 THEN 'too_large' ELSE 'no_json' END
        WHEN l.redacted IS NOT NULL AND forced IS NOT TRUE THEN 'redacted'
        WHEN l.died_at > as_of THEN 'died_again'
        WHEN l.claimed_until > statement_timestamp() THEN 'claimed'
    END;

-- Sends letters back; nothing else does. Each becomes a job with the same id, the next generation and
-- a fresh budget of attempts. The letter keeps the history of earlier generations and changes only with
-- its job. Returns the letters it held: `sent`, or `conflict` if another job holds the unique key.
-- `refused_letters` explains the ids that are missing.
--
-- It takes the letters that have no `refusal`. Those locked by another session are skipped; for those of diverted groups,
-- see `lock_diverted`. `ordinals` are the run members, parallel to `ids`. With a `delay_ms`, the jobs become ready after
-- this many milliseconds. One statement takes at most 5,000 letters and about 32 MiB of payloads.
CREATE OR REPLACE FUNCTION redrive.send_back(
    ids          bigint[],
    event        jsonb,
    to_queue     text     DEFAULT NULL,
    priority     integer  DEFAULT NULL,
    max_attempts integer  DEFAULT NULL,
    forced       boolean  DEFAULT false,
    run_id       bigint   DEFAULT NULL,
    ordinals     bigint[] DEFAULT NULL,
    policy_id    bigint   DEFAULT NULL,
    delay_ms     bigint   DEFAULT NULL,
    as_of        timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, ordinal bigint, result text)
    LANGUAGE plpgsql VOLATILE
    -- The join with the arrays must use the primary key, regardless of statistics. With a custom plan, an index
    -- on open letters qualifies too; on a table without statistics, it would be read for each letter to send.
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
    -- A batch of letters is materialized three times.
    SET work_mem = '32MB'
AS $$
DECLARE
    passed bigint[] := '{}';
    first_place integer;
    last_place  integer;
BEGIN
    -- A run was checked when it was created or approved, a policy when it looked for letters.
    IF EXISTS (SELECT FROM redrive.protections) THEN
        IF EXISTS (SELECT FROM redrive.redrive_runs r WHERE r.id = send_back.run_id AND r.state = 'unapproved') THEN
            RAISE EXCEPTION 'redrive: run % needs an approval', send_back.run_id
                USING ERRCODE = 'object_not_in_prerequisite_state';
        ELSIF send_back.run_id IS NULL AND send_back.policy_id IS NULL THEN
            PERFORM redrive.check_protections(ARRAY[l.queue::text], ARRAY[count(*)])
            FROM redrive.dead_letters l WHERE l.id = ANY (send_back.ids) GROUP BY l.queue;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM redrive.diverted_groups) THEN
        passed := redrive.lock_diverted(send_back.ids);
    END IF;
    -- A statement holds the payloads of its letters in memory, so that large ones go in several.
    FOR first_place, last_place IN
        SELECT min(s.place), max(s.place)
        FROM (
            SELECT a.place, (a.place - 1) / 5000
                + sum(coalesce(pg_column_size(l.payload), 0)) OVER (ORDER BY a.place) / 33554432 AS batch
            FROM unnest(send_back.ids) WITH ORDINALITY AS a (id, place)
            LEFT JOIN redrive.dead_letters l ON l.id = a.id
        ) s
        GROUP BY s.batch ORDER BY 1
    LOOP
        RETURN QUERY
        WITH held AS MATERIALIZED (
            SELECT l.id, a.ordinal, coalesce(send_back.to_queue, l.queue::text) AS queue,
                   CASE WHEN l.group_key IS NULL THEN l.unique_key
                       WHEN l.unique_key IS NOT NULL
                       THEN redrive.retaken_key(l.id, l.queue, send_back.to_queue, l.group_key, l.unique_key) END AS unique_key,
                   -- Of the letters of a group with one key, that of the first job takes it.
                   CASE WHEN l.group_key IS NULL THEN l.died_at END AS died_at
            FROM unnest(send_back.ids[first_place:last_place], send_back.ordinals[first_place:last_place]) AS a (id, ordinal)
            CROSS JOIN LATERAL (
                SELECT d.id, d.unique_key, d.died_at, d.queue, d.group_key
                FROM redrive.dead_letters d
                WHERE d.id = a.id AND d.id <> ALL (passed) AND redrive.refusal(d, send_back.forced, send_back.as_of) IS NULL
                FOR UPDATE SKIP LOCKED
            ) l
        ),
        -- A letter with a unique key takes it again. If a live job holds the key, the letter stays open.
        keyed AS MATERIALIZED (
            SELECT k.job_id
            FROM (
                -- In a fixed order, so that two operators cannot deadlock.
                SELECT array_agg(h.queue ORDER BY h.queue, h.unique_key, h.died_at, h.id) AS queues,
                       array_agg(h.unique_key::text ORDER BY h.queue, h.unique_key, h.died_at, h.id) AS keys,
                       array_agg(h.id ORDER BY h.queue, h.unique_key, h.died_at, h.id) AS ids
                FROM held h
                WHERE h.unique_key IS NOT NULL
                HAVING count(*) > 0
            ) w
            CROSS JOIN LATERAL redrive.retake_keys(w.queues, w.keys, w.ids) AS k (job_id)
        ),
        redriving AS (
            UPDATE redrive.dead_letters l
            SET state = 'redriving', changed_at = clock_timestamp(), retry_after = NULL, claimed_until = NULL,
                -- Not coalesce, whose result would be checked against the domain for every letter.
                queue = CASE WHEN send_back.to_queue IS NULL THEN l.queue ELSE send_back.to_queue::redrive.name END,
                run_id = send_back.run_id, run_ordinal = h.ordinal, policy_id = send_back.policy_id,
                events = redrive.add_event(l.events, send_back.event)
            FROM held h
            WHERE l.id = h.id AND (h.unique_key IS NULL OR h.id IN (SELECT k.job_id FROM keyed k))
            RETURNING l.id, h.ordinal, l.queue, l.group_key, ROW(
                l.id, clock_timestamp() + send_back.delay_ms * interval '1 millisecond', l.enqueued_at, 0,
                coalesce(send_back.max_attempts, l.max_attempts), l.generation + 1, NULL,
                coalesce(send_back.priority, l.priority), 0, 0, l.queue, l.kind, l.payload, NULL, NULL,
                -- A job that is sent back does not expire.
                redrive.new_meta(0, 5, h.unique_key, CASE WHEN l.cause = 'captured' THEN redrive.captured_headers(
                        l.headers - 'redrive-expires-in-ms', l.source, l."position")
                    WHEN l.headers ? 'redrive-expires-in-ms' THEN l.headers - 'redrive-expires-in-ms'
                    ELSE l.headers END, l.group_key))::redrive.job AS job
        ),
        locked AS MATERIALIZED (
            SELECT redrive.lock_turns(array_agg(d.id)) FROM redriving d WHERE d.group_key IS NOT NULL HAVING count(*) > 0
        ),
        returned AS MATERIALIZED (
            SELECT redrive.requeue(array_agg(d.job) FILTER (WHERE send_back.delay_ms IS NULL),
                                   array_agg(d.job) FILTER (WHERE send_back.delay_ms IS NOT NULL), false)
            FROM redriving d
            WHERE (SELECT count(*) FROM locked) >= 0
            HAVING count(*) > 0
        ),
        woken AS MATERIALIZED (
            SELECT redrive.wake(q.queue)
            FROM (SELECT DISTINCT d.queue FROM redriving d WHERE send_back.delay_ms IS NULL) q
            WHERE (SELECT count(*) FROM returned) >= 0
        )
        SELECT d.id, d.ordinal, 'sent' FROM redriving d
        WHERE (SELECT count(*) FROM returned) + (SELECT count(*) FROM woken) >= 0
        UNION ALL
        SELECT h.id, h.ordinal, 'conflict' FROM held h
        WHERE h.unique_key IS NOT NULL AND h.id NOT IN (SELECT k.job_id FROM keyed k);
    END LOOP;
END
$$;

-- Explains why letters were not sent back: `gone`, `not_open` (redriving, recovered or discarded),
-- `quarantined` (needs force), `too_large` (captured bytes that exceed 16 MiB), `no_json` (captured bytes that are not
-- JSON), `redacted` (its payload was redacted and needs force), `died_again` (it died after `as_of`), `conflict`,
-- `claimed` (by a consumer of `dlq_events`), or `locked` (another session held it; a retry may succeed).
-- Index: the primary keys of dead_letters and unique_keys.
CREATE OR REPLACE FUNCTION redrive.refused_letters(
    ids bigint[], forced boolean DEFAULT false, to_queue text DEFAULT NULL, as_of timestamptz DEFAULT NULL
)
    RETURNS TABLE (id bigint, result text)
    LANGUAGE sql STABLE
    SET enable_seqscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
    SELECT a.id, CASE WHEN l.id IS NULL THEN 'gone' ELSE coalesce(redrive.refusal(l, refused_letters.forced, refused_letters.as_of), CASE
        WHEN l.unique_key IS NOT NULL AND EXISTS (
            SELECT FROM redrive.unique_keys k
            WHERE k.queue = coalesce(refused_letters.to_queue, l.queue::text)
                AND k.key = redrive.retaken_key(l.id, l.queue, refused_letters.to_queue, l.group_key, l.unique_key)
        ) THEN 'conflict'
        ELSE 'locked' END) END
    FROM unnest(refused_letters.ids) AS a (id)
    LEFT JOIN redrive.dead_letters l ON l.id = a.id
$$;
