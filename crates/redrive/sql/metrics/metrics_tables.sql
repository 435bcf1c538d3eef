-- Purpose: returns size, row counts and vacuum state of the tables of redrive, and the state of the ring.
-- Called by: metrics/reader.rs, once a minute.
-- Locks: ACCESS SHARE on each table and index while it reads their size.
-- Index relied on: none; it reads the catalog and the statistics.
-- Rows: one per series.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_tables() m
