-- Purpose: Redaction: removing secrets from letters at death.

-- Rejects a rule that cannot be applied, before a death depends on it.
CREATE OR REPLACE FUNCTION redrive.check_redaction() RETURNS trigger
    LANGUAGE plpgsql
AS $$
DECLARE
    pattern text;
BEGIN
    PERFORM redrive.refuse(CASE
        WHEN cardinality(NEW.paths) + cardinality(NEW.patterns) = 0 THEN 'a redaction needs a path or a pattern'
        WHEN '' = ANY (NEW.patterns) OR array_position(NEW.patterns, NULL) IS NOT NULL THEN 'a redaction pattern is empty'
        ELSE (
            SELECT format('%s is not a JSON pointer; expected for example /card/number', coalesce(p.pointer, 'NULL'))
            FROM unnest(NEW.paths) AS p (pointer)
            WHERE (p.pointer LIKE '/%' AND p.pointer !~ '~($|[^01])') IS NOT TRUE
            LIMIT 1)
    END);
    FOREACH pattern IN ARRAY NEW.patterns LOOP
        PERFORM redrive.check_pattern(pattern);
    END LOOP;
    RETURN NEW;
END
$$;

-- Redacts the matches of a pattern in a text. If the regular expression engine fails, the whole text is
-- redacted: the death must be stored, and a secret must not.
CREATE OR REPLACE FUNCTION redrive.redact_text(plain text, pattern text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    RETURN regexp_replace(plain, pattern, '[redacted]', 'g');
EXCEPTION WHEN OTHERS THEN
    RETURN '[redacted]';
END
$$;

-- Redacts the matches of a pattern in bytes. Bytes that are not text are dropped as a whole if their
-- readable part matches.
CREATE OR REPLACE FUNCTION redrive.redact_bytes(raw bytea, pattern text) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    RETURN convert_to(redrive.redact_text(convert_from(raw, 'UTF8'), pattern), 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN CASE
        WHEN redrive.redact_text(encode(raw, 'escape'), pattern) = encode(raw, 'escape') THEN raw
        ELSE '[redacted]'
    END;
END
$$;

-- Returns the parts of a JSON pointer.
CREATE OR REPLACE FUNCTION redrive.pointer_parts(pointer text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    -- Splitting an empty text returns no parts, but this pointer has one: the key `""`.
    SELECT CASE pointer WHEN '/' THEN ARRAY[''] ELSE ARRAY(
        SELECT replace(replace(p.part, '~1', '/'), '~0', '~')
        FROM unnest(string_to_array(substr(pointer, 2), '/')) WITH ORDINALITY AS p (part, place)
        ORDER BY p.place) END
$$;

-- Returns whether a document has a value, or this one, at any place that a pointer matches.
CREATE OR REPLACE FUNCTION redrive.has_value(document jsonb, parts text[], value jsonb DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF document IS NULL OR cardinality(parts) = 0 THEN
        RETURN document = coalesce(value, document);
    ELSIF parts[1] <> '*' THEN
        RETURN redrive.has_value(document #> parts[1:1], parts[2:], value);
    END IF;
    RETURN EXISTS (
        SELECT FROM jsonb_path_query(document, CASE jsonb_typeof(document)
            WHEN 'object' THEN 'strict $.*' ELSE 'strict $[*]' END::jsonpath, silent => true) AS e (part)
        WHERE redrive.has_value(e.part, parts[2:], value));
END
$$;

-- Redacts the values of a document that a pointer matches. It builds each level once, because setting the
-- members of a long array one by one would copy the document for each.
CREATE OR REPLACE FUNCTION redrive.redact_values(document jsonb, parts text[]) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    child jsonb;
BEGIN
    IF cardinality(parts) = 0 THEN
        RETURN '"[redacted]"';
    ELSIF parts[1] <> '*' THEN
        child := document #> parts[1:1];
        RETURN CASE WHEN child IS NULL THEN document
            ELSE jsonb_set(document, parts[1:1], redrive.redact_values(child, parts[2:])) END;
    END IF;
    RETURN CASE jsonb_typeof(document)
        WHEN 'object' THEN (
            SELECT coalesce(jsonb_object_agg(e.key, redrive.redact_values(e.value, parts[2:])), '{}')
            FROM jsonb_each(document) e)
        WHEN 'array' THEN (
            SELECT coalesce(jsonb_agg(redrive.redact_values(a.value, parts[2:]) ORDER BY a.place), '[]')
            FROM jsonb_array_elements(document) WITH ORDINALITY AS a (value, place))
        ELSE document
    END;
END
$$;

-- Applies a pattern to the error messages of records: attempts or events.
CREATE OR REPLACE FUNCTION redrive.redact_messages(records jsonb, pattern text) RETURNS jsonb
    LANGUAGE sql STABLE
AS $$
    SELECT coalesce(jsonb_agg(
        CASE WHEN r.record ? 'error_message' THEN r.record || jsonb_build_object(
            'error_message', redrive.redact_text(r.record ->> 'error_message', pattern))
        ELSE r.record END ORDER BY r.place), '[]')
    FROM jsonb_array_elements(records) WITH ORDINALITY AS r (record, place)
$$;

-- Applies all matching redaction rules to a letter, and records the pointers of redacted payload values. Captured
-- bytes that exceed 16 MiB are dropped as a whole if a pattern matches them, or if the rule has a path: they are
-- not parsed, so it may be in them. So is a payload that cannot be read, if the rule has a path.
CREATE OR REPLACE FUNCTION redrive.redact(letter redrive.dead_letters) RETURNS redrive.dead_letters
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    rule redrive.redactions;
    pointer text;
    parts text[];
    pattern text;
    bytes bytea;
    document jsonb;
BEGIN
    FOR rule IN
        SELECT r.* FROM redrive.redactions r
        WHERE (r.queue IS NULL OR r.queue = letter.queue) AND (r.kind IS NULL OR r.kind = letter.kind)
        ORDER BY r.id
    LOOP
        IF rule.paths <> '{}' AND document IS NULL
            AND (letter.payload IS NOT NULL OR octet_length(letter.raw) > 16777216)
        THEN
            document := redrive.readable_payload(letter.payload);
            IF document IS NULL THEN
                letter.payload := NULL;
                letter.raw := '[redacted]';
                letter.redacted := array_remove(letter.redacted, '') || ''::text;
            END IF;
        END IF;
        FOREACH pointer IN ARRAY rule.paths LOOP
            parts := redrive.pointer_parts(pointer);
            IF redrive.has_value(document, parts) THEN
                document := redrive.redact_values(document, parts);
                letter.payload := document;
                -- The captured bytes contain the same value.
                letter.raw := NULL;
                letter.redacted := array_remove(letter.redacted, pointer) || pointer;
            END IF;
        END LOOP;
        FOREACH pattern IN ARRAY rule.patterns LOOP
            letter.error_message := redrive.redact_text(letter.error_message, pattern);
            letter.error_detail := redrive.redact_text(letter.error_detail, pattern);
            letter.failure_key := left(redrive.redact_text(letter.failure_key, pattern), 256);
            letter.history := redrive.redact_messages(letter.history, pattern);
            -- A sink that rejected the letter said why.
            letter.events := redrive.redact_messages(letter.events, pattern);
            IF jsonb_typeof(letter.headers) = 'object' THEN
                letter.headers := (
                    -- The values must not grow over the limit of the headers.
                    SELECT CASE WHEN octet_length(n.parts::text) <= 65536 THEN n.parts
                        WHEN octet_length(n.wholes::text) <= 65536 THEN n.wholes END
                    FROM (
                        SELECT coalesce(jsonb_object_agg(h.name, r.value), '{}') AS parts,
                               coalesce(jsonb_object_agg(h.name, CASE WHEN r.value <> h.value THEN '[redacted]'
                                   ELSE h.value END), '{}') AS wholes
                        FROM jsonb_each_text(letter.headers) AS h (name, value)
                        CROSS JOIN LATERAL (
                            -- A redriven job is decoded by its version.
                            SELECT CASE h.name WHEN 'redrive-payload-version' THEN h.value
                                ELSE redrive.redact_text(h.value, pattern) END) AS r (value)
                    ) n);
            END IF;
            IF letter.payload IS NULL THEN
                bytes := redrive.redact_bytes(letter.raw, pattern);
                IF bytes <> letter.raw THEN
                    letter.raw := CASE WHEN octet_length(letter.raw) > 16777216 THEN '[redacted]' ELSE bytes END;
                    letter.redacted := array_remove(letter.redacted, '') || ''::text;
                END IF;
            END IF;
        END LOOP;
    END LOOP;
    RETURN letter;
END
$$;

-- Returns a text about a letter, such as why a sink rejected it, as the redaction rules leave it.
CREATE OR REPLACE FUNCTION redrive.redacted_text(letter redrive.dead_letters, text text) RETURNS text
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    letter.error_message := redacted_text.text;
    RETURN (redrive.redact(letter)).error_message;
END
$$;

-- Adds a redaction rule and returns its id. It applies to future deaths, not to existing letters.
-- A NULL queue or kind matches every one.
CREATE OR REPLACE FUNCTION redrive.add_redaction(
    queue text, kind text, paths text[] DEFAULT '{}', patterns text[] DEFAULT '{}',
    person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    added bigint;
BEGIN
    PERFORM redrive.check_name('queue', coalesce(add_redaction.queue, '?'));
    PERFORM redrive.check_name('kind', coalesce(add_redaction.kind, '?'));
    INSERT INTO redrive.redactions AS r (queue, kind, paths, patterns)
    VALUES (add_redaction.queue, add_redaction.kind, coalesce(add_redaction.paths, '{}'),
            coalesce(add_redaction.patterns, '{}'))
    RETURNING r.id INTO added;
    PERFORM redrive.record_act(
        'add_redaction', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
            'redaction', added, 'queue', add_redaction.queue, 'kind', add_redaction.kind,
            'paths', add_redaction.paths, 'patterns', add_redaction.patterns)));
    RETURN added;
END
$$;

-- Removes a redaction rule. Redacted values stay redacted. Returns whether the rule existed.
-- Locks: the redaction. Index: the primary key of redactions.
CREATE OR REPLACE FUNCTION redrive.remove_redaction(id bigint, person text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    WITH gone AS (DELETE FROM redrive.redactions r WHERE r.id = $1 RETURNING r.*)
    SELECT count(redrive.record_act('remove_redaction', $2, $3, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'redaction', g.id, 'queue', g.queue, 'kind', g.kind, 'paths', g.paths, 'patterns', g.patterns)))) > 0
    FROM gone g
$$;
