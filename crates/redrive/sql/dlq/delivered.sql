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
WITH told AS (
    UPDATE redrive.dead_letters l
    SET (state, changed_at, retry_after, claimed_until, run_id, run_ordinal, policy_id, events) = (
        SELECT 'recovered', clock_timestamp(), NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint,
            NULL::bigint, redrive.add_event(l.events,
            redrive.act_event('delivered', $3::text, $4::text, jsonb_build_object('sink', $2::text)))
        WHERE $5::text IS NULL
        UNION ALL
        SELECT l.state, l.changed_at, l.retry_after, l.claimed_until, l.run_id, l.run_ordinal, l.policy_id, redrive.add_event(l.events,
            redrive.act_event('not delivered', $3::text, NULL, jsonb_build_object('sink', $2::text,
                'error_class', $5::text, 'error_message', redrive.redacted_text(l, $6::text))))
        WHERE $5::text IS NOT NULL)
    WHERE l.id = $1
    RETURNING l.id
)
SELECT redrive.record_act('deliver', $3::text, $4::text, jsonb_build_object('ids', jsonb_build_array(t.id)), 1,
                          jsonb_build_object('sink', $2::text)) AS audit_id
FROM told t
WHERE $5::text IS NULL
