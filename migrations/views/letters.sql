-- Purpose: Every dead letter, also in the archive.

-- The bytes of a capture that exceeds 16 MiB are shown in part; `raw_size` has their number.
CREATE OR REPLACE VIEW redrive.stored_letters AS
    SELECT l.id, l.queue::text AS queue, l.kind::text AS kind, l.state, l.cause, l.error_class, l.error_message,
           coalesce(l.error_detail, (SELECT d.detail FROM redrive.details d WHERE d.id = l.detail_id)) AS error_detail,
           l.detail_id, l.payload, redrive.shown_bytes(l.raw) AS raw,
           CASE WHEN octet_length(l.raw) > 16777216 THEN octet_length(l.raw)::bigint END AS raw_size,
           l.content_type, l.headers, l.source, l.position, l.seen, l.priority, l.attempts, l.earlier_attempts,
           l.max_attempts, l.generation, l.crashes, l.whole_history AS history,
           l.worker_id, l.host, l.version,
           l.discard_reason, l.enqueued_at, l.died_at, l.changed_at,
           l.group_id, l.pid, l.deaths, l.alike, l.edits, l.events, l.run_id, l.run_ordinal,
           (SELECT s.name FROM redrive.schedules s WHERE s.id = l.policy_id) AS policy,
           l.unique_key, l.group_key, l.audit_id, coalesce(l.redacted, '{}') AS redacted, l.failure_key, l.failed_redrives,
           CASE WHEN l.claimed_until > statement_timestamp() THEN l.claimed_until END AS claimed_until,
           l.archived_at, l.is_archived
    FROM (
        SELECT d.*, redrive.full_history(d) AS whole_history, false AS is_archived FROM redrive.dead_letters d
        UNION ALL
        SELECT a.*, a.history, true FROM redrive.archived_letters a
    ) l;

COMMENT ON VIEW redrive.stored_letters IS 'Every dead letter in any state, also in the archive.';

CREATE OR REPLACE VIEW redrive.letters AS
    SELECT * FROM redrive.stored_letters l WHERE NOT l.is_archived;

COMMENT ON VIEW redrive.letters IS 'Every dead letter in any state.';
