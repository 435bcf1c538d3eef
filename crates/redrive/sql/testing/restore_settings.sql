-- Purpose: restores the settings of a test's transaction, as the end of a handler's transaction does.
-- $1 text[]    names
-- $2 text[]    the settings, parallel to the names
-- Rows: one for each setting that the handler changed.
SELECT set_config(o.name, o.setting, true)
FROM unnest($1::text[], $2::text[]) AS o (name, setting)
WHERE current_setting(o.name) IS DISTINCT FROM o.setting
