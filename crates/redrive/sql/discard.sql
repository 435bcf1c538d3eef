-- Purpose: closes open letters for good. They stay, with the reason, until they are pruned.
-- Called by: discard.rs, a batch a call.
-- $1 bigint[] ids        $2 text queue   $3 text kind    $4 text reason
-- $5 text error class    $6 text state   (each NULL: any; a state other than open: none)
-- $7 bigint   unused here; letters.sql pages by it
-- $8 bigint   how many at most
-- $9 timestamptz only letters that had died by then; NULL: by now; see redrive.sql
-- $10 text    why, in the operator's words
-- Locks: the letters it discards; letters locked by another operator are skipped.
-- Index relied on: dead_letters_open_for_redrive, or the primary key.
-- Rows: the ids discarded, and as of when. Zero rows: no open letter matches.
WITH chosen AS MATERIALIZED (
    SELECT l.id
    FROM redrive.dead_letters l
    WHERE l.state = 'open'
        AND ($1::bigint[] IS NULL OR l.id = ANY ($1::bigint[]))
        AND ($2::text IS NULL OR l.queue = $2::text)
        AND ($3::text IS NULL OR l.kind = $3::text)
        AND ($4::text IS NULL OR l.reason = $4::text)
        AND ($5::text IS NULL OR l.error_class = $5::text)
        AND ($6::text IS NULL OR l.state = $6::text)
        AND $7::bigint IS NULL
        AND l.died_at <= coalesce($9::timestamptz, statement_timestamp())
    ORDER BY l.died_at, l.id
    LIMIT $8
    FOR UPDATE SKIP LOCKED
)
UPDATE redrive.dead_letters l
SET state = 'discarded', discard_reason = $10, changed_at = clock_timestamp()
FROM chosen
WHERE l.id = chosen.id
RETURNING l.id, coalesce($9::timestamptz, statement_timestamp()) AS as_of
