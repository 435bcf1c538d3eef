-- Purpose: One filter for everything that acts on letters or jobs: a listing and an action select the same.

-- Returns the values of a filter key, which holds one value or a list; NULL: the filter does not have it.
CREATE OR REPLACE FUNCTION redrive.filter_values(value jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN jsonb_typeof(value) = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(value))
        WHEN value IS NOT NULL THEN ARRAY[value #>> '{}']
    END;

-- Returns the SQL condition for a filter on rows with this alias: dead letters or live jobs. The filter is a JSON object
-- and the parameter `$1` of the statement that contains the condition. The text consists of constants, quoted words and
-- numbers.
--
-- Each key of `filter_keys` narrows the selection. It takes one value; `integers`, `not`, `texts` and `words` take one or a
-- list, and an empty list selects nothing. `path` is a jsonpath predicate, which no unreadable payload meets, `part` a
-- text within the column, ignoring case, and `operation` the id of an audit record: the letters that its operation was
-- the last to discard, reopen, restore or edit. Ages (`older`, `newer`) are milliseconds.
--
-- Raises an error for a filter that is not an object, or has an unknown key or a value that its key does not take. Null
-- is no value: a query over no rows returns it, and an absent key selects everything.
--
-- The planner checks a payload after everything else, and once, because its conversion costs most.
CREATE OR REPLACE FUNCTION redrive.filter_condition(filter jsonb, subject text, rows text) RETURNS text
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    conditions text[] := '{true}';
    name       text;
    value      jsonb;
    kind       text;
    compared   text;
    type       text;
    fault      text;
    given      text[];
BEGIN
    PERFORM redrive.refuse(CASE WHEN jsonb_typeof(filter) = 'object' IS NOT TRUE
        THEN 'a filter must be a JSON object; {} matches all ' || subject END);
    FOR name, value, kind, compared IN
        SELECT e.key, e.value, k.takes, rows || substr(k.compared, 2)
        FROM jsonb_each(filter) e LEFT JOIN redrive.filter_keys(subject) k ON k.key = e.key
    LOOP
        IF kind IS NULL THEN
            RAISE EXCEPTION 'redrive: unknown filter key %', name USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Expected one of ' || (
                    SELECT string_agg(k.key, ', ') FROM redrive.filter_keys(subject) k) || '.';
        END IF;
        type := CASE WHEN kind IN ('text', 'texts', 'words', 'part', 'since', 'before', 'path') THEN 'string' ELSE 'number' END;
        fault := CASE
            WHEN value = 'null' THEN 'is null'
            WHEN jsonb_typeof(value) = 'array' AND kind NOT IN ('texts', 'words', 'integers', 'not') THEN 'takes one value'
            ELSE (
                SELECT min(CASE
                    WHEN jsonb_typeof(e.item) <> type THEN
                        format('takes values of type %s, not %s', type, jsonb_typeof(e.item))
                    -- An empty text is part of every text, and no name.
                    WHEN type = 'string' THEN CASE WHEN kind IN ('part', 'text') AND e.item = '""' THEN 'is empty' END
                    WHEN kind IN ('older', 'newer') AND e.item::numeric NOT BETWEEN 0 AND 3155760000000 THEN
                        'takes whole numbers from 0 to 100 years in milliseconds'
                    WHEN scale(e.item::numeric) > 0
                        OR e.item::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                        'takes whole numbers of 64 bits'
                END)
                FROM jsonb_array_elements(
                    CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE jsonb_build_array(value) END) AS e (item))
        END;
        IF fault IS NULL AND kind IN ('since', 'before', 'path') THEN
            BEGIN
                PERFORM CASE kind WHEN 'path' THEN (value #>> '{}')::jsonpath::text ELSE (value #>> '{}')::timestamptz::text END;
            EXCEPTION WHEN data_exception OR syntax_error THEN
                fault := 'is refused: ' || SQLERRM;
            END;
        END IF;
        PERFORM redrive.refuse('the filter key ' || name || ' ' || fault);
        given := redrive.filter_values(value);
        conditions := conditions || CASE WHEN given = '{}' THEN 'false' ELSE format(
            -- IS TRUE hides other indexes: without statistics the planner would rather read all of a queue than its ids.
            CASE WHEN subject = 'letters' AND filter ? 'ids' AND name <> 'ids' THEN '(%s) IS TRUE' ELSE '%s' END, format(
            CASE kind
                WHEN 'text' THEN '%1$s = $1 ->> %2$L'
                WHEN 'texts' THEN '%1$s = ANY (%3$L::text[])'
                -- As constants, for the partial indexes.
                WHEN 'words' THEN '%1$s IN (%4$s)'
                WHEN 'part' THEN 'position(lower($1 ->> %2$L) IN lower(%1$s)) > 0'
                WHEN 'integers' THEN '%1$s = ANY (%3$L::bigint[])'
                WHEN 'from' THEN '%1$s >= ($1 ->> %2$L)::bigint'
                WHEN 'to' THEN '%1$s <= ($1 ->> %2$L)::bigint'
                WHEN 'not' THEN '%1$s <> ALL (%3$L::bigint[])'
                WHEN 'since' THEN '%1$s >= ($1 ->> %2$L)::timestamptz'
                WHEN 'before' THEN '%1$s < ($1 ->> %2$L)::timestamptz'
                WHEN 'older' THEN '%1$s < statement_timestamp() - ($1 ->> %2$L)::bigint * interval ''1 millisecond'''
                WHEN 'newer' THEN '%1$s >= statement_timestamp() - ($1 ->> %2$L)::bigint * interval ''1 millisecond'''
                WHEN 'path' THEN 'redrive.readable_payload(%1$s) @@ ($1 ->> %2$L)::jsonpath'
                WHEN 'operation' THEN '%1$s = (SELECT coalesce(a.batch_of, a.id)'
                    ' FROM redrive.audit a WHERE a.id = ($1 ->> %2$L)::bigint)'
            END, compared, name, CASE WHEN type = 'number' THEN given::bigint[]::text ELSE given::text END,
            (SELECT string_agg(quote_literal(w), ', ') FROM unnest(given) w))) END;
    END LOOP;
    RETURN array_to_string(conditions, E'\n    AND ');
END
$$;

-- Returns the condition for a filter on dead letters. Only `group` reads the failure group of a letter; its queue, kind
-- and class are those of its last death.
CREATE OR REPLACE FUNCTION redrive.filter_letters(filter jsonb, rows text DEFAULT 'l') RETURNS text
    LANGUAGE sql STABLE
    RETURN redrive.filter_condition(filter, 'letters', rows);

-- Returns the condition for a filter on live jobs `j`.
CREATE OR REPLACE FUNCTION redrive.filter_jobs(filter jsonb) RETURNS text
    LANGUAGE sql STABLE
    RETURN redrive.filter_condition(filter, 'jobs', 'j');
