-- Purpose: lists what lets the server lose committed data. All guarantees of redrive depend on it.
-- Called by: db/durability.rs, for a worker that has started and for operators. Needs no privileges.
-- Index relied on: pg_class_relname_nsp_index; the schema has few tables.
-- Rows: one sentence for each setting of this session that is off, and one that lists the UNLOGGED tables, partitions and
--       sequences of the schema. Zero rows: nothing does.
SELECT format('`%s` is `off`: %s', s.setting, s.danger) AS warning
FROM (VALUES
    ('fsync', 'if the machine crashes, jobs and letters may be lost and the database may be corrupted'),
    ('full_page_writes',
     'if the machine crashes, the database may be corrupted, unless its storage writes pages atomically'),
    -- Every value but `off` waits for the server's own disk. Standbys are the operator's choice.
    ('synchronous_commit',
     'if the server crashes, the newest jobs may be lost, and jobs that just finished may run again')
) AS s (setting, danger)
WHERE current_setting(s.setting, true) = 'off'
UNION ALL
SELECT 'these relations in the schema `redrive` are `UNLOGGED`; a server crash leaves them empty: '
           || string_agg(format('`%s`', c.relname), ', ' ORDER BY c.relname)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'redrive' AND c.relpersistence = 'u' AND c.relkind IN ('r', 'S')
HAVING count(*) > 0
