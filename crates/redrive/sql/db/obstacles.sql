-- Purpose: lists what hides rows of the schema from this role, or keeps its triggers from firing. Nothing that redrive
--          promises holds then, and no statement fails.
-- Called by: db/obstacles.rs, before a worker or a command starts. Needs no privileges.
-- Index relied on: those of the catalog.
-- Rows: one per obstacle, with the statement that removes it.
--       Zero rows: there is none, or no schema.
SELECT format('row level security is enabled for %s and may hide its rows from %s',
              c.oid::pg_catalog.regclass, quote_ident(current_user)) AS obstacle,
       format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY; or: ALTER ROLE %I BYPASSRLS',
              c.oid::pg_catalog.regclass, current_user) AS remedy
FROM pg_catalog.pg_class c
WHERE c.relnamespace = to_regnamespace('redrive') AND c.relrowsecurity AND row_security_active(c.oid)
UNION ALL
SELECT format('the trigger %I of %s is disabled', g.tgname, g.tgrelid::pg_catalog.regclass),
       format('ALTER TABLE %s ENABLE TRIGGER %I', g.tgrelid::pg_catalog.regclass, g.tgname)
FROM pg_catalog.pg_trigger g
JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
WHERE c.relnamespace = to_regnamespace('redrive') AND g.tgenabled IN ('D', 'R')
UNION ALL
SELECT '`session_replication_role` is `replica` for this session, so no trigger fires',
       CASE s.source
           WHEN 'database' THEN format('ALTER DATABASE %I RESET session_replication_role', current_database())
           WHEN 'user' THEN format('ALTER ROLE %I RESET session_replication_role', session_user)
           WHEN 'database user' THEN format('ALTER ROLE %I IN DATABASE %I RESET session_replication_role',
                                            session_user, current_database())
           ELSE 'SET session_replication_role = origin'
       END
FROM pg_catalog.pg_settings s
WHERE s.name = 'session_replication_role' AND s.setting = 'replica'
ORDER BY 1
