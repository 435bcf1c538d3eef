-- Purpose: returns the identity of the database, its time, and whether it has the redrive schema.
-- Called by: metrics/reader.rs, first in every reading. Needs no privileges.
-- Index relied on: those of pg_class and pg_namespace.
-- Rows: always one.
SELECT s.system_identifier || ':' || d.oid AS identity,
       date_part('epoch', clock_timestamp()) AS now,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_id,
       EXISTS (
           SELECT FROM pg_class c
           JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'redrive' AND c.relname = 'migrations'
       ) AS has_schema
FROM pg_control_system() s
JOIN pg_database d ON d.datname = current_database()
