-- Purpose: applies the patterns of the redactions to the texts of failure groups.
-- Called by: dlq/redaction/existing.rs, after the letters.
-- Locks: the groups and details that it changes.
-- Index relied on: none; it reads every group and detail.
-- Rows: always one: the number of changed texts.
SELECT redrive.redact_groups() AS texts
