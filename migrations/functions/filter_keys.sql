-- Purpose: The keys of filters. `cargo xtask generate` writes this file, from crates/redrive/src/dlq/filter/fields.rs.

-- Returns the keys of filters of `letters` or `jobs`, what each takes (see `filter_condition`) and the column it compares.
CREATE OR REPLACE FUNCTION redrive.filter_keys(subject text) RETURNS TABLE (key text, takes text, compared text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT k.key, k.takes, k.compared FROM (VALUES
        ('letters', 'queue', 'text', 'l.queue'),
        ('letters', 'kind', 'text', 'l.kind'),
        ('letters', 'class', 'texts', 'l.error_class'),
        ('letters', 'group', 'integers', 'l.group_id'),
        ('letters', 'cause', 'words', 'l.cause'),
        ('letters', 'state', 'words', 'l.state'),
        ('letters', 'ids', 'integers', 'l.id'),
        ('letters', 'id_from', 'from', 'l.id'),
        ('letters', 'id_to', 'to', 'l.id'),
        ('letters', 'id_not', 'not', 'l.id'),
        ('letters', 'generation_from', 'from', 'l.generation'),
        ('letters', 'generation_to', 'to', 'l.generation'),
        ('letters', 'generation_not', 'not', 'l.generation'),
        ('letters', 'older_than_ms', 'older', 'l.died_at'),
        ('letters', 'newer_than_ms', 'newer', 'l.died_at'),
        ('letters', 'died_from', 'since', 'l.died_at'),
        ('letters', 'died_to', 'before', 'l.died_at'),
        ('letters', 'message', 'part', 'l.error_message'),
        ('letters', 'version', 'text', 'l.version'),
        ('letters', 'host', 'text', 'l.host'),
        ('letters', 'source', 'text', 'l.source'),
        ('letters', 'run', 'integers', 'l.run_id'),
        ('letters', 'audit', 'operation', 'l.audit_id'),
        ('letters', 'job_group', 'text', 'l.group_key'),
        ('letters', 'payload', 'path', 'l.payload'),
        ('jobs', 'queue', 'text', 'j.queue'),
        ('jobs', 'kind', 'text', 'j.kind'),
        ('jobs', 'state', 'words', 'j.state'),
        ('jobs', 'ids', 'integers', 'j.id'),
        ('jobs', 'id_from', 'from', 'j.id'),
        ('jobs', 'id_to', 'to', 'j.id'),
        ('jobs', 'id_not', 'not', 'j.id'),
        ('jobs', 'priority_from', 'from', 'j.priority'),
        ('jobs', 'priority_to', 'to', 'j.priority'),
        ('jobs', 'priority_not', 'not', 'j.priority'),
        ('jobs', 'attempts_from', 'from', 'j.attempt'),
        ('jobs', 'attempts_to', 'to', 'j.attempt'),
        ('jobs', 'attempts_not', 'not', 'j.attempt'),
        ('jobs', 'generation_from', 'from', 'j.generation'),
        ('jobs', 'generation_to', 'to', 'j.generation'),
        ('jobs', 'generation_not', 'not', 'j.generation'),
        ('jobs', 'older_than_ms', 'older', 'j.enqueued_at'),
        ('jobs', 'newer_than_ms', 'newer', 'j.enqueued_at'),
        ('jobs', 'unique', 'text', 'j.unique_key'),
        ('jobs', 'job_group', 'text', 'j.group_key'),
        ('jobs', 'payload', 'path', 'j.payload')
    ) AS k (subject, key, takes, compared)
    WHERE k.subject = filter_keys.subject;
END;
