-- Purpose: counts the letters that a redrive would select and that a run which has not ended will send.
-- Called by: dlq/redrive/overlap.rs, for a dry run and before a run is created.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 boolean   include quarantined letters
-- $3 bigint    maximum number of letters; NULL: all
-- Locks: none.
-- Index relied on: redrive_runs_unfinished, the primary keys of run_letters and dead_letters; it reads
--                  all members of the runs that have not ended.
-- Rows: one per run, in the order of ids. Zero rows: no run will send one of the letters.
SELECT o.run_id AS run, o.letters
FROM redrive.overlapping_runs($1, $2, $3) o
