-- Purpose: records in a letter's events that its sink rejected it. The letter stays open.
-- Called by: dlq/deliver.rs, in the transaction that locked the letter.
-- $1 bigint    letter
-- $2 text      name of the sink
-- $3 text error class  $4 text error message
-- $5 text      operator
-- Locks: the letter, which the transaction has already locked.
-- Index relied on: the primary key.
-- Rows: always one: the id.
UPDATE redrive.dead_letters l
SET events = redrive.add_event(l.events, redrive.act_event('not delivered', $5::text, NULL, jsonb_build_object(
        'sink', $2::text, 'error_class', $3::text, 'error_message', redrive.redacted_text(l, $4::text))))
WHERE l.id = $1
RETURNING l.id
