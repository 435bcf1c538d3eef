-- Purpose: lists the objects of the schema with their definitions, to compare them with those that the
--          migrations create.
-- Called by: db/drift.rs, for operators. Needs no privileges.
-- Locks: none.
-- Index relied on: those of the catalog.
-- Rows: one per object, by name. Zero rows: there is no schema. A definition is the same on every major version of
--       PostgreSQL, so the texts of views and of defaults are not part of it. A trigger that never fires ends
--       with DISABLED, an index that is not used with INVALID.
SELECT o.object COLLATE "C" AS object, o.definition
FROM (
    SELECT CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'table ' END || c.relname AS object,
           '' AS definition
    FROM pg_catalog.pg_class c
    WHERE c.relnamespace = to_regnamespace('redrive') AND c.relkind IN ('r', 'p', 'v', 'S')
    UNION ALL
    SELECT 'column ' || c.relname || '.' || a.attname,
           format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
               || CASE WHEN a.atthasdef THEN ' DEFAULT' ELSE '' END
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = to_regnamespace('redrive') AND c.relkind IN ('r', 'p', 'v')
    UNION ALL
    SELECT 'index ' || c.relname, pg_get_indexdef(c.oid) || CASE WHEN i.indisvalid THEN '' ELSE ' INVALID' END
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
    WHERE c.relnamespace = to_regnamespace('redrive')
    UNION ALL
    SELECT 'constraint ' || n.conname || ' on ' || coalesce(c.relname, t.typname), pg_get_constraintdef(n.oid)
    FROM pg_catalog.pg_constraint n
    LEFT JOIN pg_catalog.pg_class c ON c.oid = n.conrelid
    LEFT JOIN pg_catalog.pg_type t ON t.oid = n.contypid
    -- Since version 18, NOT NULL is a constraint too.
    WHERE n.connamespace = to_regnamespace('redrive') AND n.contype IN ('c', 'p', 'u', 'f', 'x')
    UNION ALL
    SELECT 'trigger ' || g.tgname || ' on ' || c.relname,
           pg_get_triggerdef(g.oid) || CASE g.tgenabled WHEN 'O' THEN '' WHEN 'A' THEN ' ALWAYS' ELSE ' DISABLED' END
    FROM pg_catalog.pg_trigger g
    JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
    -- The triggers that partitions inherit are internal up to version 14.
    WHERE c.relnamespace = to_regnamespace('redrive') AND NOT g.tgisinternal AND g.tgparentid = 0
    UNION ALL
    SELECT 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
           concat_ws(' ', pg_get_function_result(p.oid), p.provolatile, CASE WHEN p.prosecdef THEN 'definer' END,
                     array_to_string(p.proconfig, ' '), md5(p.prosrc))
    FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = to_regnamespace('redrive')
    UNION ALL
    SELECT 'domain ' || t.typname, format_type(t.typbasetype, t.typtypmod)
    FROM pg_catalog.pg_type t
    WHERE t.typnamespace = to_regnamespace('redrive') AND t.typtype = 'd'
) o
ORDER BY 1
