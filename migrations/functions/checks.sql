-- Purpose: Checks of names, texts and payloads.

-- Raises a clear error for a name that the schema would reject.
CREATE OR REPLACE FUNCTION redrive.check_name(subject text, name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    longest CONSTANT integer := CASE subject WHEN 'kind' THEN 255 ELSE 100 END;
BEGIN
    IF name IS NULL OR length(name) NOT BETWEEN 1 AND longest OR name <> btrim(name)
        OR name ~ '[[:cntrl:]]'
    THEN
        RAISE EXCEPTION 'redrive: invalid % name; it must have 1 to % characters, no control characters and no blank at either end', subject, longest
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Raises an error with this complaint about the arguments of an operation; NULL: there is none.
CREATE OR REPLACE FUNCTION redrive.refuse(complaint text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    IF complaint IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: %', complaint USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Raises an error for a regular expression that deaths cannot afford. Each matches it with its texts, the server has no
-- limit for one match, and a death that reaches the timeout of its statement is tried again and again. A back reference
-- makes the server try one way to match after another.
CREATE OR REPLACE FUNCTION redrive.check_pattern(pattern text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET standard_conforming_strings = on
AS $$
DECLARE
    fault text := CASE
        WHEN coalesce(pattern, '') = '' THEN 'is empty'
        WHEN octet_length(pattern) > 1024 THEN 'is longer than 1024 bytes'
        WHEN pattern ~ '^(?:[^\\]|\\[^1-9])*\\[1-9]' THEN 'has a back reference, with which a match can take for ever' END;
BEGIN
    IF fault IS NULL THEN
        BEGIN
            PERFORM regexp_replace('', pattern, '', 'g');
        EXCEPTION WHEN OTHERS THEN
            fault := 'is refused: ' || SQLERRM;
        END;
    END IF;
    PERFORM redrive.refuse('the regular expression ' || quote_literal(left(pattern, 1024)) || ' ' || fault);
END
$$;

-- Returns the name of a queue or kind as a letter may have it. Whoever may insert jobs may give them any.
CREATE OR REPLACE FUNCTION redrive.cleaned_name(name text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(nullif(btrim(regexp_replace(name, '[[:cntrl:]]', ' ', 'g')), ''), '?');

-- Raises an error at an isolation level whose snapshot is older than a lock that the transaction takes later.
-- Functions that lock a table and then read it call this first.
CREATE OR REPLACE FUNCTION redrive.require_read_committed(operation text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'redrive: % cannot run at isolation level %; it would not see what it locked',
            operation, upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'invalid_transaction_state',
                  HINT = 'Call it in a transaction with isolation level READ COMMITTED.';
    END IF;
END
$$;

-- Returns the limit of an operation that changes data. Null, such as the answer of an empty query, is an error: LIMIT
-- would take it for "everything".
CREATE OR REPLACE FUNCTION redrive.limit_of(parameter text, given bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    PERFORM redrive.refuse(CASE WHEN given >= 0 IS NOT TRUE THEN format(
        '%s is %s; it must be a number of at least 0', parameter, coalesce(given::text, 'null')) END);
    RETURN given;
END
$$;

-- Returns a flag of an operation that changes data; null is an error, as it is for a limit.
CREATE OR REPLACE FUNCTION redrive.flag_of(parameter text, given boolean) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    PERFORM redrive.refuse(CASE WHEN given IS NULL THEN parameter || ' is NULL; it must be true or false' END);
    RETURN given;
END
$$;

-- Shortens a text that exceeds `limit_bytes` to its start and its end. A stack trace may have the
-- failing frame at either end. A character has up to four bytes, and the mark between them 15.
CREATE OR REPLACE FUNCTION redrive.clip(full_text text, limit_bytes integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN octet_length(full_text) <= limit_bytes THEN full_text
        ELSE left(full_text, (limit_bytes - 15) / 8) || E'\n[... cut ...]\n' || right(full_text, (limit_bytes - 15) / 8)
    END;

-- Returns bytes as JSON text; NULL: they are not JSON. Each capture calls it.
CREATE OR REPLACE FUNCTION redrive.json_of(raw bytea) RETURNS json
    LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    RETURN convert_from(raw, 'UTF8')::json;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;

-- Returns whether the headers of a new job, an object, have a name that belongs to redrive. A producer may say which
-- version of its type the payload has.
CREATE OR REPLACE FUNCTION redrive.have_reserved_header(headers jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN EXISTS (
        SELECT FROM jsonb_each_text(headers) AS h (name, value)
        WHERE starts_with(h.name, 'redrive-')
            AND NOT (h.name = 'redrive-payload-version' AND coalesce(h.value, '') ~ '^0*[1-9][0-9]{0,8}$'));

-- Returns any payload as `jsonb`, as `readable_payload` does.
CREATE OR REPLACE FUNCTION redrive.checked_payload(payload json) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    SET standard_conforming_strings = on
AS $$
BEGIN
    IF payload::text ~ '\d[eE][+-]?\d\d\d' AND 1048576 < (
        SELECT sum(CASE WHEN length(e.digits) > 6 THEN 1048576 ELSE concat('0', e.digits)::bigint END)
        FROM regexp_matches(regexp_replace(payload::text, '"(?:[^"\\]|\\.)*"', '', 'g'), '[eE][+-]?0*(\d*)', 'g') AS m (parts)
        CROSS JOIN LATERAL (SELECT m.parts[1] AS digits) e)
    THEN
        RETURN NULL;
    END IF;
    RETURN payload::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;

-- Returns a payload as `jsonb`, for a condition on its values; NULL: it has values that `jsonb` cannot hold (NUL, half
-- of a surrogate pair, a number out of range), it is nested too deep, or `jsonb` would write its numbers with more than
-- a million digits. (1e9999 has ten thousand.)
--
-- The first case answers for almost every payload, is inlined, and needs no subtransaction.
CREATE OR REPLACE FUNCTION redrive.readable_payload(payload json) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN octet_length(payload::text) < 4096 AND payload::text !~ '\\u|\d[eE][+-]?\d\d\d' THEN payload::jsonb
        ELSE redrive.checked_payload(payload)
    END;
