-- Purpose: The slots of finished jobs that are kept.

-- Returns the slot of rows that are kept until this time; see 0002_jobs.sql.
CREATE OR REPLACE FUNCTION redrive.done_slot(keep_until timestamptz) RETURNS smallint
    LANGUAGE sql STABLE
    RETURN (floor(extract(epoch FROM done_slot.keep_until) / 172800)::bigint % 20)::smallint;

-- Returns the slots with rows whose time has passed. New rows cannot lie in them for a week.
CREATE OR REPLACE FUNCTION redrive.expired_done_slots() RETURNS SETOF smallint
    LANGUAGE sql VOLATILE
AS $$
    SELECT s.slot
    FROM generate_series(1, 3) AS ago (slots)
    CROSS JOIN LATERAL redrive.done_slot(statement_timestamp() - ago.slots * interval '2 days') AS s (slot)
    WHERE pg_relation_size(format('redrive.done_jobs_%s', s.slot)::regclass) > 0
$$;
