-- Purpose: marks a letter as recovered after its sink accepted it, and writes the audit.
-- Called by: dlq/deliver.rs, in the transaction that locked the letter.
-- $1 bigint    letter
-- $2 text      name of the sink
-- $3 text reason  $4 text operator
-- Locks: the letter, which the transaction has already locked while it was open.
-- Index relied on: the primary key.
-- Rows: always one: the id of the audit record.
WITH recovered AS (
    UPDATE redrive.dead_letters l
    SET state = 'recovered', changed_at = clock_timestamp(),
        run_id = NULL, run_ordinal = NULL, policy_id = NULL,
        events = redrive.add_event(l.events, redrive.act_event(
            'delivered', $4::text, $3::text, jsonb_build_object('sink', $2::text)))
    WHERE l.id = $1
    RETURNING l.id
)
SELECT redrive.record_act('deliver', $4::text, $3::text, jsonb_build_object('ids', jsonb_build_array(r.id)), 1,
                          jsonb_build_object('sink', $2::text)) AS audit_id
FROM recovered r
