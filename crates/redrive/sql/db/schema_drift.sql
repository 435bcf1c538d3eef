-- Purpose: compares the objects of the schema with those of another one that the migrations have just created.
-- Called by: db/drift.rs, for operators.
-- $1 text      the other schema
-- Index relied on: those of the catalog.
-- Rows: one sentence for each object of the other schema that the schema lacks or has another definition of, by name. A
--       trigger that never fires ends with DISABLED, an index that is not used with INVALID, and what does not belong to
--       the owner of the ledger with FOREIGN. Zero rows: all is as created.
SELECT d.object || CASE
           WHEN d.found IS NULL THEN ' is missing'
           WHEN d.found LIKE '% DISABLED' THEN ' is disabled'
           WHEN d.found LIKE '% INVALID' THEN ' is invalid'
           WHEN d.found LIKE '% FOREIGN' THEN ' belongs to another role than the schema'
           ELSE ' differs from the migrations'
       END AS drift
FROM (
    SELECT replace(o.object, s.name, 'redrive') COLLATE "C" AS object,
           min(w.definition) FILTER (WHERE s.name = $1) AS expected,
           min(w.definition) FILTER (WHERE s.name = 'redrive') AS found
    FROM (VALUES ('redrive'), ($1::text)) AS s (name)
    LEFT JOIN pg_catalog.pg_class l ON l.relnamespace = to_regnamespace(s.name) AND l.relname = 'migrations'
    CROSS JOIN LATERAL (
        SELECT CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' WHEN 'c' THEN 'type ' ELSE 'table ' END
                   || c.relname AS object,
               CASE c.relkind
                   WHEN 'v' THEN pg_get_viewdef(c.oid)
                   WHEN 'S' THEN (
                       SELECT concat_ws(' ', format_type(q.seqtypid, NULL), q.seqstart, q.seqincrement, q.seqmin, q.seqmax,
                                        q.seqcache, q.seqcycle)
                       FROM pg_catalog.pg_sequence q WHERE q.seqrelid = c.oid)
                   ELSE concat_ws(' ', c.relpersistence, pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid))
               END AS definition, c.relowner AS owner
        FROM pg_catalog.pg_class c
        WHERE c.relnamespace = to_regnamespace(s.name) AND c.relkind IN ('r', 'p', 'v', 'S', 'c')
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
        WHERE c.relnamespace = to_regnamespace(s.name) AND c.relkind IN ('r', 'p', 'v', 'c')
        UNION ALL
        SELECT 'index ' || c.relname, pg_get_indexdef(c.oid) || CASE WHEN i.indisvalid THEN '' ELSE ' INVALID' END, c.relowner
        FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
        WHERE c.relnamespace = to_regnamespace(s.name)
        UNION ALL
        SELECT 'constraint ' || n.conname || ' on ' || coalesce(c.relname, t.typname), pg_get_constraintdef(n.oid),
               coalesce(c.relowner, t.typowner)
        FROM pg_catalog.pg_constraint n
        LEFT JOIN pg_catalog.pg_class c ON c.oid = n.conrelid
        LEFT JOIN pg_catalog.pg_type t ON t.oid = n.contypid
        -- NOT NULL belongs to the column; since version 18, it is a constraint too.
        WHERE n.connamespace = to_regnamespace(s.name) AND n.contype IN ('c', 'p', 'u', 'f', 'x')
        UNION ALL
        SELECT 'trigger ' || g.tgname || ' on ' || c.relname,
               pg_get_triggerdef(g.oid) || CASE g.tgenabled WHEN 'O' THEN '' WHEN 'A' THEN ' ALWAYS' ELSE ' DISABLED' END,
               c.relowner
        FROM pg_catalog.pg_trigger g
        JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
        -- The triggers that partitions inherit are internal up to version 14.
        WHERE c.relnamespace = to_regnamespace(s.name) AND NOT g.tgisinternal AND g.tgparentid = 0
        UNION ALL
        SELECT 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', pg_get_functiondef(p.oid),
               p.proowner
        FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = to_regnamespace(s.name) AND p.prokind IN ('f', 'p')
        UNION ALL
        SELECT 'domain ' || t.typname, format_type(t.typbasetype, t.typtypmod), t.typowner
        FROM pg_catalog.pg_type t
        WHERE t.typnamespace = to_regnamespace(s.name) AND t.typtype = 'd'
    ) o
    CROSS JOIN LATERAL (
        SELECT replace(o.definition, s.name, 'redrive') || CASE WHEN o.owner <> l.relowner THEN ' FOREIGN' ELSE '' END
    ) AS w (definition)
    GROUP BY 1
) d
WHERE d.expected IS NOT NULL AND d.found IS DISTINCT FROM d.expected
ORDER BY 1
