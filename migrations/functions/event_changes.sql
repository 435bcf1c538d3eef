-- Purpose: INSERT, UPDATE and DELETE of the view `dlq_events`.

-- Returns for how long a consumer of the session claims an event.
CREATE OR REPLACE FUNCTION redrive.claim_time() RETURNS interval
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    kept interval := coalesce(nullif(current_setting('redrive.claim_time', true), ''), '15 minutes');
BEGIN
    PERFORM redrive.refuse(CASE WHEN kept <= '0' OR kept > '3650 days'
        THEN format('redrive.claim_time is %s; it must be positive and at most 3650 days', kept) END);
    RETURN kept;
END
$$;

-- Captures an event that is inserted into `dlq_events`. An INSERT can also add one that is claimed or closed already.
CREATE OR REPLACE FUNCTION redrive.add_to_events() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    kept interval := redrive.claim_time();
BEGIN
    PERFORM redrive.refuse('an INSERT into dlq_events needs ' || CASE
        WHEN NEW.id IS NOT NULL OR NEW.status IN ('PENDING', 'PROCESSING', 'SUCCEEDED', 'FAILED_PERMANENTLY') IS NOT TRUE
            THEN 'no id, and the status PENDING, PROCESSING, SUCCEEDED or FAILED_PERMANENTLY'
        WHEN NEW.event_type IS NULL OR NEW.payload IS NULL OR NEW.retry_count BETWEEN 0 AND 1000000000 IS NOT TRUE
            OR isfinite(NEW.created_at) IS FALSE
            THEN 'an event_type, a payload, a retry_count from 0 to 1000000000 and a finite created_at'
    END);
    NEW.id := (SELECT c.id FROM redrive.capture(
        'dlq_events', gen_random_uuid()::text, NEW.queue, NEW.event_type, convert_to(NEW.payload::text, 'UTF8'),
        error_message => NEW.error_reason, error_detail => NEW.error_stacktrace) c);
    UPDATE redrive.dead_letters l
    SET earlier_attempts = NEW.retry_count, died_at = least(NEW.created_at, l.died_at),
        state = CASE NEW.status WHEN 'SUCCEEDED' THEN 'recovered' ELSE 'open' END,
        retry_after = CASE WHEN NEW.status IN ('PENDING', 'PROCESSING') THEN coalesce(NEW.retry_after, l.retry_after) END,
        claimed_until = CASE NEW.status WHEN 'PROCESSING' THEN clock_timestamp() + kept END
    WHERE l.id = NEW.id
    RETURNING l.retry_after, l.changed_at INTO NEW.retry_after, NEW.updated_at;
    RETURN NEW;
END
$$;

-- Applies an UPDATE of `dlq_events`. PROCESSING claims a PENDING event until `redrive.claim_time` has passed; an event
-- that another session claimed first is left out of RETURNING. SUCCEEDED recovers it, FAILED_PERMANENTLY leaves it to
-- an operator, and PENDING offers it again at `retry_after`. A greater `retry_count` or another `error_reason` records
-- a failed attempt in the history. A new payload is an edit.
--
-- An event can kill its consumers. A claim that ends without an outcome, because the next one finds it expired or an
-- UPDATE only makes it PENDING again, is a failed attempt; after ten in a row, the event is FAILED_PERMANENTLY.
CREATE OR REPLACE FUNCTION redrive.change_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    kept    interval := redrive.claim_time();
    letter  record;
    refused text;
    -- Whether a claim ends without an outcome.
    is_abandoned boolean;
BEGIN
    IF (NEW.id, NEW.event_type, NEW.queue, NEW.created_at)
        IS DISTINCT FROM (OLD.id, OLD.event_type, OLD.queue, OLD.created_at)
    THEN
        RAISE EXCEPTION 'redrive: an UPDATE of dlq_events cannot change the id, event_type, queue or created_at of event %', OLD.id
            USING ERRCODE = 'feature_not_supported', HINT = 'Insert another event, and redrive.discard this one.';
    END IF;
    -- The attempts of a redriven job are added to it.
    PERFORM redrive.refuse(CASE WHEN NEW.retry_count BETWEEN 0 AND 1000000000 IS NOT TRUE THEN format(
        'the retry_count of event %s cannot become %s; it must be from 0 to 1000000000', OLD.id,
        coalesce(NEW.retry_count::text, 'NULL')) END);
    -- As in an INSERT.
    NEW.error_reason := coalesce(NEW.error_reason, '');
    -- Repeated. A second claim gets nothing.
    IF (NEW.payload, NEW.error_reason, NEW.error_stacktrace, NEW.status, NEW.retry_count, NEW.retry_after) IS NOT DISTINCT FROM
        (OLD.payload, OLD.error_reason, OLD.error_stacktrace, OLD.status, OLD.retry_count, OLD.retry_after)
    THEN
        RETURN CASE WHEN NEW.status <> 'PROCESSING' THEN NEW END;
    END IF;
    -- The row of the view may be older than the lock.
    SELECT l.state, l.retry_after, l.crashes, l.claimed_until > statement_timestamp() AS is_claimed,
           l.payload IS NOT NULL AND l.redacted IS NULL AS is_usable
    INTO letter
    FROM redrive.dead_letters l WHERE l.id = OLD.id FOR UPDATE;
    IF OLD.status = 'PENDING' AND NEW.status = 'PROCESSING' AND (letter.retry_after IS NULL OR letter.is_claimed) THEN
        RETURN NULL;
    END IF;
    refused := CASE
        WHEN NEW.status IN ('PENDING', 'PROCESSING', 'SUCCEEDED', 'FAILED_PERMANENTLY') IS NOT TRUE
            THEN 'there is no such status'
        WHEN letter.state IS NULL THEN 'it was removed'
        WHEN letter.state <> 'open' THEN 'its letter is ' || letter.state
        WHEN NEW.status IN ('PENDING', 'PROCESSING') AND NOT letter.is_usable THEN 'its payload is redacted or not JSON'
        WHEN NEW.status = 'PROCESSING' AND OLD.status = 'FAILED_PERMANENTLY' THEN 'it must be PENDING first'
    END;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: event % is % and cannot become %: %', OLD.id, OLD.status, coalesce(NEW.status, 'NULL'), refused
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = format('redrive dlq show %s', OLD.id);
    END IF;
    PERFORM redrive.check_protections(ARRAY[OLD.queue], '{1}');
    is_abandoned := letter.is_claimed IS NOT NULL AND CASE OLD.status
        WHEN 'PENDING' THEN NEW.status = 'PROCESSING'
        WHEN 'PROCESSING' THEN NEW.status = 'PENDING' AND (NEW.retry_count, NEW.error_reason, NEW.error_stacktrace)
            IS NOT DISTINCT FROM (OLD.retry_count, OLD.error_reason, OLD.error_stacktrace)
        ELSE false END;
    IF is_abandoned THEN
        NEW.retry_count := greatest(NEW.retry_count, OLD.retry_count + 1);
        NEW.status := CASE WHEN letter.crashes + 1 >= 10 THEN 'FAILED_PERMANENTLY' ELSE NEW.status END;
    END IF;
    IF NEW.payload IS DISTINCT FROM OLD.payload THEN
        PERFORM redrive.edit_letters(ARRAY[OLD.id], ARRAY[NEW.payload::json], NULL, NULL, 'UPDATE of dlq_events',
            jsonb_build_object('ids', jsonb_build_array(OLD.id)), 'set');
    END IF;
    IF OLD.status = 'FAILED_PERMANENTLY' AND NEW.status <> OLD.status THEN
        PERFORM redrive.record_act(CASE NEW.status WHEN 'PENDING' THEN 'redrive' ELSE 'deliver' END, NULL, 'UPDATE of dlq_events',
            jsonb_build_object('ids', jsonb_build_array(OLD.id)), 1);
    END IF;
    IF NEW.retry_count > OLD.retry_count OR (NEW.error_reason, NEW.error_stacktrace)
        IS DISTINCT FROM (OLD.error_reason, OLD.error_stacktrace)
    THEN
        -- The proposed row passes the triggers of a new letter: redaction, group and detail. It always conflicts.
        INSERT INTO redrive.dead_letters AS k
            (id, queue, kind, cause, source, "position", error_class, error_message, error_detail, payload, raw, enqueued_at,
             failure_key, generation, history)
        SELECT l.id, l.queue, l.kind, l.cause, l.source, l."position", l.error_class, redrive.clip(NEW.error_reason, 8192),
               redrive.clip(NEW.error_stacktrace, 65536), l.payload, l.raw, l.enqueued_at, l.failure_key, l.generation,
               redrive.add_attempt(redrive.past_failures(l), jsonb_build_object(
                   'generation', l.generation, 'attempt', NEW.retry_count, 'outcome', 'failed',
                   'run_ms', CASE WHEN l.claimed_until IS NOT NULL
                       THEN round(extract(epoch FROM clock_timestamp() - l.changed_at) * 1000) END,
                   'error_class', l.error_class, 'worker', NULL,
                   'error_message', CASE WHEN is_abandoned THEN 'a consumer claimed it and reported no outcome'
                       ELSE left(NEW.error_reason, 1000) END,
                   'host', CASE WHEN NOT is_abandoned THEN host(inet_client_addr()) END, 'version', 'dlq_events',
                   'pid', CASE WHEN NOT is_abandoned THEN pg_backend_pid() END,
                   'ended_at', clock_timestamp()))
        FROM redrive.dead_letters l
        WHERE l.id = OLD.id
        ON CONFLICT (id) DO UPDATE
        SET error_message = excluded.error_message, error_detail = excluded.error_detail,
            detail_id = excluded.detail_id, group_id = excluded.group_id, history = excluded.history, run_ms = NULL;
    END IF;
    UPDATE redrive.dead_letters l
    SET state = CASE NEW.status WHEN 'SUCCEEDED' THEN 'recovered' ELSE 'open' END,
        retry_after = CASE NEW.status
            WHEN 'PENDING' THEN coalesce(NEW.retry_after, clock_timestamp()) WHEN 'PROCESSING' THEN l.retry_after END,
        claimed_until = CASE
            WHEN NEW.status = 'PROCESSING' AND OLD.status = 'PROCESSING' THEN l.claimed_until
            WHEN NEW.status = 'PROCESSING' THEN clock_timestamp() + kept END,
        earlier_attempts = least(l.earlier_attempts, NEW.retry_count),
        attempts = NEW.retry_count - least(l.earlier_attempts, NEW.retry_count),
        crashes = CASE WHEN is_abandoned THEN l.crashes + 1 WHEN NEW.status = 'PROCESSING' THEN l.crashes ELSE 0 END,
        changed_at = clock_timestamp(),
        events = CASE nullif(NEW.status, OLD.status)
            WHEN 'PROCESSING' THEN redrive.add_event(l.events, redrive.act_event('claimed', NULL, NULL))
            WHEN 'SUCCEEDED' THEN redrive.add_event(
                l.events, redrive.act_event('delivered', NULL, NULL, '{"sink": "dlq_events"}'))
            ELSE l.events END
    WHERE l.id = OLD.id
    RETURNING l.retry_after, l.changed_at INTO NEW.retry_after, NEW.updated_at;
    RETURN CASE WHEN NOT is_abandoned OR OLD.status = 'PROCESSING' OR NEW.status = 'PROCESSING' THEN NEW END;
END
$$;

-- Deletes a closed event, or archives one that is not waiting.
CREATE OR REPLACE FUNCTION redrive.remove_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
    event_id bigint := CASE TG_OP WHEN 'DELETE' THEN OLD.id ELSE NEW.id END;
    letter   record;
BEGIN
    SELECT l.state, l.retry_after INTO letter FROM redrive.dead_letters l WHERE l.id = event_id FOR UPDATE;
    -- Another session was faster.
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF letter.state NOT IN ('recovered', 'discarded')
        AND (TG_OP = 'DELETE' OR letter.state = 'redriving' OR letter.retry_after IS NOT NULL)
    THEN
        RAISE EXCEPTION 'redrive: event % is not closed: its letter is %', event_id, letter.state
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'redrive.discard closes a letter.';
    END IF;
    PERFORM redrive.remove_locked(ARRAY[event_id], CASE TG_OP WHEN 'DELETE' THEN 'delete' ELSE 'archive' END);
    -- The statement's trigger writes one audit row for all events.
    PERFORM set_config('redrive.removed_events',
        (coalesce(nullif(current_setting('redrive.removed_events', true), ''), '0')::bigint + 1)::text, true);
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;

-- Writes one audit row for the events that a statement removed.
CREATE OR REPLACE FUNCTION redrive.audit_removed_events() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
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
