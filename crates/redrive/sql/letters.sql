-- Purpose: lists letters, the newest death first.
-- Called by: letter.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 bigint    only letters listed after this one; NULL: from the start
-- $3 bigint    how many at most
-- Locks: none.
-- Index relied on: dead_letters_for_list, the primary key, or what the filter makes narrower.
-- Rows: the letters. Zero rows: nothing matches.
SELECT l.id, l.queue, l.kind, l.state, l.reason, l.error_class, l.error_message,
       l.error_detail, l.payload, l.raw, l.content_type, l.headers, l.source, l.position, l.priority,
       l.attempts, l.max_attempts, l.generation, l.history, l.worker_id, l.host, l.version,
       l.discard_reason, l.enqueued_at, l.died_at, l.changed_at
FROM redrive.list_letters($1, $2, $3) l
