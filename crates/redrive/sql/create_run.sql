-- Purpose: makes a redrive run: freezes which letters it has, and writes the audit.
-- Called by: redrive/run.rs.
-- $1 jsonb     filter; see redrive.filter_letters
-- $2 text      why            $3 text  who
-- $4 text      another queue for them; NULL: their own
-- $5 integer   priority       $6 integer attempts they get; NULL: their own
-- $7 boolean   quarantined letters too; needs a reason
-- $8 bigint    how many letters at most; NULL: all
-- $9 integer   letters a second; NULL: as fast as it goes
-- $10 bigint   canary: how many go first and alone; 0: none
-- $11 uuid     who drives it from the beginning; NULL: whoever finds it
-- $12 integer  milliseconds until somebody else may drive
-- Locks: none on letters.
-- Index relied on: what the filter makes narrower; it writes a row a letter.
-- Rows: always one: the id of the run and its letters; NULL and 0 when no letter matches.
SELECT c.id, c.letters
FROM redrive.create_run($1, $2, $3, $4, $5::integer, $6::integer, $7, $8, $9::integer, $10, $11, $12) c
