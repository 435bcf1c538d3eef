-- Purpose: the totals of what is counted. A stand-in without rows.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: yes.
-- breaking: no

CREATE FUNCTION redrive.metric_totals()
    RETURNS TABLE (metric text, labels text[], value double precision, counts bigint[], sum double precision)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT NULL::text, NULL::text[], NULL::double precision, NULL::bigint[], NULL::double precision
    WHERE false
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
