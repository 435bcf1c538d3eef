-- Purpose: asks whether the server keeps what it has committed, for this session: what every promise
--          of redrive stands on.
-- Called by: durability.rs, by a worker when it has started and when a person looks. Anybody may ask.
-- Locks: none.
-- Index relied on: pg_class_relname_nsp_index; the schema has few tables.
-- Rows: always one: three settings (NULL: this server has no such one), and what of the schema does
--       not outlive a crash: tables, partitions and sequences that are UNLOGGED.
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
