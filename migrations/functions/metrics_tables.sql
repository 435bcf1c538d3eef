-- Purpose: Gauges of tables: size, rows, bloat and the ring.

-- Returns how many dead rows trigger autovacuum, from the settings of the table or of the server.
CREATE OR REPLACE FUNCTION redrive.vacuum_threshold(options text[], rows double precision) RETURNS double precision
    LANGUAGE sql STABLE
AS $$
    SELECT CASE WHEN s.maximum >= 0 THEN least(s.maximum, s.base + s.scale * greatest(rows, 0))
                ELSE s.base + s.scale * greatest(rows, 0) END
    FROM (
        SELECT coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_threshold'),
                        current_setting('autovacuum_vacuum_threshold'))::double precision AS base,
               coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_scale_factor'),
                        current_setting('autovacuum_vacuum_scale_factor'))::double precision AS scale,
               -- Available since PostgreSQL 18; negative values disable it.
               coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'autovacuum_vacuum_max_threshold'),
                        current_setting('autovacuum_vacuum_max_threshold', true), '-1')::double precision AS maximum
        FROM pg_options_to_table(options) o
    ) s
$$;

-- Returns the size and rows of each table, and the state of the ring. Segments count as one table. The bloat is the
-- size of the heap minus that of its live rows at their analyzed width.
CREATE OR REPLACE FUNCTION redrive.metrics_tables()
    RETURNS TABLE (metric text, labels text[], value double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
AS $$
BEGIN
    RETURN QUERY
    WITH heaps AS MATERIALIZED (
        SELECT regexp_replace(c.relname, '_[0-9]+$', '') AS name, c.oid, c.relname, c.reltoastrelid AS toast,
               redrive.vacuum_threshold(c.reloptions, c.reltuples) AS threshold,
               pg_relation_size(c.oid)::double precision AS bytes,
               -- After a crash the statistics are empty; use the result of the last vacuum.
               CASE WHEN pg_stat_get_live_tuples(c.oid) + pg_stat_get_dead_tuples(c.oid) = 0
                   THEN greatest(c.reltuples, 0) ELSE pg_stat_get_live_tuples(c.oid)
               END::double precision AS rows,
               coalesce((SELECT o.option_value FROM pg_options_to_table(c.reloptions) o
                         WHERE o.option_name = 'fillfactor')::double precision, 100) / 100 AS filled
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
    ),
    widths AS MATERIALIZED (
        SELECT s.tablename, sum((1 - s.null_frac) * s.avg_width)::double precision AS width,
               count(*) AS columns
        FROM pg_stats s WHERE s.schemaname = 'redrive' AND NOT s.inherited
        GROUP BY s.tablename
    ),
    tables AS MATERIALIZED (
        SELECT h.name, sum(h.threshold) AS threshold,
               sum(h.bytes) AS heap,
               sum(greatest(0, h.bytes - CASE
                   -- A line pointer and a header with the NULL bitmap, both aligned to 8 bytes.
                   WHEN w.width IS NOT NULL
                       THEN h.rows * (4 + 8 * ceil((23 + ceil(w.columns / 8.0)) / 8) + 8 * ceil(w.width / 8)) / h.filled
                   -- Never analyzed: assume that dead rows are as wide as live ones.
                   WHEN h.rows > 0 THEN h.bytes * h.rows / (h.rows + pg_stat_get_dead_tuples(h.oid))
                   ELSE 0 END)) AS bloat,
               sum(CASE WHEN h.toast <> 0 THEN pg_total_relation_size(h.toast) ELSE 0 END) AS toast,
               sum(pg_indexes_size(h.oid)) AS indexes,
               sum(pg_stat_get_live_tuples(h.oid)) AS live, sum(pg_stat_get_dead_tuples(h.oid)) AS dead
        FROM heaps h
        LEFT JOIN widths w ON w.tablename = h.relname
        GROUP BY h.name
    )
    SELECT v.metric, v.labels, v.value::double precision
    FROM tables t
    CROSS JOIN LATERAL (VALUES
        ('redrive_table_bytes', ARRAY[t.name, 'heap'], t.heap),
        ('redrive_table_bytes', ARRAY[t.name, 'toast'], t.toast),
        ('redrive_table_bytes', ARRAY[t.name, 'index'], t.indexes),
        ('redrive_table_live_rows_estimate', ARRAY[t.name], t.live),
        ('redrive_table_dead_rows_estimate', ARRAY[t.name], t.dead),
        ('redrive_table_autovacuum_threshold_rows', ARRAY[t.name], t.threshold),
        ('redrive_table_bloat_bytes_estimate', ARRAY[t.name], t.bloat)
    ) v (metric, labels, value)
    UNION ALL
    SELECT v.metric, '{}', coalesce(v.value, 0)::double precision
    FROM (SELECT max(s.turned_at) AS turned_at, max(s.truncated_at) AS truncated_at,
                 count(*) FILTER (WHERE redrive.segment_bytes(s.segment) = 0) AS clean
          FROM redrive.ring_segments s) r
    CROSS JOIN LATERAL (VALUES
        ('redrive_ring_turned_timestamp_seconds', extract(epoch FROM r.turned_at)),
        ('redrive_ring_truncated_timestamp_seconds', extract(epoch FROM r.truncated_at)),
        ('redrive_ring_clean_segments', r.clean)
    ) v (metric, value);
END
$$;
