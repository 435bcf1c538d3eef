-- Purpose: lists the objects of a schema with their definitions, to compare those of two schemas.
-- Called by: db/drift.rs, for operators.
-- $1 text      the schema; its name becomes `redrive` in the answer
-- Index relied on: those of the catalog.
-- Rows: one per object, by name. Zero rows: there is no schema. A trigger that never fires ends with DISABLED, an index
--       that is not used with INVALID, and what does not belong to the owner of the ledger with FOREIGN.
SELECT replace(o.object, $1, 'redrive') COLLATE "C" AS object,
       replace(o.definition, $1, 'redrive') || CASE WHEN o.owner <> l.relowner THEN ' FOREIGN' ELSE '' END AS definition
FROM (
    SELECT CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' WHEN 'c' THEN 'type ' ELSE 'table ' END
               || c.relname AS object,
           CASE c.relkind
               WHEN 'v' THEN pg_get_viewdef(c.oid)
               WHEN 'S' THEN (
                   SELECT concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax,
                                    s.seqcache, s.seqcycle)
                   FROM pg_catalog.pg_sequence s WHERE s.seqrelid = c.oid)
               ELSE concat_ws(' ', c.relpersistence, pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid))
           END AS definition, c.relowner AS owner
    FROM pg_catalog.pg_class c
    WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p', 'v', 'S', 'c')
    UNION ALL
    SELECT 'column ' || c.relname || '.' || a.attname,
           format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
               || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
               || coalesce(' COLLATE ' || nullif(a.attcollation, t.typcollation)::regcollation, '')
               || a.attidentity::text || a.attgenerated::text, c.relowner
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p', 'v', 'c')
    UNION ALL
    SELECT 'index ' || c.relname, pg_get_indexdef(c.oid) || CASE WHEN i.indisvalid THEN '' ELSE ' INVALID' END, c.relowner
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
    WHERE c.relnamespace = to_regnamespace($1)
    UNION ALL
    SELECT 'constraint ' || n.conname || ' on ' || coalesce(c.relname, t.typname), pg_get_constraintdef(n.oid),
           coalesce(c.relowner, t.typowner)
    FROM pg_catalog.pg_constraint n
    LEFT JOIN pg_catalog.pg_class c ON c.oid = n.conrelid
    LEFT JOIN pg_catalog.pg_type t ON t.oid = n.contypid
    -- NOT NULL belongs to the column; since version 18, it is a constraint too.
    WHERE n.connamespace = to_regnamespace($1) AND n.contype IN ('c', 'p', 'u', 'f', 'x')
    UNION ALL
    SELECT 'trigger ' || g.tgname || ' on ' || c.relname,
           pg_get_triggerdef(g.oid) || CASE g.tgenabled WHEN 'O' THEN '' WHEN 'A' THEN ' ALWAYS' ELSE ' DISABLED' END,
           c.relowner
    FROM pg_catalog.pg_trigger g
    JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
    -- The triggers that partitions inherit are internal up to version 14.
    WHERE c.relnamespace = to_regnamespace($1) AND NOT g.tgisinternal AND g.tgparentid = 0
    UNION ALL
    SELECT 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', pg_get_functiondef(p.oid),
           p.proowner
    FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = to_regnamespace($1) AND p.prokind IN ('f', 'p')
    UNION ALL
    SELECT 'domain ' || t.typname, format_type(t.typbasetype, t.typtypmod), t.typowner
    FROM pg_catalog.pg_type t
    WHERE t.typnamespace = to_regnamespace($1) AND t.typtype = 'd'
) o
LEFT JOIN pg_catalog.pg_class l ON l.relnamespace = to_regnamespace($1) AND l.relname = 'migrations'
ORDER BY 1
