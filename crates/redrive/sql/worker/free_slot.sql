-- Purpose: frees the slot of a group when its job ends in its handler's transaction. This is the last write of the
--          transaction, so no other session waits for the slot while the handler runs.
-- Called by: worker/handlers.rs, for a job of a group, before the commit.
-- $1 bigint    job
-- Locks: the row of the slot, until the commit.
-- Index relied on: group_slots_by_job.
-- Rows: always one: how many slots it freed.
SELECT redrive.free_slots(ARRAY[$1::bigint], '{}') AS freed
