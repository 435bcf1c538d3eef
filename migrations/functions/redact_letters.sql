-- Purpose: Redacting letters that are stored already.

-- Returns the pointers whose redacted values a new payload has not replaced; NULL: none. The empty pointer stands for the
-- whole content, which any JSON replaces. Nobody knows what a payload that cannot be read replaces.
CREATE OR REPLACE FUNCTION redrive.still_redacted(redacted text[], payload json) RETURNS text[]
    LANGUAGE sql IMMUTABLE
AS $$
    SELECT nullif(ARRAY(
        SELECT r.pointer
        FROM unnest($1) AS r (pointer)
        CROSS JOIN (SELECT redrive.readable_payload($2) AS document) d
        WHERE r.pointer <> ''
            AND (d.document IS NULL OR redrive.has_value(d.document, redrive.pointer_parts(r.pointer), '"[redacted]"'))
    ), '{}')
$$;

-- Applies the redaction rules to letters, at most a page of them, and their versions, and writes the audit with the filter
-- that found them. Redriving letters are left out: they are redacted when their job dies. A dry run only counts. `audit` is
-- the record of the first batch of the same operation; NULL: this is the first. Returns the number of changed letters, and
-- the record of the first batch.
-- Locks: the letters, in the order of their ids, unless it only counts. Index: the primary key.
CREATE OR REPLACE FUNCTION redrive.redact_letters(
    ids bigint[], filter jsonb, dry_run boolean, person text, reason text,
    audit bigint DEFAULT NULL, OUT letters bigint, OUT audit_id bigint
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    letter  redrive.dead_letters;
    version redrive.letter_versions;
BEGIN
    IF redrive.flag_of('dry_run', dry_run) THEN
        SELECT count(*) INTO letters FROM redrive.dead_letters l
        WHERE l.id = ANY (ids) AND l.state <> 'redriving' AND redrive.redact(l) *<> l;
        RETURN;
    END IF;
    PERFORM FROM redrive.dead_letters l WHERE l.id = ANY (ids) AND l.state <> 'redriving' ORDER BY l.id FOR UPDATE;
    FOR letter IN
        SELECT l.* FROM redrive.dead_letters l
        WHERE l.id = ANY (ids) AND l.state <> 'redriving' AND l.edits > 0 ORDER BY l.id
    LOOP
        FOR version IN SELECT v.* FROM redrive.letter_versions v WHERE v.letter_id = letter.id LOOP
            letter.payload := version.payload;
            letter.raw := version.raw;
            letter.redacted := version.redacted;
            letter := redrive.redact(letter);
            UPDATE redrive.letter_versions v
            SET payload = letter.payload, raw = letter.raw, redacted = letter.redacted
            WHERE v.letter_id = version.letter_id AND v.version = version.version
                AND (letter.payload::text, letter.raw) IS DISTINCT FROM (version.payload::text, version.raw);
        END LOOP;
    END LOOP;
    WITH redone AS MATERIALIZED (
        SELECT l.id, redrive.redact(l) AS new, l AS old
        FROM redrive.dead_letters l
        WHERE l.id = ANY (ids) AND l.state <> 'redriving'
    )
    UPDATE redrive.dead_letters l
    SET payload = (r.new).payload, raw = (r.new).raw, headers = (r.new).headers,
        error_message = (r.new).error_message, error_detail = (r.new).error_detail,
        failure_key = (r.new).failure_key, history = (r.new).history, redacted = (r.new).redacted,
        events = redrive.add_event((r.new).events, redrive.act_event('redacted', person, redact_letters.reason))
    FROM redone r
    WHERE l.id = r.id AND r.new *<> r.old;
    GET DIAGNOSTICS letters = ROW_COUNT;
    audit_id := audit;
    IF letters > 0 THEN
        audit_id := redrive.record_act('redact', person, reason, filter, letters, batch_of => audit);
    END IF;
END
$$;

-- Applies the redaction rules to the texts of failure groups, which are those of some letter, if the filter names no other
-- queue.
-- Locks: the task of folding, because folding updates several groups, too; then the groups and details that it changes.
CREATE OR REPLACE FUNCTION redrive.redact_groups(filter jsonb DEFAULT '{}') RETURNS void
    LANGUAGE sql VOLATILE
AS $$
    SELECT FROM redrive.exclusive_tasks t WHERE t.task = 'fold_letters' FOR UPDATE;
    WITH redacted AS (
        SELECT o.id, redrive.redacted_text(letter, o.title) AS title
        FROM redrive.groups o
        CROSS JOIN LATERAL jsonb_populate_record(
            NULL::redrive.dead_letters, jsonb_build_object('queue', o.queue, 'kind', o.kind)) letter
    )
    UPDATE redrive.groups g SET title = r.title
    FROM redacted r
    WHERE g.id = r.id AND r.title <> g.title AND g.queue = coalesce($1 ->> 'queue', g.queue);
    WITH redacted AS (
        SELECT d.id, redrive.redacted_text(letter, d.detail) AS detail
        FROM redrive.details d
        JOIN redrive.groups g ON g.id = d.group_id AND g.queue = coalesce($1 ->> 'queue', g.queue)
        CROSS JOIN LATERAL jsonb_populate_record(
            NULL::redrive.dead_letters, jsonb_build_object('queue', g.queue, 'kind', g.kind)) letter
    )
    UPDATE redrive.details d SET detail = r.detail FROM redacted r WHERE d.id = r.id AND r.detail <> d.detail;
$$;
