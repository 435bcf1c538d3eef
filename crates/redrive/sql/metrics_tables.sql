-- Purpose: the tables of redrive: size, rows, vacuum; and the ring.
-- Called by: metrics/reader.rs, once a minute.
-- Locks: ACCESS SHARE of each table and index, to ask for its size.
-- Index relied on: none; it reads the catalog and the statistics.
-- Rows: one a series.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_tables() m
