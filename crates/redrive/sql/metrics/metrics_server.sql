-- Purpose: returns the server's metrics: holders of the xmin horizon, replication slots, lock waits,
--          connections and autovacuum.
-- Called by: metrics/reader.rs, in every reading.
-- Locks: none.
-- Index relied on: none; it reads the server's statistics views.
-- Rows: one per series.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_server() m
