-- Purpose: The view `dlq_events`: the letters in the columns and states of the classic PostgreSQL dead letter table;
--          and its archive.

-- One row per letter; while a letter is redriving, its job is live and the view leaves it out. A letter with a
-- `retry_after` is PENDING: a consumer may claim it. PROCESSING is claimed until the claim expires, SUCCEEDED
-- recovered, and FAILED_PERMANENTLY waits for an operator, as does a body that is not JSON or that was redacted.
--
-- The view reads one table, so that FOR UPDATE SKIP LOCKED locks the letters.
CREATE OR REPLACE VIEW redrive.dlq_events AS
    SELECT l.id, l.kind::text AS event_type,
           -- A payload that `jsonb` cannot hold is a string.
           coalesce(redrive.readable_payload(l.payload), to_jsonb(translate(encode(redrive.shown_bytes(l.raw), 'base64'), E'\n', '')),
                    to_jsonb(l.payload::text)) AS payload,
           l.error_message AS error_reason,
           coalesce(l.error_detail, (SELECT d.detail FROM redrive.details d WHERE d.id = l.detail_id)) AS error_stacktrace,
           CASE
               WHEN l.state = 'recovered' THEN 'SUCCEEDED'
               WHEN l.retry_after IS NULL OR l.payload IS NULL OR l.redacted IS NOT NULL THEN 'FAILED_PERMANENTLY'
               WHEN l.claimed_until > statement_timestamp() THEN 'PROCESSING'
               ELSE 'PENDING'
           END AS status,
           l.earlier_attempts + l.attempts AS retry_count, l.retry_after, l.died_at AS created_at,
           l.changed_at AS updated_at, l.queue::text AS queue
    FROM redrive.dead_letters l
    WHERE l.state <> 'redriving';

COMMENT ON VIEW redrive.dlq_events IS 'Letters in the columns and states of the classic PostgreSQL dead letter table.';

ALTER VIEW redrive.dlq_events ALTER COLUMN status SET DEFAULT 'PENDING';
ALTER VIEW redrive.dlq_events ALTER COLUMN retry_count SET DEFAULT 0;
ALTER VIEW redrive.dlq_events ALTER COLUMN retry_after SET DEFAULT now();
ALTER VIEW redrive.dlq_events ALTER COLUMN created_at SET DEFAULT now();
ALTER VIEW redrive.dlq_events ALTER COLUMN updated_at SET DEFAULT now();
ALTER VIEW redrive.dlq_events ALTER COLUMN queue SET DEFAULT 'dlq_events';

-- The archived letters in the columns of `dlq_events`. An INSERT moves the letter with that id to the archive.
CREATE OR REPLACE VIEW redrive.dlq_events_archive AS
    SELECT a.id, a.kind::text AS event_type,
           coalesce(redrive.readable_payload(a.payload), to_jsonb(translate(encode(redrive.shown_bytes(a.raw), 'base64'), E'\n', '')),
                    to_jsonb(a.payload::text)) AS payload,
           a.error_message AS error_reason, a.error_detail AS error_stacktrace,
           CASE a.state WHEN 'recovered' THEN 'SUCCEEDED' ELSE 'FAILED_PERMANENTLY' END AS status,
           a.earlier_attempts + a.attempts AS retry_count, NULL::timestamptz AS retry_after, a.died_at AS created_at,
           a.changed_at AS updated_at, a.queue::text AS queue
    FROM redrive.archived_letters a;

COMMENT ON VIEW redrive.dlq_events_archive IS 'Archived letters in the columns of dlq_events.';

CREATE OR REPLACE TRIGGER add_to_events INSTEAD OF INSERT ON redrive.dlq_events
    FOR EACH ROW EXECUTE FUNCTION redrive.add_to_events();
CREATE OR REPLACE TRIGGER change_event INSTEAD OF UPDATE ON redrive.dlq_events
    FOR EACH ROW EXECUTE FUNCTION redrive.change_event();
CREATE OR REPLACE TRIGGER remove_event INSTEAD OF DELETE ON redrive.dlq_events
    FOR EACH ROW EXECUTE FUNCTION redrive.remove_event();
CREATE OR REPLACE TRIGGER audit_deleted AFTER DELETE ON redrive.dlq_events
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_removed_events();
CREATE OR REPLACE TRIGGER archive_event INSTEAD OF INSERT ON redrive.dlq_events_archive
    FOR EACH ROW EXECUTE FUNCTION redrive.remove_event();
CREATE OR REPLACE TRIGGER audit_archived AFTER INSERT ON redrive.dlq_events_archive
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_removed_events();
