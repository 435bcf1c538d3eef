-- The role of the exporter: it reads numbers and nothing else, no payload and no error text.
--
--   psql --set ON_ERROR_STOP=1 --file role.sql shop
--   psql shop --command '\password redrive_exporter'
--
-- Run it as a superuser, or as the owner of the schema `redrive` who may create roles; once, and again
-- after an upgrade of the schema, for the functions that are new. It can be run any number of times.

SELECT 'CREATE ROLE redrive_exporter LOGIN'
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'redrive_exporter')
\gexec

-- The exporter has one connection, and a second one while the first is stuck. One is left for you.
ALTER ROLE redrive_exporter CONNECTION LIMIT 3;
-- Fences for whoever uses the role; the exporter sets narrower ones itself.
ALTER ROLE redrive_exporter SET default_transaction_read_only = on;
ALTER ROLE redrive_exporter SET statement_timeout = '30s';
ALTER ROLE redrive_exporter SET lock_timeout = '1s';
ALTER ROLE redrive_exporter SET idle_in_transaction_session_timeout = '10s';

-- What is left to be done is said: only a superuser can grant pg_monitor, without which it does not
-- see how old the transactions of others are.
SELECT redrive.grant_metrics('redrive_exporter') AS left_to_do;
