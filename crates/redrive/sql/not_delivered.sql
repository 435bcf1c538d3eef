-- Purpose: tells in the story of a letter that a sink did not take it; the letter stays open.
-- Called by: sink.rs, in the transaction that holds the letter.
-- $1 bigint    the letter
-- $2 text      the name of the sink
-- $3 text the class of the error  $4 text its message
-- $5 text      who acts
-- Locks: the letter, which is locked already.
-- Index relied on: the primary key.
-- Rows: always one: the id.
UPDATE redrive.dead_letters l
SET events = redrive.tell(l.events, jsonb_strip_nulls(jsonb_build_object(
        'at', clock_timestamp(), 'event', 'not delivered', 'sink', $2::text,
        'error_class', $3::text, 'error_message', $4::text, 'by', left($5::text, 200))))
WHERE l.id = $1 AND l.state = 'open'
RETURNING l.id
