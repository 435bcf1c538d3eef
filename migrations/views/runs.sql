-- Purpose: Redrive runs with exact numbers.

CREATE OR REPLACE VIEW redrive.runs AS
    SELECT r.id, r.state, r.filter, r.person, r.reason, r.forced, r.to_queue::text AS to_queue, r.priority,
           r.max_attempts, r.delay_ms, r.rate, r.canary, r.tolerated, r.stage, r.stage_to, r.driver,
           coalesce(r.driver_expires_at > statement_timestamp(), false) AS is_driven,
           r.total, r.cursor + coalesce(n.tried, 0) AS cursor, r.sent + coalesce(n.sent, 0) AS sent,
           r.skipped + coalesce(n.skipped, 0) AS skipped,
           r.recovered + coalesce(n.recovered, 0) AS recovered,
           r.died_alike + coalesce(n.died_alike, 0) AS died_alike,
           r.died_differently + coalesce(n.died_differently, 0) AS died_differently,
           r.sent - r.recovered - r.died_alike - r.died_differently
               + coalesce(n.sent - n.recovered - n.died_alike - n.died_differently, 0) AS still_running,
           r.halted_because, r.role, r.approved_by, r.approved_at, r.created_at, r.started_at, r.ended_at
    FROM redrive.redrive_runs r
    LEFT JOIN LATERAL (
        SELECT sum(d.tried)::bigint AS tried, sum(d.sent)::bigint AS sent, sum(d.skipped)::bigint AS skipped,
               sum(d.recovered)::bigint AS recovered, sum(d.died_alike)::bigint AS died_alike,
               sum(d.died_differently)::bigint AS died_differently
        FROM redrive.run_deltas d
        WHERE d.run_id = r.id
    ) n ON true;

COMMENT ON VIEW redrive.runs IS 'Redrive runs with exact numbers: recovered, died alike, died differently, still running.';
