-- Purpose: closes open and quarantined letters for good, a batch, and writes the audit in the same
--          transaction. They stay, with the reason, until they are pruned.
-- Called by: discard.rs, a batch a call.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 timestamptz only letters that had died by then; NULL: by now; see redrive.sql
-- $3 bigint    how many at most
-- $4 text      why, in the operator's words    $5 text  who
-- Locks: the letters it discards; letters locked by another operator are skipped.
-- Index relied on: dead_letters_open_for_redrive, or the primary key.
-- Rows: the ids discarded, and as of when. Zero rows: no open letter matches.
SELECT d.id, coalesce($2::timestamptz, statement_timestamp()) AS as_of
FROM redrive.discard_letters($1, coalesce($2::timestamptz, statement_timestamp()), $3, $4, $5) AS d (id)
