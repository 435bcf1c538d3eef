-- Purpose: gives letters new payloads, keeps what they held, and writes the audit.
-- Called by: edit.rs, a page a call.
-- $1 bigint[]  the letters
-- $2 jsonb[]   their new payloads
-- $3 integer[] how often each had been edited when its payload was read: another number now means
--              that somebody else was faster
-- $4 text why  $5 text person  $6 jsonb the filter that was asked for  $7 text the kind of edit
-- Locks: those letters, in the order of their ids.
-- Index relied on: the primary key.
-- Rows: the ids of those that were edited. The others were edited, redriven or closed meanwhile.
SELECT e.id
FROM redrive.edit_letters($1, $2, NULL, $3, $4, $5, $6, $7) AS e
ORDER BY e.id
