-- Purpose: marks a letter as recovered after its sink accepted it, and writes the audit; or records in its events that the
--          sink rejected it, and leaves it open.
-- Called by: dlq/deliver.rs, in the transaction that locked the letter.
-- $1 bigint    letter
-- $2 text      name of the sink
-- $3 text operator  $4 text reason
-- $5 text      class of the error; NULL: the sink accepted the letter
-- $6 text      message of the error
-- Locks: the letter, which the transaction has already locked while it was open.
-- Index relied on: the primary key.
-- Rows: the id of the audit record. Zero rows: the sink rejected the letter.
WITH delivered AS (
    UPDATE redrive.dead_letters l
    SET state = 'recovered', changed_at = clock_timestamp(), retry_after = NULL, claimed_until = NULL, run_id = NULL,
        run_ordinal = NULL, policy_id = NULL, events = redrive.add_event(l.events, redrive.act_event(
            'delivered', $3::text, $4::text, jsonb_build_object('sink', $2::text)))
    WHERE l.id = $1 AND $5::text IS NULL
    RETURNING l.id
),
rejected AS (
    UPDATE redrive.dead_letters l
    SET events = redrive.add_event(l.events, redrive.act_event('not delivered', $3::text, NULL, jsonb_build_object(
        'sink', $2::text, 'error_class', $5::text, 'error_message', redrive.redacted_text(l, $6::text))))
    WHERE l.id = $1 AND $5::text IS NOT NULL
)
SELECT redrive.record_act('deliver', $3::text, $4::text, jsonb_build_object('ids', jsonb_build_array(d.id)), 1,
                          jsonb_build_object('sink', $2::text)) AS audit_id
FROM delivered d
