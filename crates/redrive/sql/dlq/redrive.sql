-- Purpose: sends a batch of letters back to their queues as jobs and writes the audit. Each job keeps
--          the id and history of its letter, and gets the next generation and all its attempts again.
-- Called by: dlq/redrive.rs, once per batch.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 timestamptz only letters that died by this time; NULL: now. Later batches pass the `as_of` of
--              the first one, so that a letter that dies again is not redriven twice.
-- $3 bigint    maximum number of letters
-- $4 timestamptz place of the last letter of the batch before  $5 bigint its id; NULL: this is the first batch
-- $6 text      reason         $7 text  operator
-- $8 text      target queue; NULL: the letter's queue
-- $9 integer   priority       $10 integer maximum attempts; NULL: as before
-- $11 boolean  include quarantined letters; needs a reason
-- $12 bigint   milliseconds until the jobs are ready; NULL: none
-- Locks: the letters it redrives. Locked letters are skipped, because another operator is redriving or
--        discarding them.
-- Index relied on: dead_letters_open_for_redrive, or the primary key.
-- Rows: one per letter tried: `sent` or why not, with its place and `as_of`. Zero rows: no letter is left.
SELECT r.id, r.result, r.place, coalesce($2::timestamptz, statement_timestamp()) AS as_of
FROM redrive.redrive_letters($1, coalesce($2::timestamptz, statement_timestamp()), $3, $4, $5, $6, $7, $8,
                             $9::integer, $10::integer, $11, $12::bigint) r
ORDER BY r.place, r.id
