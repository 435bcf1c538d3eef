-- Purpose: The professions that `grant_role` grants, a column each. A role keeps the privilege on its columns, so a migration
-- knows to whom it grants what is new.

CREATE OR REPLACE VIEW redrive.professions AS
    SELECT true AS app, true AS enqueuer, true AS worker, true AS capturer, true AS operator, true AS reader, true AS exporter;

COMMENT ON VIEW redrive.professions IS 'A column for each profession, which a role that has it may read.';
