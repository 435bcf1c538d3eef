-- Purpose: how much of the tables is neither live rows nor room on purpose.
-- Called by: metrics/reader.rs, once an hour.
-- Locks: ACCESS SHARE of each table, to ask for its size.
-- Index relied on: none; it reads the catalog, the statistics, and pages that are not all
--       visible where pgstattuple is installed.
-- Rows: one a series.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_bloat() m
