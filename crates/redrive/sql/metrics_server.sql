-- Purpose: who holds the xmin horizon, slots, locks, connections.
-- Called by: metrics/reader.rs, in every reading.
-- Locks: none.
-- Index relied on: none; it reads the state of the server.
-- Rows: one a series.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_server() m
