-- Purpose: lists letters, the most recent death first, or archived ones, in the order of their ids.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 bigint    id of the last letter of the previous page; NULL: first page
-- $3 bigint    maximum number of letters
-- $4 boolean   whether the letters are those of the archive
-- Index relied on: dead_letters_for_list, the primary key, or an index that fits the filter.
-- Rows: the letters. Zero rows: no letter matches.
SELECT l.id, l.queue, l.kind, l.state, l.cause, l.error_class, l.error_message,
       coalesce(l.error_detail, (SELECT d.detail FROM redrive.details d WHERE d.id = l.detail_id)) AS error_detail,
       l.detail_id IS NOT NULL AS detail_is_shared, l.group_id AS "group", l.payload, redrive.shown_bytes(l.raw) AS raw, l.content_type, l.headers,
       CASE WHEN octet_length(l.raw) > 16777216 THEN octet_length(l.raw)::bigint END AS raw_size,
       l.group_key, l.failure_key, l.unique_key, l.crashes,
       l.source, l.position, l.seen, l.priority, l.attempts, l.earlier_attempts, l.max_attempts, l.generation,
       l.deaths, l.alike, l.failed_redrives, l.edits, redrive.full_history(l) AS history, l.events, l.run_id AS run,
       (SELECT s.name FROM redrive.schedules s WHERE s.id = l.policy_id) AS policy, l.worker_id AS worker,
       l.host, l.version, l.pid, l.discard_reason, l.audit_id AS audit, coalesce(l.redacted, '{}') AS redacted, l.enqueued_at, l.died_at, l.changed_at,
       CASE WHEN l.claimed_until > statement_timestamp() THEN l.claimed_until END AS claimed_until, l.archived_at
FROM redrive.list_letters($1, $2, $3, $4) l
