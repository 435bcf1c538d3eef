-- Purpose: returns the time of the database, and whether it has the redrive schema.
-- Called by: metrics/reader.rs, first in every reading. Needs no privileges.
-- Index relied on: those of pg_class and pg_namespace.
-- Rows: always one.
SELECT date_part('epoch', clock_timestamp()) AS now,
       EXISTS (
           SELECT FROM pg_class c
           JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'redrive' AND c.relname = 'migrations'
       ) AS has_schema
