-- Purpose: Failure groups with exact numbers.

-- Adds the deltas that are not folded yet, of which there are few.
CREATE OR REPLACE VIEW redrive.failure_groups AS
    SELECT g.id, g.fingerprint, g.queue::text AS queue, g.kind::text AS kind, g.error_class, g.title,
           CASE WHEN g.state = 'resolved' AND greatest(g.last_seen, n.died_at) > g.resolved_at THEN 'open' ELSE g.state END
               AS state,
           g.note, g.owner, g.first_seen, g.first_version,
           greatest(g.last_seen, n.died_at) AS last_seen, g.resolved_at,
           g.state <> 'ignored' AND greatest(g.last_seen, n.died_at) > g.resolved_at IS TRUE AS is_regression,
           g.deaths + coalesce(n.deaths, 0) AS deaths,
           g.open + coalesce(n.open, 0) AS open,
           g.redriving + coalesce(n.redriving, 0) AS redriving,
           g.recovered + coalesce(n.recovered, 0) AS recovered,
           g.discarded + coalesce(n.discarded, 0) AS discarded,
           g.quarantined + coalesce(n.quarantined, 0) AS quarantined
    FROM redrive.groups g
    LEFT JOIN (
        SELECT d.group_id, sum(d.deaths)::bigint AS deaths, max(d.died_at) AS died_at,
               sum(d.letters) FILTER (WHERE d.state = 'open')::bigint AS open,
               sum(d.letters) FILTER (WHERE d.state = 'redriving')::bigint AS redriving,
               sum(d.letters) FILTER (WHERE d.state = 'recovered')::bigint AS recovered,
               sum(d.letters) FILTER (WHERE d.state = 'discarded')::bigint AS discarded,
               sum(d.letters) FILTER (WHERE d.state = 'quarantined')::bigint AS quarantined
        FROM redrive.letter_deltas d
        GROUP BY d.group_id
    ) n ON n.group_id = g.id;

COMMENT ON VIEW redrive.failure_groups IS 'Letters that died of the same error, with exact numbers.';
