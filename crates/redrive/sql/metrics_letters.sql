-- Purpose: the ages of open letters, and for how long they are kept.
-- Called by: metrics/reader.rs, in every reading.
-- Locks: none.
-- Index relied on: dead_letters_open_for_redrive, about 5000 rows in all.
-- Rows: one a series. Zero rows: there is no queue.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_letters() m
