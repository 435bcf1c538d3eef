-- Purpose: The keys of filters. `cargo xtask generate` writes this file, from crates/redrive/src/dlq/filter/fields.rs.

-- Returns the keys of filters of `letters` or `jobs`, what each takes (see `filter_condition`) and the column it compares.
CREATE OR REPLACE FUNCTION redrive.filter_keys(subject text) RETURNS TABLE (key text, takes text, compared text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT k.key, k.takes, c.compared
    FROM (VALUES
        ('queue', 'text', 'l.queue', 'j.queue'),
        ('kind', 'text', 'l.kind', 'j.kind'),
        ('class', 'texts', 'l.error_class', NULL),
        ('group', 'integers', 'l.group_id', NULL),
        ('cause', 'words', 'l.cause', NULL),
        ('state', 'words', 'l.state', NULL),
        ('state', 'words', NULL, 'j.state'),
        ('ids', 'integers', 'l.id', 'j.id'),
        ('id_from', 'from', 'l.id', 'j.id'),
        ('id_to', 'to', 'l.id', 'j.id'),
        ('id_not', 'not', 'l.id', 'j.id'),
        ('priority', 'integers', NULL, 'j.priority'),
        ('priority_from', 'from', NULL, 'j.priority'),
        ('priority_to', 'to', NULL, 'j.priority'),
        ('priority_not', 'not', NULL, 'j.priority'),
        ('attempts', 'integers', NULL, 'j.attempt'),
        ('attempts_from', 'from', NULL, 'j.attempt'),
        ('attempts_to', 'to', NULL, 'j.attempt'),
        ('attempts_not', 'not', NULL, 'j.attempt'),
        ('generation', 'integers', 'l.generation', 'j.generation'),
        ('generation_from', 'from', 'l.generation', 'j.generation'),
        ('generation_to', 'to', 'l.generation', 'j.generation'),
        ('generation_not', 'not', 'l.generation', 'j.generation'),
        ('older_than_ms', 'older', 'l.died_at', 'j.enqueued_at'),
        ('newer_than_ms', 'newer', 'l.died_at', 'j.enqueued_at'),
        ('died_from', 'since', 'l.died_at', NULL),
        ('died_to', 'before', 'l.died_at', NULL),
        ('message', 'part', 'l.error_message', NULL),
        ('version', 'text', 'l.version', NULL),
        ('host', 'text', 'l.host', NULL),
        ('source', 'text', 'l.source', NULL),
        ('run', 'integers', 'l.run_id', NULL),
        ('audit', 'operation', 'l.audit_id', NULL),
        ('unique', 'text', NULL, 'j.unique_key'),
        ('job_group', 'text', 'l.group_key', 'j.group_key'),
        ('payload', 'path', 'l.payload', 'j.payload')
    ) AS k (key, takes, letters, jobs)
    CROSS JOIN LATERAL (SELECT CASE subject WHEN 'letters' THEN k.letters ELSE k.jobs END) AS c (compared)
    WHERE c.compared IS NOT NULL;
END;
