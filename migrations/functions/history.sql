-- Purpose: The history of a job's attempts, and the events of a letter.

-- Adds an event to a letter. The 5 oldest and the 45 newest events are kept.
CREATE OR REPLACE FUNCTION redrive.add_event(events jsonb, event jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- `||` appends an object as an element. (jsonb_build_array is only STABLE, which would prevent inlining.
    -- Measured: a tenth of the time of a redrive.)
    RETURN CASE WHEN jsonb_array_length(events) < 50 THEN events ELSE events - 5 END || event;

-- Returns the last discard of a letter, which names the state `was` of a quarantined one. Other events may follow it,
-- such as a redaction.
CREATE OR REPLACE FUNCTION redrive.last_discard(events jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.event
    FROM jsonb_array_elements(events) WITH ORDINALITY AS e (event, place)
    WHERE e.event ->> 'event' = 'discarded'
    ORDER BY e.place DESC
    LIMIT 1;
END;

-- Shortens a history to `max_records` records by leaving out the middle: the first failures and the latest ones matter most.
CREATE OR REPLACE FUNCTION redrive.cut_history(history jsonb, max_records integer) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    IF jsonb_array_length(history) > max_records THEN
        history := (
            SELECT jsonb_agg(r.record ORDER BY r.place)
            FROM jsonb_array_elements(history) WITH ORDINALITY AS r (record, place)
            WHERE r.place <= 5 OR r.place > jsonb_array_length(history) - max_records + 5);
    END IF;
    RETURN history;
END
$$;

-- Adds an attempt to a history. At most 20 attempts are kept: the 5 oldest and the 15 newest.
CREATE OR REPLACE FUNCTION redrive.add_attempt(history jsonb, attempt jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- Inlined, so that most attempts call no function. `||` appends an object as an element.
    RETURN CASE WHEN jsonb_array_length(history) > 19 THEN redrive.cut_history(history, 19)
        ELSE coalesce(history, '[]') END || attempt;

-- Returns the history of a letter including its fatal attempt. Inlined, so that no letter is copied.
CREATE OR REPLACE FUNCTION redrive.full_history(letter redrive.dead_letters) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN CASE WHEN letter.run_ms IS NULL THEN letter.history ELSE letter.history || jsonb_build_object(
        'generation', letter.generation, 'attempt', letter.attempts, 'outcome', letter.cause,
        'run_ms', letter.run_ms, 'error_class', letter.error_class,
        'error_message', left(letter.error_message, 1000), 'worker', letter.worker_id,
        'host', letter.host, 'version', letter.version, 'pid', letter.pid, 'ended_at', letter.died_at) END;

-- Returns the history of a letter including its last failure: the fatal attempt or the captured failure.
-- A captured failure becomes a record when the letter fails again; until then the letter's columns hold it.
CREATE OR REPLACE FUNCTION redrive.past_failures(letter redrive.dead_letters) RETURNS jsonb
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    -- The last record is the captured failure, or a later one that a consumer of `dlq_events` reported.
    IF letter.cause <> 'captured' OR letter.history -> -1 -> 'generation' = to_jsonb(letter.generation) THEN
        RETURN redrive.full_history(letter);
    END IF;
    -- It was no attempt.
    letter.attempts := 0;
    letter.run_ms := 0;
    RETURN jsonb_set(redrive.full_history(letter), '{-1,run_ms}', 'null');
END
$$;
