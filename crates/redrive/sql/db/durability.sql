-- Purpose: reads the settings that decide whether the server keeps committed data. All guarantees
--          of redrive depend on them.
-- Called by: db/durability.rs, for a worker that has started and for operators. Needs no privileges.
-- Index relied on: pg_class_relname_nsp_index; the schema has few tables.
-- Rows: always one: three settings as this session sees them (NULL: the server does not know the
--       setting), and the UNLOGGED tables, partitions and sequences of the schema, which a crash empties.
SELECT current_setting('fsync', true) AS fsync,
       current_setting('full_page_writes', true) AS full_page_writes,
       current_setting('synchronous_commit', true) AS synchronous_commit,
       ARRAY(
           SELECT c.relname::text
           FROM pg_catalog.pg_class c
           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'redrive' AND c.relpersistence = 'u' AND c.relkind IN ('r', 'S')
           ORDER BY c.relname
       ) AS unlogged
