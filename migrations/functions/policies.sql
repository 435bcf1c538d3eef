-- Purpose: Policies: automatic redrives.

-- Adds or changes a policy and returns its id. A new policy ticks at once. `max_delay` defaults to a week, or
-- to `every` if that is longer.
CREATE OR REPLACE FUNCTION redrive.set_policy(
    name text, filter jsonb, every interval, batch integer DEFAULT 50, generations integer DEFAULT 10,
    growth double precision DEFAULT 1, max_delay interval DEFAULT NULL,
    from_hour integer DEFAULT NULL, to_hour integer DEFAULT NULL, while_closed boolean DEFAULT true,
    mode text DEFAULT 'active', person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    longest_wait interval := coalesce(max_delay, greatest(every, interval '7 days'));
    error   text;
    found_id  bigint;
BEGIN
    PERFORM redrive.check_name('policy', set_policy.name), redrive.filter_letters(set_policy.filter);
    error := CASE
        WHEN set_policy.filter ? 'state' THEN 'redrives open letters; its filter cannot contain a state'
        WHEN every IS NULL OR every NOT BETWEEN '1 second' AND '366 days' THEN 'needs an interval of 1 second to 366 days'
        WHEN batch IS NULL OR batch NOT BETWEEN 1 AND 10000 THEN 'needs a batch of 1 to 10000 letters'
        WHEN generations IS NULL OR generations NOT BETWEEN 1 AND 100000 THEN 'needs a limit of 1 to 100000 generations'
        WHEN growth IS NULL OR growth NOT BETWEEN 1 AND 100 THEN 'needs a growth of 1 to 100'
        WHEN longest_wait < every OR longest_wait > '3660 days' THEN 'needs a max_delay delay between its interval and 3660 days'
        WHEN (from_hour IS NULL) <> (to_hour IS NULL) OR from_hour = to_hour
            OR from_hour NOT BETWEEN 0 AND 23 OR to_hour NOT BETWEEN 0 AND 23
            THEN 'needs two different hours between 0 and 23, or none'
        WHEN while_closed IS NULL THEN 'needs while_closed to be true or false'
        WHEN mode IS NULL OR mode NOT IN ('active', 'dry_run', 'paused') THEN 'needs the mode active, dry_run or paused'
    END;
    IF error IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: a policy %', error USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM redrive.check_allowed(redrive.filter_values(set_policy.filter -> 'queue'));
    INSERT INTO redrive.policies AS p
        (name, filter, every, growth, max_delay, batch, generations, from_hour, to_hour, while_closed, mode)
    VALUES
        (set_policy.name, set_policy.filter, set_policy.every, set_policy.growth, longest_wait, set_policy.batch,
         set_policy.generations, set_policy.from_hour, set_policy.to_hour, set_policy.while_closed, set_policy.mode)
    ON CONFLICT ON CONSTRAINT policies_name_key DO UPDATE
    SET filter = excluded.filter, every = excluded.every, growth = excluded.growth,
        max_delay = excluded.max_delay, batch = excluded.batch, generations = excluded.generations,
        from_hour = excluded.from_hour, to_hour = excluded.to_hour,
        while_closed = excluded.while_closed, mode = excluded.mode,
        next_at = least(p.next_at, clock_timestamp() + excluded.every)
    RETURNING p.id INTO found_id;
    PERFORM redrive.record_act(
        'set_policy', person, reason, set_policy.filter, 0, jsonb_build_object(
            'policy', set_policy.name, 'mode', set_policy.mode, 'every', set_policy.every,
            'batch', set_policy.batch, 'generations', set_policy.generations, 'growth', set_policy.growth,
            'max_delay', longest_wait, 'from_hour', set_policy.from_hour, 'to_hour', set_policy.to_hour,
            'while_closed', set_policy.while_closed));
    RETURN found_id;
END
$$;

-- Sets the mode of a policy: `active`, `dry_run` or `paused`. Returns whether the policy exists.
CREATE OR REPLACE FUNCTION redrive.set_policy_mode(name text, mode text, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    filter jsonb;
BEGIN
    IF set_policy_mode.mode IS NULL OR set_policy_mode.mode NOT IN ('active', 'dry_run', 'paused') THEN
        RAISE EXCEPTION 'redrive: a policy needs the mode active, dry_run or paused' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE redrive.policies p SET mode = set_policy_mode.mode
    WHERE p.name = set_policy_mode.name
    RETURNING p.filter INTO filter;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF set_policy_mode.mode = 'active' THEN
        PERFORM redrive.check_allowed(redrive.filter_values(filter -> 'queue'));
    END IF;
    PERFORM redrive.record_act('set_policy_mode', person, reason, filter, 0, jsonb_build_object(
        'policy', set_policy_mode.name, 'mode', set_policy_mode.mode));
    RETURN true;
END
$$;

-- Deletes a policy. Letters that it redrove are not affected. Returns whether the policy existed.
CREATE OR REPLACE FUNCTION redrive.remove_policy(name text, person text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    filter jsonb;
BEGIN
    DELETE FROM redrive.policies p WHERE p.name = remove_policy.name RETURNING p.filter INTO filter;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('remove_policy', person, reason, filter, 0, jsonb_build_object('policy', remove_policy.name));
    RETURN true;
END
$$;

-- Sets the protection of a queue and writes the audit. An earlier one is replaced.
CREATE OR REPLACE FUNCTION redrive.set_protection(
    queue text, approve_above bigint DEFAULT NULL, roles text[] DEFAULT NULL, other_role boolean DEFAULT false,
    person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unknown text := (
        SELECT min(r.name) FROM unnest(roles) AS r (name)
        WHERE NOT EXISTS (SELECT FROM pg_roles k WHERE k.rolname = r.name));
BEGIN
    PERFORM redrive.check_name('queue', set_protection.queue);
    IF unknown IS NOT NULL OR approve_above < 0 OR approve_above IS NULL AND coalesce(cardinality(roles), 0) = 0 THEN
        RAISE EXCEPTION 'redrive: a protection needs roles that exist or a number of letters, not %', coalesce(unknown, approve_above::text, 'nothing')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.protections (queue, approve_above, roles, other_role)
    VALUES (set_protection.queue, set_protection.approve_above, nullif(set_protection.roles, '{}'), set_protection.other_role)
    ON CONFLICT ON CONSTRAINT protections_pkey DO UPDATE
    SET approve_above = excluded.approve_above, roles = excluded.roles, other_role = excluded.other_role;
    PERFORM redrive.record_act('protect_queue', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'queue', set_protection.queue, 'approve_above', set_protection.approve_above, 'roles', set_protection.roles,
        'other_role', nullif(set_protection.other_role, false))));
END
$$;

-- Removes the protection of a queue and writes the audit. Returns whether it had one.
CREATE OR REPLACE FUNCTION redrive.remove_protection(queue text, person text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM redrive.protections p WHERE p.queue = remove_protection.queue;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('unprotect_queue', person, reason, NULL, 0, jsonb_build_object('queue', remove_protection.queue));
    RETURN true;
END
$$;
