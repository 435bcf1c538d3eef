-- Purpose: counts the letters that a filter means, and those of them that can be redriven.
-- Called by: letter.rs. Planned anew at each call, so that absent filters cost nothing.
-- $1 bigint[] ids        $2 text queue   $3 text kind    $4 text reason
-- $5 text error class    $6 text state   (each NULL: any)
-- $7, $8 bigint unused here; letters.sql pages by them
-- Locks: none.
-- Index relied on: dead_letters_open_for_redrive, or the primary key; counting reads all it counts.
-- Rows: always one.
SELECT count(*) AS letters,
       count(*) FILTER (WHERE l.state = 'open' AND l.payload IS NOT NULL) AS redrivable
FROM redrive.dead_letters l
WHERE ($1::bigint[] IS NULL OR l.id = ANY ($1::bigint[]))
    AND ($2::text IS NULL OR l.queue = $2::text)
    AND ($3::text IS NULL OR l.kind = $3::text)
    AND ($4::text IS NULL OR l.reason = $4::text)
    AND ($5::text IS NULL OR l.error_class = $5::text)
    AND ($6::text IS NULL OR l.state = $6::text)
    AND $7::bigint IS NULL
    AND $8::bigint IS NOT NULL
