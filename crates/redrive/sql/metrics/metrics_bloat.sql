-- Purpose: estimates the bloat of the tables: space beyond the live rows and the fill factor.
-- Called by: metrics/reader.rs, once an hour.
-- Locks: ACCESS SHARE on each table while it reads its size.
-- Index relied on: none; it reads the catalog and the statistics, and, if pgstattuple is installed,
--                  pages that are not all-visible.
-- Rows: one per series.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_bloat() m
