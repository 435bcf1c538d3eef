-- Purpose: closes open letters for good. They stay, with the reason, until they are pruned.
-- Called by: discard.rs, a batch a call.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 timestamptz only letters that had died by then; NULL: by now; see redrive.sql
-- $3 bigint    how many at most
-- $4 text      why, in the operator's words
-- Locks: the letters it discards; letters locked by another operator are skipped.
-- Index relied on: dead_letters_open_for_redrive, or the primary key.
-- Rows: the ids discarded, and as of when. Zero rows: no open letter matches.
WITH chosen AS MATERIALIZED (
    SELECT c.id
    FROM redrive.lock_letters($1, '{open,quarantined}', coalesce($2::timestamptz, statement_timestamp()), $3) AS c (id)
)
UPDATE redrive.dead_letters l
SET state = 'discarded', discard_reason = $4, changed_at = clock_timestamp()
FROM chosen
WHERE l.id = chosen.id AND l.state IN ('open', 'quarantined')
RETURNING l.id, coalesce($2::timestamptz, statement_timestamp()) AS as_of
