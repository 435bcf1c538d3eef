-- Purpose: reads the settings of a test's transaction that a handler may change with SET LOCAL, and when it began.
-- Rows: one.
SELECT array_agg(n.name) AS names, array_agg(current_setting(n.name)) AS settings, transaction_timestamp() AS began
FROM (SELECT s.name FROM pg_catalog.pg_settings s WHERE s.context = 'user' UNION ALL SELECT 'role') n
