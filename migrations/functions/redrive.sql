-- Purpose: Redriving and discarding letters by filter.

-- Sends back up to `max_letters` matching letters, in the order of `redrive_order`, and writes the audit, in the
-- transaction of the caller. Returns each letter in that order, then those that the filter names by their ids and that did
-- not match, with `sent` or the result of `refused_letters`.
CREATE OR REPLACE FUNCTION redrive.redrive_letters(
    filter jsonb, max_letters bigint, person text, reason text, to_queue text, priority integer, max_attempts integer,
    forced boolean, delay_ms bigint
) RETURNS TABLE (id bigint, result text)
    LANGUAGE plpgsql VOLATILE
    -- Read up to `max_letters` in index order. On a table without statistics the planner would rather read
    -- and sort all of it, or all of a queue.
    SET enable_seqscan = off
AS $$
DECLARE
    chosen bigint[];
    sent   bigint[];
    eligible CONSTANT text := CASE WHEN forced THEN 'l.state IN (''open'', ''quarantined'')' ELSE 'l.state = ''open''' END;
    event  jsonb := redrive.act_event(
        CASE WHEN forced THEN 'forced' ELSE 'redriven' END, person, reason, jsonb_build_object('queue', to_queue));
BEGIN
    PERFORM redrive.check_redrive(to_queue, priority, max_attempts, forced, reason, delay_ms);
    -- All that match count, because a caller may redrive them in parts.
    PERFORM redrive.check_protections(ARRAY[p.queue], ARRAY[p.letters])
    FROM redrive.protected_letters(redrive_letters.filter, eligible) p;
    EXECUTE
        'SELECT ARRAY(SELECT l.id FROM redrive.dead_letters l WHERE ' || eligible || ' AND l.payload IS NOT NULL'
        || CASE WHEN forced THEN '' ELSE ' AND l.redacted IS NULL' END
        || ' AND ' || redrive.filter_letters(redrive_letters.filter)
        || ' ORDER BY ' || redrive.redrive_order(redrive_letters.filter) || ' LIMIT $2)'
        INTO chosen USING redrive_letters.filter, least(redrive.limit_of('max_letters', max_letters), 20001);
    -- The transaction holds all of them, and their unique keys, for which enqueues wait.
    PERFORM redrive.refuse(CASE WHEN cardinality(chosen) > 20000
        THEN 'more than 20000 letters match; create a redrive run, or set a limit' END);
    sent := ARRAY(
        SELECT b.id
        FROM redrive.send_back(
            chosen, event, to_queue, priority, max_attempts, forced, delay_ms => nullif(delay_ms, 0)) b
        WHERE b.result = 'sent');
    chosen := chosen || ARRAY(
        SELECT unnest(redrive.filter_values(redrive_letters.filter -> 'ids')::bigint[]) EXCEPT SELECT unnest(chosen) ORDER BY 1);
    RETURN QUERY
    SELECT t.id, coalesce(r.result, 'sent')
    FROM unnest(chosen) WITH ORDINALITY AS t (id, place)
    LEFT JOIN redrive.refused_letters(
        ARRAY(SELECT unnest(chosen) EXCEPT SELECT unnest(sent)), forced, to_queue) r ON r.id = t.id
    ORDER BY t.place;
    IF sent <> '{}' THEN
        PERFORM redrive.record_act('redrive', person, reason, redrive_letters.filter, cardinality(sent),
            jsonb_strip_nulls(jsonb_build_object('to', to_queue, 'priority', priority,
                'max_attempts', max_attempts, 'delay_ms', nullif(delay_ms, 0), 'forced', nullif(forced, false))));
    END IF;
END
$$;

-- Redrives the open letters that match a filter, in the transaction of the caller, and returns their
-- number. `force` includes quarantined letters and those with redacted values, and needs a `reason`. The jobs
-- become ready after `delay`.
CREATE OR REPLACE FUNCTION redrive.redrive(
    filter       jsonb,
    reason          text    DEFAULT NULL,
    person       text    DEFAULT NULL,
    to_queue     text    DEFAULT NULL,
    priority     integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    force        boolean DEFAULT false,
    max_letters         bigint  DEFAULT 9223372036854775807,
    delay        interval DEFAULT NULL
) RETURNS bigint
    LANGUAGE sql VOLATILE
AS $$
    SELECT count(*) FILTER (WHERE r.result = 'sent')
    FROM redrive.redrive_letters($1, $8, $3, $2, $4, $5, $6, $7, (extract(epoch FROM $9) * 1000)::bigint) r
$$;

-- Discards up to `max_letters` open or quarantined letters that match a filter and writes the audit, in the
-- transaction of the caller. With `undo`, it reopens discarded ones; a letter that was quarantined is quarantined again.
-- `audit` is the record of the first batch of the same operation; NULL: this is the first. A letter that has died since that
-- is not taken. Returns the letters, and the record of the first batch.
CREATE OR REPLACE FUNCTION redrive.discard_letters(
    filter jsonb, max_letters bigint, person text, reason text, audit bigint DEFAULT NULL, undo boolean DEFAULT false
) RETURNS TABLE (id bigint, audit_id bigint)
    LANGUAGE plpgsql VOLATILE
    -- A plan of an empty audit would read all of a full one.
    SET enable_seqscan = off
AS $$
DECLARE
    chosen    bigint[];
    operation bigint := discard_letters.audit;
    event     jsonb := redrive.act_event(CASE WHEN undo THEN 'reopened' ELSE 'discarded' END, person, reason);
BEGIN
    PERFORM redrive.refuse(CASE WHEN NOT redrive.flag_of('undo', undo) AND coalesce(btrim(reason, E' \t\r\n'), '') = ''
        THEN 'a discard needs a reason' END);
    chosen := ARRAY(SELECT c FROM redrive.lock_letters(
        discard_letters.filter, CASE WHEN undo THEN '{discarded}' ELSE '{open,quarantined}' END::text[],
        (SELECT a.at FROM redrive.audit a WHERE a.id = operation), max_letters) AS c);
    IF cardinality(chosen) = 0 THEN
        RETURN;
    END IF;
    operation := redrive.record_act(CASE WHEN undo THEN 'reopen' ELSE 'discard' END, person, reason,
        discard_letters.filter, cardinality(chosen), batch_of => operation);
    UPDATE redrive.dead_letters l
    SET state = CASE WHEN NOT undo THEN 'discarded'
            WHEN redrive.last_discard(l.events) ->> 'was' = 'quarantined' THEN 'quarantined' ELSE 'open' END,
        discard_reason = CASE WHEN NOT undo THEN redrive.clip(discard_letters.reason, 1024) END,
        retry_after = CASE WHEN undo AND l.cause = 'captured' AND redrive.last_discard(l.events) ->> 'was' IS NULL
            THEN clock_timestamp() END,
        claimed_until = NULL, audit_id = operation, changed_at = clock_timestamp(),
        events = redrive.add_event(l.events, CASE l.state
            WHEN 'quarantined' THEN event || '{"was": "quarantined"}' ELSE event END)
    WHERE l.id = ANY (chosen);
    RETURN QUERY SELECT u.id, operation FROM unnest(chosen) AS u (id);
END
$$;

-- Discards the open and quarantined letters that match a filter, in the transaction of the caller, and
-- returns their number.
CREATE OR REPLACE FUNCTION redrive.discard(
    filter jsonb, reason text, person text DEFAULT NULL, max_letters bigint DEFAULT 9223372036854775807
) RETURNS bigint
    LANGUAGE sql VOLATILE
AS $$
    SELECT count(*) FROM redrive.discard_letters($1, $4, $3, $2)
$$;

-- Reopens the discarded letters that match a filter, in the transaction of the caller, and returns their number.
CREATE OR REPLACE FUNCTION redrive.reopen_discarded(
    filter jsonb, reason text DEFAULT NULL, person text DEFAULT NULL, max_letters bigint DEFAULT 9223372036854775807
) RETURNS bigint
    LANGUAGE sql VOLATILE
AS $$
    SELECT count(*) FROM redrive.discard_letters($1, $4, $3, $2, NULL, true)
$$;

-- Returns queues and kinds in which jobs wait: the queue is paused (a time but no breaker), a breaker is not closed, or
-- no live worker handles them. These are the jobs that a redrive of at most `max_letters` would send, or, if `forced` is
-- NULL, those of redriving letters.
CREATE OR REPLACE FUNCTION redrive.blocked_letters(
    filter jsonb, to_queue text DEFAULT NULL, forced boolean DEFAULT false, max_letters bigint DEFAULT NULL
)
    RETURNS TABLE (queue text, kind text, letters bigint, breaker text, since timestamptz, is_served boolean)
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT * FROM ('
        ' SELECT g.queue, g.kind, g.letters, b.name, b.held_since, EXISTS ('
        '  SELECT FROM redrive.workers w WHERE w.queue = g.queue'
        '  AND w.expires_at > statement_timestamp() AND (w.kinds IS NULL OR g.kind = ANY (w.kinds))) AS is_served'
        ' FROM (' || CASE WHEN forced IS NULL
        THEN '  SELECT coalesce($2, l.queue::text) AS queue, l.kind::text AS kind, count(*) AS letters'
            '  FROM redrive.dead_letters l'
            '  WHERE l.state = ''redriving'' AND ' || redrive.filter_letters(filter) || ' GROUP BY 1, 2'
        ELSE '  SELECT p.queue, p.kind, count(*) AS letters FROM redrive.preview_redrive($1, $3, $2, $4) p'
            '  WHERE p.result = ''sent'' GROUP BY 1, 2' END || ') g'
        -- A pause comes first, then the breaker of the queue.
        ' LEFT JOIN LATERAL ('
        '  SELECT h.name, h.held_since FROM ('
        '   SELECT NULL AS name, p.paused_at AS held_since FROM redrive.paused_queues p WHERE p.queue = g.queue UNION ALL'
        '   SELECT n.name, n.opened_at FROM redrive.breakers n WHERE n.state <> ''closed'''
        '    AND (n.name = ''queue:'' || g.queue OR n.name NOT LIKE ''queue:%'' AND g.kind = ANY (n.kinds))) h'
        '  ORDER BY h.name IS NOT NULL, h.name <> ''queue:'' || g.queue, h.name LIMIT 1) b ON true) x'
        ' WHERE x.held_since IS NOT NULL OR NOT x.is_served ORDER BY x.letters DESC, x.queue, x.kind'
        USING filter, to_queue, forced, max_letters;
END
$$;

-- Returns what a redrive would do now with each letter that it would select: `sent`, or why it would be left
-- out, as in `refused_letters`. It selects as `create_run` does: open letters, and quarantined ones if
-- `forced`, at most `max_letters`, oldest death first. Of several letters with one unique key, the oldest
-- gets it.
CREATE OR REPLACE FUNCTION redrive.preview_redrive(
    filter jsonb, forced boolean DEFAULT false, to_queue text DEFAULT NULL, max_letters bigint DEFAULT NULL
) RETURNS TABLE (id bigint, died_at timestamptz, result text, queue text, kind text)
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'WITH members AS MATERIALIZED ('
        ' SELECT l.id, l.died_at, coalesce($3, l.queue::text) AS queue, l.kind::text AS kind,'
        '  CASE WHEN l.group_key IS NULL THEN l.unique_key'
        '   WHEN l.unique_key IS NOT NULL THEN redrive.retaken_key(l.id, l.queue, $3, l.group_key, l.unique_key) END AS unique_key,'
        '  CASE WHEN l.group_key IS NULL THEN l.died_at END AS key_order,'
        '  redrive.refusal(l, $2, NULL) AS refused'
        ' FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $2 AND l.state = ''quarantined'') AND '
        || redrive.filter_letters(filter)
        -- Without a limit, sorting all of them would be wasted work.
        || CASE WHEN max_letters IS NULL THEN '' ELSE ' ORDER BY ' || redrive.redrive_order(filter) || ' LIMIT $4' END || ')'
        -- Only those with a key are sorted. A full join, because it can only be hashed or merged; see settle.sql.
        'SELECT m.id, m.died_at, CASE WHEN k.place > 1 OR k.place = 1 AND EXISTS ('
        '  SELECT FROM redrive.unique_keys u WHERE u.queue = m.queue AND u.key = m.unique_key) THEN ''conflict'''
        ' ELSE coalesce(m.refused, ''sent'') END, m.queue, m.kind FROM members m FULL JOIN ('
        '  SELECT w.id, row_number() OVER (PARTITION BY w.queue, w.unique_key ORDER BY w.key_order, w.id) AS place'
        '  FROM members w WHERE w.refused IS NULL AND w.unique_key IS NOT NULL) k ON k.id = m.id'
        USING filter, forced, to_queue, max_letters;
END
$$;
