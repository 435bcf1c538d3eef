-- Purpose: returns the unchanged captured bytes of an archived letter.
-- $1 bigint    id of the letter
-- Index relied on: the primary key of archived_letters.
-- Rows: the bytes; NULL: the letter has no captured bytes. Zero rows: there is no such letter.
SELECT a.raw AS bytes FROM redrive.archived_letters a WHERE a.id = $1
