-- Purpose: creates a redrive run with a fixed set of letters, and writes the audit.
-- Called by: dlq/runs/run.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 text      reason         $3 text  operator
-- $4 text      target queue; NULL: the letter's queue
-- $5 integer   priority       $6 integer maximum attempts; NULL: as before
-- $7 boolean   include quarantined letters; needs a reason
-- $8 bigint    maximum number of letters
-- $9 integer   letters per second; NULL: no limit
-- $10 bigint   canary: the number of letters to send first; 0: none
-- $11 uuid     driver; NULL: the first worker that takes the run
-- $12 integer  milliseconds after which another driver may take the run
-- $13 integer  percentage of letters that may die again
-- $14 integer  outcomes needed before the run may halt; NULL: it never halts
-- $15 text     filter of the matching letters to take; {}: all of them
-- $16 bigint   milliseconds until the jobs are ready; NULL: none
-- Locks: none on letters.
-- Index relied on: an index that fits the filter; it writes one row per letter.
-- Rows: always one: the id of the run and its number of letters; NULL and 0 if no letter matches.
SELECT c.id, c.letters
FROM redrive.create_run($1, $2, $3, $4, $5::integer, $6::integer, $7, $8, $9::integer, $10, $11, $12,
                        $13::integer, $14::integer, $15::text::jsonb, $16::bigint) c
