-- Purpose: the live jobs of each queue and their ages.
-- Called by: metrics/reader.rs, in every reading.
-- Locks: none.
-- Index relied on: jobs_for_claim and jobs_delayed_for_promote, about 10000 rows in all; leases is small.
-- Rows: one a series. Zero rows: there is no queue.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_queues() m
