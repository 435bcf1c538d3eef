-- Purpose: lists letters, the newest death first.
-- Called by: letter.rs. Planned anew at each call, so that absent filters cost nothing.
-- $1 bigint[] ids        $2 text queue   $3 text kind    $4 text reason
-- $5 text error class    $6 text state   (each NULL: any)
-- $7 bigint              only letters listed after this one; NULL: from the start
-- $8 bigint              how many at most
-- Locks: none.
-- Index relied on: dead_letters_for_list, or the primary key.
-- Rows: the letters. Zero rows: nothing matches.
SELECT l.id, l.queue::text, l.kind::text, l.state, l.reason, l.error_class, l.error_message,
       l.error_detail, l.payload, l.raw, l.content_type, l.source, l.position, l.priority,
       l.attempts, l.max_attempts, l.generation, l.history, l.worker_id, l.host, l.version,
       l.discard_reason, l.enqueued_at, l.died_at, l.changed_at
FROM redrive.dead_letters l
WHERE ($1::bigint[] IS NULL OR l.id = ANY ($1::bigint[]))
    AND ($2::text IS NULL OR l.queue = $2::text)
    AND ($3::text IS NULL OR l.kind = $3::text)
    AND ($4::text IS NULL OR l.reason = $4::text)
    AND ($5::text IS NULL OR l.error_class = $5::text)
    AND ($6::text IS NULL OR l.state = $6::text)
    AND ($7::bigint IS NULL
         OR (l.died_at, l.id) < (SELECT b.died_at, b.id FROM redrive.dead_letters b WHERE b.id = $7::bigint))
ORDER BY l.died_at DESC, l.id DESC
LIMIT $8
