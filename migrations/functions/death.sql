-- Purpose: Triggers that complete a letter when its job dies or its failure is captured again.

-- Returns the value that a setting of the transaction keeps for a key; NULL: it keeps none, or that of another key. Inlined.
CREATE OR REPLACE FUNCTION redrive.recall(slot text, key text) RETURNS text
    LANGUAGE sql STABLE
    RETURN CASE WHEN starts_with(current_setting(slot, true), key) THEN substr(current_setting(slot, true), length(key) + 1) END;

-- Keeps a value for a key, and returns it.
CREATE OR REPLACE FUNCTION redrive.remember(slot text, key text, value text) RETURNS text
    LANGUAGE sql VOLATILE
    RETURN substr(set_config(slot, key || value, true), length(key) + 1);

-- Completes each new letter: redacts it, finds its group and stores a long detail once.
--
-- A statement may write hundreds of letters that died of the same error. The masks, stack frames, groups and details of some
-- messages are therefore remembered, under keys with the time of the statement, which invalidates them for
-- the next one. (Measured: this saves a third of the time of a death.)
CREATE OR REPLACE FUNCTION redrive.complete_letter() RETURNS trigger
    LANGUAGE plpgsql
AS $$
DECLARE
    stamp text := statement_timestamp();
    masked text;
    frame text;
    title text;
    key text;
    slot text;
    line text;
    line_key text;
    line_slot text;
    frames text;
BEGIN
    IF EXISTS (SELECT FROM redrive.redactions) THEN
        NEW := redrive.redact(NEW);
    END IF;
    -- The consumers of `dlq_events` may claim a captured failure at once.
    IF NEW.cause = 'captured' AND NEW.state = 'open' THEN
        NEW.retry_after := coalesce(NEW.retry_after, NEW.died_at);
    END IF;
    IF octet_length(NEW.error_message) > 2048 THEN
        NEW.error_detail := redrive.clip(concat_ws(E'\n', NEW.error_message, NEW.error_detail), 65536);
        NEW.error_message := redrive.clip(NEW.error_message, 2048);
    END IF;

    -- Messages that differ only in digits have the same mask, unless digits are left in it.
    key := concat_ws(E'\x1f', stamp, translate(NEW.error_message, '123456789', '000000000'), '');
    slot := 'redrive.mask_' || (hashtext(key) & 255);
    masked := redrive.recall(slot, key);
    IF masked IS NULL THEN
        line := redrive.mask_ids(NEW.error_message);
        line_key := concat_ws(E'\x1f', stamp, line, '');
        line_slot := 'redrive.mask_' || (hashtext(line_key) & 255);
        masked := coalesce(redrive.recall(line_slot, line_key), redrive.remember(line_slot, line_key, redrive.mask_rest(line)));
        IF masked !~ '[0-9]' THEN
            masked := redrive.remember(slot, key, masked);
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
        frame := nullif(coalesce(
            redrive.recall(slot, key), redrive.remember(slot, key, coalesce(redrive.top_frame(NEW.error_detail), ''))), '');
    END IF;
    -- The title identifies a failure within a queue, kind and error class.
    title := coalesce(NEW.failure_key, concat_ws(' at ', nullif(masked, ''), frame), '');
    key := concat_ws(E'\x1f', stamp, NEW.queue, NEW.kind, NEW.error_class, title, '');
    slot := 'redrive.group_' || (hashtext(key) & 63);
    NEW.group_id := coalesce(redrive.recall(slot, key), redrive.remember(slot, key,
        redrive.group_of(NEW.queue, NEW.kind, NEW.error_class, title, NEW.version)::text));
    IF EXISTS (SELECT FROM redrive.group_rules) THEN
        NEW.group_id := redrive.ruled_group(NEW);
    END IF;

    IF octet_length(NEW.error_detail) > 256 THEN
        -- Details of one failure differ in their cause, which comes first. Below the first line a detail
        -- usually equals the previous one and needs no masking. (Measured: this saves a seventh of the time
        -- of such a death.)
        frames := left(NEW.error_detail, 250);
        line := split_part(frames, E'\n', 1);
        frames := substr(frames, length(line) + 1);
        line := regexp_replace(line, E'\\w*[0-9]\\w*', '?', 'g');
        key := concat_ws(E'\x1f', stamp, NEW.group_id, line || frames, '');
        slot := 'redrive.detail_' || (hashtext(key) & 63);
        NEW.detail_id := nullif(coalesce(redrive.recall(slot, key), redrive.remember(slot, key, coalesce(redrive.detail_of(
            NEW.group_id, line || regexp_replace(frames, E'\\w*[0-9]\\w*', '?', 'g'), NEW.error_detail)::text, ''))), '');
        -- If the detail is not stored, the letter keeps its start and its end.
        NEW.error_detail := CASE WHEN NEW.detail_id IS NULL THEN redrive.clip(NEW.error_detail, 1024) END;
    END IF;
    RETURN NEW;
END
$$;

-- Reopens a letter in the next generation: its redriven job died again, or its failure was captured again after it was
-- closed. It keeps what happened before: in its events the earlier death and a recovery (a discard is one already), and in
-- its history all failures. The job carried the history of its generation, the letter those of the generations before.
-- Content that a capture replaces is kept as a version, and so is what an edit of the job, or an enqueue, replaced.
--
-- A letter is quarantined when it dies of the same error for the third time in a row after a redrive, or of any error for
-- the tenth time. A job that was diverted did not fail. A recovery ends a row of like deaths. A discard does not.
CREATE OR REPLACE FUNCTION redrive.reopen() RETURNS trigger
    LANGUAGE plpgsql
AS $$
DECLARE
    is_captured  CONSTANT boolean := OLD.state <> 'redriving';
    failed_in    CONSTANT bigint := CASE WHEN OLD.cause <> 'diverted' THEN OLD.group_id ELSE (
        SELECT (e.event ->> 'group')::bigint
        FROM jsonb_array_elements(OLD.events) WITH ORDINALITY AS e (event, place)
        WHERE e.event ->> 'event' = 'died' AND e.event ->> 'cause' <> 'diverted'
        ORDER BY e.place DESC
        LIMIT 1) END;
    -- A redrive may have changed the queue.
    is_alike     CONSTANT boolean := NEW.group_id = failed_in OR EXISTS (
        SELECT FROM redrive.groups a JOIN redrive.groups b USING (kind, error_class, title)
        WHERE a.id = NEW.group_id AND b.id = failed_in);
    has_changed  CONSTANT boolean := (NEW.payload::text, NEW.raw) IS DISTINCT FROM (OLD.payload::text, OLD.raw);
    earlier      redrive.dead_letters := OLD;
BEGIN
    IF EXISTS (SELECT FROM redrive.redactions) THEN
        IF NOT has_changed THEN
            -- The content of the new failure is redacted, so this one needs no redaction.
            earlier.payload := NULL;
            earlier.raw := NULL;
        END IF;
        -- A rule may be newer than the earlier failure.
        earlier := redrive.redact(earlier);
    END IF;
    IF has_changed AND (NEW.payload::text, NEW.raw) IS DISTINCT FROM (earlier.payload::text, earlier.raw) THEN
        INSERT INTO redrive.letter_versions (letter_id, version, payload, raw, redacted, reason)
        VALUES (earlier.id, redrive.next_version(earlier.id, earlier.edits), earlier.payload, earlier.raw, earlier.redacted,
                CASE WHEN is_captured THEN 'captured again' ELSE 'the payload of its job was changed' END)
        RETURNING version + 1 INTO NEW.edits;
    END IF;
    IF is_captured THEN
        NEW.history := redrive.past_failures(earlier);
        NEW.history := redrive.cut_history(redrive.past_failures(NEW), 20);
    ELSIF NEW.generation > OLD.generation THEN
        NEW.history := redrive.cut_history(
            redrive.past_failures(earlier) || NEW.history, CASE WHEN NEW.run_ms IS NULL THEN 20 ELSE 19 END);
    END IF;
    NEW.deaths := OLD.deaths + 1;
    NEW.earlier_attempts := OLD.earlier_attempts + OLD.attempts;
    NEW.events := redrive.add_event(earlier.events, jsonb_build_object(
        'at', OLD.died_at, 'event', 'died', 'generation', OLD.generation, 'cause', OLD.cause,
        'error_class', OLD.error_class, 'group', OLD.group_id)
        || CASE WHEN OLD.detail_id IS NULL THEN '{}' ELSE jsonb_build_object('detail', OLD.detail_id) END);
    IF is_captured THEN
        IF OLD.state = 'recovered' THEN
            NEW.events := redrive.add_event(NEW.events, jsonb_build_object('at', OLD.changed_at, 'event', 'recovered'));
            NEW.failed_redrives := 0;
        END IF;
        NEW.alike := CASE WHEN OLD.state = 'discarded' AND is_alike THEN OLD.alike ELSE 0 END;
        RETURN NEW;
    END IF;
    NEW.alike := CASE
        WHEN NEW.cause = 'diverted' THEN OLD.alike
        WHEN is_alike IS NOT TRUE THEN 0
        WHEN OLD.policy_id IS NULL THEN OLD.alike + 1
        -- Policies limit generations instead.
        ELSE OLD.alike
    END;
    -- While its policy will redrive it again, a letter is PENDING in `dlq_events`.
    NEW.retry_after := (
        SELECT greatest(s.next_at, NEW.died_at + redrive.policy_wait(
                   coalesce(s.every, '1 hour'), (s.policy ->> 'growth')::double precision, NEW.generation))
        FROM redrive.schedules s
        WHERE s.id = OLD.policy_id AND s.paused_at IS NULL AND NOT (s.policy ->> 'counts_only')::boolean
            AND NEW.generation < (s.policy ->> 'generations')::integer);
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

-- Refuses a death that would overwrite the letter of another job. That happens when the sequence of ids lags
-- behind, for example after a logical restore, and a new job gets an id that is in use. Only the job of a
-- redriving letter may replace it, and that job has the next generation. A failure that is captured again
-- reopens its own closed letter, likewise in the next generation.
CREATE OR REPLACE FUNCTION redrive.refuse_death() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'redrive: job % cannot die, because letter % belongs to another job; move the sequence redrive.job_id past the greatest id with setval, and delete that letter', NEW.id, NEW.id
        USING ERRCODE = 'triggered_data_change_violation';
END
$$;

-- Returns whether a lost lease has a job whose death would be refused, and warns about the job. The reaper leaves
-- such a lease alone, so that it can recover the others.
CREATE OR REPLACE FUNCTION redrive.has_refused_death(lease redrive.leases, max_crashes integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    refused bigint := (
        SELECT l.id
        FROM redrive.jobs_of(lease) j
        JOIN redrive.dead_letters l ON l.id = j.id
        WHERE j.id <> ALL (lease.done) AND (j.crashes + 1 >= max_crashes OR j.id = ANY (lease.cancelled))
            AND (l.state <> 'redriving' OR j.generation <> l.generation + 1)
        LIMIT 1);
BEGIN
    IF refused IS NOT NULL THEN
        RAISE WARNING 'redrive: job % cannot die, because letter % belongs to another job, and stays leased; move the sequence redrive.job_id past the greatest id with setval, and delete that letter', refused, refused;
    END IF;
    RETURN refused IS NOT NULL;
END
$$;
