-- Purpose: Counters and histograms of everything that happens to jobs and letters.

-- Adds two arrays of counts element by element.
CREATE OR REPLACE FUNCTION redrive.add_counts(one bigint[], other bigint[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN other IS NULL THEN one WHEN one IS NULL THEN other ELSE (
        SELECT array_agg(coalesce(b.one, 0) + coalesce(b.other, 0) ORDER BY b.place)
        FROM unnest(one, other) WITH ORDINALITY AS b (one, other, place)) END;
END;
