-- Purpose: sends letters back as jobs, a batch: the same id, the next generation, a fresh budget of
--          attempts, the history kept; and writes the audit in the same transaction.
-- Called by: redrive.rs, a batch a call.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 timestamptz only letters that had died by then; NULL: by now. A later batch passes on what
--              the first one answered, so that a letter which dies again is not taken again.
-- $3 bigint    how many at most
-- $4 bigint[]  letters that were tried and refused before
-- $5 text      why            $6 text  who
-- $7 text      another queue for them; NULL: their own
-- $8 integer   priority       $9 integer attempts they get; NULL: their own
-- $10 boolean  quarantined letters too; needs a reason
-- Locks: the letters it redrives; letters locked by another operator are skipped: they are
--        being redriven or discarded right now.
-- Index relied on: dead_letters_open_for_redrive, or the primary key.
-- Rows: the letters tried, and as of when: `sent`, or `conflict`. Zero rows: nothing is left.
SELECT r.id, r.what, coalesce($2::timestamptz, statement_timestamp()) AS as_of
FROM redrive.redrive_letters($1, coalesce($2::timestamptz, statement_timestamp()), $3, $4, $5, $6, $7,
                             $8::integer, $9::integer, $10) r
