-- Purpose: Protections: who may redrive, and which runs need an approval.

-- Sets the protection of a queue and writes the audit. An earlier one is replaced.
CREATE OR REPLACE FUNCTION redrive.set_protection(
    queue text, approve_above bigint DEFAULT NULL, roles text[] DEFAULT NULL, person text DEFAULT NULL,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    unknown text := (
        SELECT min(coalesce(r.name, 'NULL')) FROM unnest(roles) AS r (name)
        WHERE NOT EXISTS (SELECT FROM pg_roles k WHERE k.rolname = r.name));
BEGIN
    PERFORM redrive.check_name('queue', set_protection.queue);
    PERFORM redrive.refuse(CASE
        WHEN unknown IS NOT NULL OR approve_above < 0 OR approve_above IS NULL AND coalesce(cardinality(roles), 0) = 0
            THEN 'a protection needs roles that exist or a number of letters, not '
                || coalesce(unknown, approve_above::text, 'nothing')
    END);
    INSERT INTO redrive.protections (queue, approve_above, roles)
    VALUES (set_protection.queue, set_protection.approve_above, nullif(set_protection.roles, '{}'))
    ON CONFLICT ON CONSTRAINT protections_pkey DO UPDATE
    SET approve_above = excluded.approve_above, roles = excluded.roles;
    PERFORM redrive.record_act('protect_queue', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'queue', set_protection.queue, 'approve_above', set_protection.approve_above, 'roles', nullif(set_protection.roles, '{}'))));
END
$$;

-- Removes the protection of a queue and writes the audit. Returns whether it had one.
CREATE OR REPLACE FUNCTION redrive.remove_protection(queue text, person text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    WITH gone AS (DELETE FROM redrive.protections p WHERE p.queue = $1 RETURNING p.queue)
    SELECT count(redrive.record_act('unprotect_queue', $2, $3, NULL, 0, to_jsonb(g))) > 0 FROM gone g
$$;
