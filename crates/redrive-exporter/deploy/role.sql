-- The role of the exporter. It can read metrics only: no payloads and no error messages.
--
--   psql --set ON_ERROR_STOP=1 --file role.sql shop
--   psql shop --command '\password redrive_exporter'
--
-- Run this as a superuser, or as the owner of the schema `redrive` with CREATEROLE. Run it again after an
-- upgrade of the schema, which may add functions. Repeated runs are safe.

SELECT 'CREATE ROLE redrive_exporter LOGIN'
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'redrive_exporter')
\gexec

-- The exporter uses one connection, and a second one while it gives up the first. One is spare.
ALTER ROLE redrive_exporter CONNECTION LIMIT 3;
-- Limits for any use of the role. The exporter sets stricter ones.
ALTER ROLE redrive_exporter SET statement_timeout = '30s';
ALTER ROLE redrive_exporter SET lock_timeout = '1s';
ALTER ROLE redrive_exporter SET idle_in_transaction_session_timeout = '10s';

-- Returns what is left to do. Only a superuser can grant pg_monitor, without which the role cannot see the age
-- of the transactions of other users.
SELECT redrive.grant_role('redrive_exporter', 'exporter') AS left_to_do;
