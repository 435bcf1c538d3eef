-- Purpose: Redrive runs: redrives that survive the process that started them.

-- Records the outcome of a member in the statement that ends its job. The first state after `redriving` is
-- the outcome. `reopen` has set `alike`. A job that was diverted did not run: its letter counts as skipped, not as sent.
CREATE OR REPLACE FUNCTION redrive.record_run_outcomes() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM became b WHERE b.run_id IS NOT NULL AND b.state <> 'redriving') THEN
        RETURN NULL;
    END IF;
    WITH told AS (
        UPDATE redrive.run_letters m
        SET outcome = CASE
            WHEN b.state = 'recovered' THEN 'recovered'
            WHEN b.cause = 'diverted' THEN 'skipped_diverted'
            WHEN b.alike > 0 THEN 'died_alike'
            ELSE 'died_differently'
        END
        FROM became b
        WHERE b.run_id IS NOT NULL AND b.state <> 'redriving'
            AND m.run_id = b.run_id AND m.ordinal = b.run_ordinal AND m.outcome IS NULL
        RETURNING m.run_id, m.outcome
    )
    INSERT INTO redrive.run_deltas (run_id, sent, skipped, recovered, died_alike, died_differently)
    SELECT t.run_id, -count(*) FILTER (WHERE t.outcome = 'skipped_diverted'),
           count(*) FILTER (WHERE t.outcome = 'skipped_diverted'),
           count(*) FILTER (WHERE t.outcome = 'recovered'),
           count(*) FILTER (WHERE t.outcome = 'died_alike'),
           count(*) FILTER (WHERE t.outcome = 'died_differently')
    FROM told t
    GROUP BY t.run_id;
    RETURN NULL;
END
$$;

-- Folds up to `max_rows` deltas of a run, whose row the caller has locked, into its totals. A run that was paused or
-- cancelled also left the numbers of its last steps. Returns how many were folded.
CREATE OR REPLACE FUNCTION redrive.fold_run(run bigint, max_rows bigint DEFAULT 9223372036854775807) RETURNS bigint
    LANGUAGE sql VOLATILE
    SET enable_seqscan = off
AS $$
    WITH gone AS (
        DELETE FROM redrive.run_deltas d
        WHERE d.ctid = ANY (ARRAY(SELECT n.ctid FROM redrive.run_deltas n WHERE n.run_id = $1 LIMIT $2))
        RETURNING d.*
    ),
    added AS (
        UPDATE redrive.redrive_runs r
        SET cursor = r.cursor + n.tried, sent = r.sent + n.sent, skipped = r.skipped + n.skipped,
            recovered = r.recovered + n.recovered, died_alike = r.died_alike + n.died_alike,
            died_differently = r.died_differently + n.died_differently, progress_at = clock_timestamp()
        FROM (
            SELECT sum(g.tried) AS tried, sum(g.sent) AS sent, sum(g.skipped) AS skipped, sum(g.recovered) AS recovered,
                   sum(g.died_alike) AS died_alike, sum(g.died_differently) AS died_differently
            FROM gone g
        ) n
        WHERE r.id = $1 AND n.tried IS NOT NULL
    )
    SELECT count(*) FROM gone
$$;
