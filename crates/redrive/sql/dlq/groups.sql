-- Purpose: lists failure groups with exact counts, the message of the newest letter that waits, and their
--          deaths per hour of the last 24 hours. Groups with the most open and quarantined letters come
--          first.
-- $1 bigint[]  groups; NULL: all
-- $2 text      queue; NULL: all
-- $3 text[]    states; NULL: all
-- $4 boolean   whether only groups with open or quarantined letters
-- $5 bigint    maximum number of groups
-- Index relied on: the primary keys of groups and failure_hours; there are few groups.
--                  dead_letters_by_group, twice per returned group.
-- Rows: the groups. Zero rows: no group matches.
WITH page AS MATERIALIZED (
    SELECT f.*
    FROM redrive.failure_groups f
    WHERE ($1::bigint[] IS NULL OR f.id = ANY ($1))
        AND ($2::text IS NULL OR f.queue = $2)
        AND ($3::text[] IS NULL OR f.state = ANY ($3))
        AND (NOT $4::boolean OR f.open + f.quarantined <> 0)
    ORDER BY f.open + f.quarantined DESC, f.last_seen DESC, f.id
    LIMIT $5
),
by_hour AS MATERIALIZED (
    SELECT d.group_id, d.hour, sum(d.deaths)::bigint AS deaths
    FROM (
        SELECT h.group_id, h.hour, h.deaths FROM redrive.failure_hours h WHERE h.group_id IN (SELECT page.id FROM page)
        UNION ALL
        SELECT n.group_id, n.hour, n.deaths FROM redrive.letter_deltas n
    ) d
    WHERE d.hour > statement_timestamp() - interval '24 hours'
    GROUP BY 1, 2
)
SELECT p.*, coalesce(newest.error_message, p.title) AS newest,
       ARRAY(
           SELECT coalesce(b.deaths, 0)
           FROM generate_series(23, 0, -1) AS ago (hours)
           LEFT JOIN by_hour b ON b.group_id = p.id
               AND b.hour = date_trunc('hour', statement_timestamp(), 'UTC') - ago.hours * interval '1 hour'
           ORDER BY ago.hours DESC
       ) AS hours
FROM page p
LEFT JOIN LATERAL (
    SELECT n.error_message
    FROM (VALUES ('open'), ('quarantined')) AS s (state)
    CROSS JOIN LATERAL (
        SELECT l.error_message, l.died_at, l.id
        FROM redrive.dead_letters l
        WHERE l.group_id = p.id AND l.state = s.state AND l.state <> 'redriving'
        ORDER BY l.group_id, l.state, l.died_at DESC, l.id DESC
        LIMIT 1
    ) n
    ORDER BY n.died_at DESC, n.id DESC
    LIMIT 1
) newest ON true
ORDER BY p.open + p.quarantined DESC, p.last_seen DESC, p.id
