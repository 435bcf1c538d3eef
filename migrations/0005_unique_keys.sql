-- Purpose: Keys of unique jobs: a queue has at most one live job with a given key.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- A job holds its key from enqueue until it is done, dead, discarded or cancelled. The row is written
-- and deleted in the statement that creates or ends the job, so no key is left behind.
CREATE TABLE redrive.unique_keys (
    queue  redrive.name NOT NULL,
    key    text         COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 200),
    job_id bigint       NOT NULL,
    PRIMARY KEY (queue, key)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

COMMENT ON TABLE redrive.unique_keys IS 'The keys of unique jobs, each with the live job that holds it.';

CREATE UNIQUE INDEX unique_keys_by_job ON redrive.unique_keys (job_id);

-- Takes keys for new jobs. Returns each key with the live job that holds it: the new job, or an earlier one.
--
-- The key of an earlier job is read and never locked. The worker that ends that job deletes the key, and
-- must not wait until the caller commits. If the key disappears before it is read, it is free again.
CREATE FUNCTION redrive.take_keys(queue text, keys text[], ids bigint[]) RETURNS TABLE (key text, job_id bigint)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    wanted record;
BEGIN
    -- In the order of the keys, so that two callers cannot deadlock.
    FOR wanted IN
        SELECT DISTINCT ON (n.key COLLATE "C") n.key, n.id
        FROM unnest(take_keys.keys, take_keys.ids) AS n (key, id)
        ORDER BY n.key COLLATE "C", n.id
    LOOP
        take_keys.key := wanted.key;
        LOOP
            INSERT INTO redrive.unique_keys AS k (queue, key, job_id)
            VALUES (take_keys.queue, wanted.key, wanted.id)
            ON CONFLICT ON CONSTRAINT unique_keys_pkey DO NOTHING
            RETURNING k.job_id INTO take_keys.job_id;
            EXIT WHEN FOUND;
            SELECT k.job_id INTO take_keys.job_id
            FROM redrive.unique_keys k
            WHERE k.queue = take_keys.queue AND k.key = wanted.key;
            EXIT WHEN FOUND;
        END LOOP;
        RETURN NEXT;
    END LOOP;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
