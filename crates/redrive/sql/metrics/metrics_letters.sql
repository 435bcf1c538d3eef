-- Purpose: returns the ages and the retention of open letters.
-- Called by: metrics/reader.rs, in every reading.
-- Locks: none.
-- Index relied on: dead_letters_open_for_redrive, about 2500 rows in total.
-- Rows: one per series. Zero rows: there are no queues.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_letters() m
