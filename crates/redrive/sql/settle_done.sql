-- Purpose: ends leases all of whose jobs are done, none of them redriven: the common case.
-- Called by: settle.rs, by a worker's settler.
-- $1 uuid[]    leases
-- Locks: the lease rows.
-- Index relied on: the primary key of leases.
-- Rows: the leases that were still held. A missing one is lost: its jobs belong to others.
DELETE FROM redrive.leases l
WHERE l.lease_id = ANY ($1::uuid[])
RETURNING l.lease_id
