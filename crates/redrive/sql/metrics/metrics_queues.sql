-- Purpose: returns the number of live jobs of each queue and their ages.
-- Called by: metrics/reader.rs, in every reading.
-- Locks: ACCESS SHARE on the tables that it reads and compaction rewrites.
-- Index relied on: jobs_for_claim and jobs_delayed_for_promote, about 10000 rows in total, and for the
--                  oldest jobs of queues with more ones up to 320 priorities in total (2 per queue at
--                  least) with 10 rows each; leases is small.
-- Rows: one per series. Zero rows: there are no queues.
SELECT m.metric, array_to_json(m.labels) AS labels, m.value
FROM redrive.metrics_queues() m
