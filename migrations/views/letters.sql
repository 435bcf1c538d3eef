-- Purpose: Every dead letter; and what an erasure looks for, with the archived ones.

CREATE OR REPLACE VIEW redrive.letters AS
    SELECT l.id, l.queue::text AS queue, l.kind::text AS kind, l.state, l.cause, l.error_class,
           l.error_message, coalesce(l.error_detail, d.detail) AS error_detail, l.payload, l.raw,
           l.content_type, l.headers, l.source, l.position, l.seen, l.priority, l.attempts, l.earlier_attempts,
           l.max_attempts, l.generation, l.crashes,
           redrive.full_history(l) AS history,
           l.worker_id, l.host, l.version,
           l.discard_reason, l.enqueued_at, l.died_at, l.changed_at,
           l.group_id, l.pid, l.deaths, l.alike, l.edits, l.events, l.run_id, l.run_ordinal, l.policy_id,
           l.detail_id, l.unique_key, l.group_key, l.audit_id, l.redacted, l.failure_key, l.failed_redrives
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id;

COMMENT ON VIEW redrive.letters IS 'Every dead letter in any state.';

CREATE OR REPLACE VIEW redrive.stored_letters AS
    SELECT l.id, l.queue::text AS queue, l.kind::text AS kind, l.payload, l.state
    FROM redrive.dead_letters l
    UNION ALL
    SELECT a.id, a.queue::text, a.kind::text, a.payload, 'archived' COLLATE "C"
    FROM redrive.archived_letters a;

COMMENT ON VIEW redrive.stored_letters IS 'Every letter, also in the archive: what an erasure looks for.';
