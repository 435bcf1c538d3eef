-- Purpose: returns the counters, histograms and exact depths.
-- Called by: metrics/reader.rs, in every reading.
-- Locks: none.
-- Index relied on: none; it reads totals, not jobs.
-- Rows: one per series; a series whose value is 0 may be missing.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value, array_to_json(m.counts) AS counts, m.sum
FROM redrive.metric_totals() m
