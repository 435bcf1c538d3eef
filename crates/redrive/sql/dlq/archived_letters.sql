-- Purpose: returns one page of the archive, in the order of the ids.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 bigint    last id of the previous page; NULL: first page
-- $3 bigint    maximum number of letters
-- Index relied on: the primary key of archived_letters, or archived_letters_by_queue.
-- Rows: the letters. Zero rows: there are no more pages.
SELECT l.archived_at, l.id, l.queue, l.kind, l.state, l.cause, l.error_class, l.error_message,
       l.error_detail, l.detail_id IS NOT NULL AS detail_is_shared, l.group_id AS "group", l.payload, redrive.shown_bytes(l.raw) AS raw, l.content_type, l.headers,
       CASE WHEN octet_length(l.raw) > 16777216 THEN octet_length(l.raw)::bigint END AS raw_size,
       l.group_key, l.failure_key, l.unique_key, l.crashes,
       l.source, l.position, l.seen, l.priority, l.attempts, l.earlier_attempts, l.max_attempts, l.generation,
       l.deaths, l.alike, l.failed_redrives, l.edits, l.history, l.events, l.run_id AS run,
       (SELECT s.name FROM redrive.schedules s WHERE s.id = l.policy_id) AS policy, l.worker_id AS worker,
       l.host, l.version, l.pid, l.discard_reason, l.audit_id AS audit, coalesce(l.redacted, '{}') AS redacted, l.enqueued_at, l.died_at, l.changed_at,
       NULL::timestamptz AS claimed_until
FROM redrive.list_archived($1, $2, $3) l
ORDER BY l.id
