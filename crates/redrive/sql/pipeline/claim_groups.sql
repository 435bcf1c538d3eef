-- Purpose: moves up to $4 jobs that wait for their group into leases and returns these. It charges one attempt to each
--          job, as claim.sql does. If the groups of the queue are ordered or limited, it takes slots. With the job that
--          takes a slot, it may claim followers: jobs of the same group that run after it, one by one, in the same slot.
--          If each group has a rate limit, it takes a token for each job. First it makes letters of up to 500 jobs that
--          wait behind a letter of their group, if the policy is `divert`.
-- Called by: pipeline/claim/groups.rs, for the fetcher of a worker whose queue has a policy for groups.
-- $1 text       queue
-- $2 text[]     kinds that this worker handles; NULL: all
-- $3 text[]     kinds whose jobs each get a separate lease (handlers with their own transaction)
-- $4 bigint     maximum number of jobs
-- $5 bigint     payload bytes after which the claim takes no further job
-- $6 uuid       id of the lease, chosen by the client for this call; further leases have random ids
-- $7 uuid       worker
-- $8 text[]     kinds to skip because a breaker is open; NULL: none
-- $9 text       group after which the walk over the groups starts, and with which it ends; NULL: it starts with the
--               first one
-- $10 integer   maximum number of groups to walk over
-- $11 integer   jobs to take of a group before those of the next one; 1: no job has followers; nor has one with a separate
--               lease, which follows no other job
-- $12 integer   maximum crashes of a job; a suspect has a separate lease
-- $13 text[]    kinds whose jobs run together in batches; they have no followers and follow no other job
-- Locks: of what it diverts, the policy, the slots and letters and the rows of diverted_groups; then the rows of the jobs it
--        takes. Rows locked by other sessions are skipped, and no other row takes their place, because that would break the
--        order. It waits for another claim that takes the same slot, or creates the failure group of what it diverts, until
--        that commits. A bucket that another session has locked is skipped with its group.
-- Index relied on: jobs_waiting_by_group, one scan and at most two descents per group; the primary keys of group_slots
--                  and group_buckets. It names the partition, because a condition on the segment would make another
--                  index look better.
-- Rows: at least one. Each has the group after which the next walk starts (NULL: this one passed the last group and did
--       not find enough jobs), how many groups of this one it passed until it had enough jobs (NULL: none gave a job),
--       how many jobs it diverted (NULL: none had to be), the microseconds until the first of these groups
--       without a token has one (NULL: none lacks one), those from the start of the statement within which a job with a
--       token must start (NULL: no tokens), the jobs that may follow others with, in the same order, their slots (NULL:
--       none), and the columns of claim.sql for one lease; these are NULL in a single row: no group has a job for this
--       worker.
WITH RECURSIVE rate AS MATERIALIZED (
    SELECT redrive.token_capacity(l) AS capacity, redrive.token_refill(l) AS refill
    FROM redrive.rate_limits l
    WHERE l.queue = $1 AND l.each_group
),
policy AS MATERIALIZED (
    SELECT coalesce(max(p.mode) IN ('ordered', 'limit'), false) AS is_bounded, coalesce(max(p.job_limit), 1) AS job_limit,
           coalesce(max(p.mode) = 'ordered', false) AS is_ordered, coalesce(max(p.on_death) = 'divert', false) AS diverts,
           -- In a group that is being diverted, the next job may have to wait for a letter. With a rate limit, a follower
           -- would wait too long to use its token.
           $11::integer > 1 AND coalesce(max(p.mode) IN ('ordered', 'limit') AND max(p.on_death) <> 'divert', false)
               AND NOT EXISTS (SELECT FROM rate) AS has_followers
    FROM redrive.group_policies p
    WHERE p.queue = $1
),
-- One scan reads the next jobs of the walk, because most groups may have few jobs. Behind the last group, a second lap
-- follows, so that each group has as many turns as the others. The scan numbers the jobs within their group: `nth` of
-- those that this worker may claim, after `others` that it may not and with `singles` among them.
nearest AS MATERIALIZED (
    SELECT n.tid, n.id, n.lap, n.key, n.bytes, n.is_ours, n.is_alone, n.is_head, n.nth, n.others, n.singles
    FROM (
        SELECT w.tid, w.id, w.lap, w.key, w.bytes, w.is_ours, w.is_alone,
               count(*) OVER so_far = 1 AS is_head,
               count(*) FILTER (WHERE w.is_ours) OVER so_far AS nth,
               count(*) FILTER (WHERE NOT w.is_ours) OVER so_far AS others,
               count(*) FILTER (WHERE w.is_ours AND (w.is_alone OR w.kind = ANY ($13::text[]))) OVER so_far AS singles
        FROM (
            SELECT l.lap, g.*
            FROM (SELECT 1 AS lap, coalesce($9::text, '') AS above UNION ALL SELECT 2, '' WHERE $9::text IS NOT NULL) l
            CROSS JOIN LATERAL (
                SELECT j.ctid AS tid, j.id, j.kind, (j.meta).group_key AS key, pg_column_size(j.payload) AS bytes,
                       j.kind = ANY ($3::text[]) OR coalesce((j.meta).crashes, 0) > 0 AS is_alone,
                       ($2::text[] IS NULL OR j.kind = ANY ($2::text[]))
                           AND ($8::text[] IS NULL OR j.kind <> ALL ($8::text[]))
                           AND coalesce((j.meta).crashes, 0) <= $12::integer AS is_ours
                FROM redrive.jobs_waiting j
                WHERE j.queue = $1 AND (j.meta).group_key > l.above
                ORDER BY (j.meta).group_key, j.id
                LIMIT 2 * $10::integer
            ) g
            WHERE l.lap = 1 OR g.key COLLATE "C" <= $9::text
            LIMIT 2 * $10::integer
        ) w
        WINDOW so_far AS (PARTITION BY w.key ORDER BY w.id ROWS UNBOUNDED PRECEDING)
    ) n
),
scan AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE f.is_head)::integer AS groups, count(*) < 2 * $10::integer AS is_last
    FROM nearest f
),
-- The groups of these jobs, and then the groups behind them, one by one.
walk (lap, key, n, is_complete) AS (
    (
        -- The scan may have ended within the last group.
        SELECT h.lap, h.key, h.n, h.n < c.groups OR c.is_last
        FROM (
            SELECT f.lap, f.key, row_number() OVER (ORDER BY f.lap, f.key COLLATE "C")::integer AS n
            FROM nearest f
            WHERE f.is_head
        ) h
        CROSS JOIN scan c
        WHERE h.n <= $10::integer
    )
    UNION ALL
    SELECT n.lap, n.key, w.n + 1, false
    FROM walk w
    CROSS JOIN LATERAL (
        (
            SELECT w.lap, (j.meta).group_key AS key
            FROM redrive.jobs_waiting j
            WHERE j.queue = $1 AND (j.meta).group_key > w.key
            ORDER BY (j.meta).group_key
            LIMIT 1
        )
        UNION ALL
        (
            SELECT 2, (j.meta).group_key
            FROM redrive.jobs_waiting j
            WHERE w.lap = 1 AND j.queue = $1
            ORDER BY (j.meta).group_key
            LIMIT 1
        )
        LIMIT 1
    ) n
    -- Only the last group of the nearest jobs leads to others.
    WHERE w.n < $10::integer AND (SELECT w.n >= c.groups AND NOT c.is_last FROM scan c)
        AND (n.lap = 1 OR n.key COLLATE "C" <= $9::text)
),
-- How many jobs each group may start, its free slots (NULL: all), and how long a group without a token waits for one.
rooms AS MATERIALIZED (
    SELECT w.key, w.n::bigint AS place, w.is_complete, u.free, least(u.room, t.tokens) AS room,
           CASE WHEN u.room > 0 AND t.tokens < 1 THEN t.wait_us END AS wait_us
    FROM policy p
    CROSS JOIN walk w
    LEFT JOIN rate r ON true
    CROSS JOIN LATERAL (
        SELECT array_agg(s.slot) AS slots
        FROM redrive.group_slots s
        WHERE p.is_bounded AND s.queue = $1 AND s.group_key = w.key
    ) a
    CROSS JOIN LATERAL (
        SELECT CASE WHEN a.slots IS NOT NULL THEN ARRAY(
                   SELECT n.slot
                   FROM generate_series(1, p.job_limit) AS n (slot)
                   WHERE n.slot <> ALL (a.slots)
                   ORDER BY n.slot
               ) END AS free,
               -- Of a former policy, slots above the limit may be in use.
               CASE WHEN p.is_bounded THEN p.job_limit - coalesce(cardinality(a.slots), 0) ELSE $4::bigint END AS room
    ) u
    -- Without a limit, both are NULL. A group without a bucket has all tokens; see redrive.take_group_tokens.
    CROSS JOIN LATERAL (
        SELECT floor(r.capacity - r.refill * m.missing + 1e-9)::bigint AS tokens,
               ceil((m.missing - (r.capacity - 1) / r.refill) * 1e6)::bigint AS wait_us
        FROM (
            SELECT CASE WHEN r.refill IS NOT NULL THEN greatest(0, (
                SELECT extract(epoch FROM b.full_at - clock_timestamp())
                FROM redrive.group_buckets b
                WHERE b.queue = $1 AND b.group_key = w.key)) END AS missing
        ) m
    ) t
),
-- Each group gives an equal share, or $11 jobs if that is more. Its first jobs take its free slots, but no more of these
-- than give each group an equal share of the turns; each of its other jobs follows one of these, or takes a slot, too, if
-- it cannot.
shares AS MATERIALIZED (
    SELECT r.key, r.place, r.is_complete, r.free, r.room, p.is_ordered, n.share,
           CASE WHEN p.has_followers THEN least(r.room, n.turns) ELSE r.room END AS turns,
           CASE WHEN p.has_followers THEN n.share ELSE least(r.room, n.share) END AS jobs,
           CASE WHEN NOT p.is_ordered THEN 1000 WHEN p.has_followers THEN n.share ELSE 1 END AS reach
    FROM policy p
    CROSS JOIN (
        SELECT greatest(($4::bigint + count(*) - 1) / greatest(count(*), 1), $11::bigint) AS share,
               (($4::bigint + $11::bigint - 1) / $11::bigint + count(*) - 1) / greatest(count(*), 1) AS turns
        FROM rooms o
        WHERE o.room > 0
    ) n
    CROSS JOIN rooms r
    WHERE r.room > 0
),
-- The jobs of the groups in the order of their places. A job that the worker cannot run stops an ordered group, and is
-- passed over in others. The claim reads no group after the last job that it takes.
picked AS MATERIALIZED (
    SELECT h.tid, h.id, h.bytes, h.is_alone, h.key, h.nth = t.turn AS is_first,
           CASE WHEN (SELECT p.is_bounded FROM policy p) THEN coalesce(h.free[t.turn], t.turn)::smallint END AS slot,
           (h.place << 21) + h.nth AS place
    FROM (
        (
            SELECT f.tid, f.id, f.bytes, f.is_alone, f.nth, f.singles, u.key, u.place, u.free, u.room, u.turns
            FROM shares u
            JOIN nearest f ON f.key = u.key
            WHERE u.is_complete AND f.is_ours AND (NOT u.is_ordered OR f.others = 0) AND f.nth <= u.jobs
            ORDER BY u.place, f.nth
        )
        UNION ALL
        (
            SELECT g.tid, g.id, g.bytes, g.is_alone, g.nth, g.singles, u.key, u.place, u.free, u.room, u.turns
            FROM (SELECT s.* FROM shares s WHERE NOT s.is_complete ORDER BY s.place) u
            CROSS JOIN LATERAL (
                SELECT k.tid, k.id, k.bytes, k.is_alone, k.nth, k.singles
                FROM (
                    SELECT w.tid, w.id, w.bytes, w.is_ours, w.is_alone,
                           count(*) FILTER (WHERE w.is_ours) OVER so_far AS nth,
                           count(*) FILTER (WHERE NOT w.is_ours) OVER so_far AS others,
                           count(*) FILTER (WHERE w.is_ours AND (w.is_alone OR w.kind = ANY ($13::text[]))) OVER so_far AS singles
                    FROM (
                        SELECT j.ctid AS tid, j.id, j.kind, pg_column_size(j.payload) AS bytes,
                               j.kind = ANY ($3::text[]) OR coalesce((j.meta).crashes, 0) > 0 AS is_alone,
                               ($2::text[] IS NULL OR j.kind = ANY ($2::text[]))
                                   AND ($8::text[] IS NULL OR j.kind <> ALL ($8::text[]))
                                   AND coalesce((j.meta).crashes, 0) <= $12::integer AS is_ours
                        FROM redrive.jobs_waiting j
                        WHERE j.queue = $1 AND (j.meta).group_key = u.key
                        ORDER BY j.id
                        LIMIT u.reach
                    ) w
                    WINDOW so_far AS (ORDER BY w.id ROWS UNBOUNDED PRECEDING)
                ) k
                WHERE k.is_ours AND (NOT u.is_ordered OR k.others = 0)
                ORDER BY k.id
                LIMIT u.jobs
            ) g
        )
    ) h
    CROSS JOIN LATERAL (SELECT CASE h.singles WHEN 0 THEN (h.nth - 1) % h.turns + 1 ELSE h.nth END AS turn) t
    WHERE t.turn <= h.room
    LIMIT $4
),
-- Those of them that are not too large together. Mostly, all are.
fitting AS MATERIALIZED (
    SELECT p.*
    FROM picked p
    WHERE (SELECT sum(o.bytes) FROM picked o) <= $5
    UNION ALL
    SELECT (b.p).*
    FROM (SELECT p, sum(p.bytes) OVER (ORDER BY p.place) - p.bytes AS bytes_before FROM picked p) b
    WHERE b.bytes_before < $5 AND (SELECT sum(o.bytes) FROM picked o) > $5
),
diverted AS MATERIALIZED (
    SELECT redrive.divert($1, array_agg(w.key), 500) AS jobs
    FROM walk w
    WHERE (SELECT p.diverts FROM policy p) AND EXISTS (
        SELECT FROM redrive.group_slots s
        JOIN redrive.jobs_waiting j ON j.queue = $1 AND (j.meta).group_key = w.key AND j.id > s.job_id
        WHERE s.queue = $1 AND s.group_key = w.key AND s.held_at IS NOT NULL)
    HAVING count(*) > 0
),
total AS MATERIALIZED (
    SELECT count(*) AS jobs, count(*) < (SELECT count(*) FROM picked) OR count(*) >= $4 AS is_full,
           max(f.place) >> 21 AS walked, max(f.place) & 2097151 AS nth
    FROM fitting f
),
locked AS MATERIALIZED (
    SELECT j.ctid AS tid
    FROM redrive.jobs_waiting j
    -- After the diversion: failure groups are created before slots are taken.
    WHERE j.ctid = ANY (ARRAY(SELECT f.tid FROM fitting f)) AND (SELECT count(*) FROM diverted) >= 0
    FOR UPDATE SKIP LOCKED
),
-- Without a limit, the argument is NULL and the function is not called.
charged AS MATERIALIZED (
    SELECT c.job_id, c.is_granted, c.start_us
    FROM (
        SELECT array_agg(p.key) AS keys, array_agg(p.id) AS ids
        FROM fitting p
        WHERE EXISTS (SELECT FROM rate) AND (p.tid IN (SELECT k.tid FROM locked k)) IS TRUE
    ) a
    CROSS JOIN LATERAL redrive.take_group_tokens($1, a.keys, a.ids) c
),
allowed AS MATERIALIZED (
    SELECT p.id, p.tid, p.key, p.slot, p.is_first, p.is_alone
    FROM (
        SELECT o.id, o.tid, o.key, o.slot, o.is_first, o.is_alone
        FROM fitting o
        WHERE (SELECT count(*) FROM locked) = (SELECT t.jobs FROM total t)
        UNION ALL
        -- Behind a job that another session has locked, no job of the turn starts.
        SELECT m.id, m.tid, m.key, m.slot, m.is_first, m.is_alone
        FROM (
            SELECT o.*, count(*) FILTER (WHERE (o.tid IN (SELECT k.tid FROM locked k)) IS NOT TRUE)
                       OVER (PARTITION BY o.key, coalesce(o.slot, o.id) ORDER BY o.place ROWS UNBOUNDED PRECEDING) AS missing
            FROM fitting o
        ) m
        WHERE m.missing = 0 AND (SELECT count(*) FROM locked) < (SELECT t.jobs FROM total t)
    ) p
    WHERE CASE WHEN EXISTS (SELECT FROM rate) THEN p.id IN (SELECT c.job_id FROM charged c WHERE c.is_granted) ELSE true END
),
-- Another process may have taken a slot that the snapshot misses.
taken AS MATERIALIZED (
    SELECT redrive.take_slots($1, array_agg(a.key), array_agg(a.slot), array_agg(a.id)) AS ids, count(*) AS wanted
    FROM allowed a
    WHERE a.slot IS NOT NULL AND a.is_first
),
leased AS MATERIALIZED (
    SELECT l.*
    FROM (
        SELECT array_agg(8::smallint) AS segments, array_agg(a.tid) AS tids, array_agg(0) AS bytes,
               array_agg(0::smallint) AS crashes, array_agg(a.is_alone) AS are_alone, bool_or(a.is_alone) AS any_alone
        FROM allowed a
        WHERE CASE
            WHEN a.slot IS NULL OR (SELECT cardinality(t.ids) = t.wanted FROM taken t) THEN true
            ELSE (a.key, a.slot) IN (
                SELECT f.key, f.slot FROM allowed f WHERE f.is_first AND f.id = ANY ((SELECT t.ids FROM taken t)::bigint[]))
        END
    ) r
    CROSS JOIN LATERAL redrive.lease_jobs(
        $1, $7, CASE WHEN NOT r.any_alone THEN $6::uuid END, r.segments, r.tids, r.bytes, r.crashes, r.are_alone, 1, 1
    ) l
    WHERE r.tids IS NOT NULL
)
SELECT l.lease_id, l.ids, l.kinds, l.payloads, l.enqueued_at, (l.started).*,
       statement_timestamp() AS claimed_at, n.walked_to, n.walked, n.diverted, n.token_in_us,
       n.start_us, n.turn_ids, n.turn_slots
FROM (
    SELECT CASE
               -- The claim is full, so the next walk starts after the last group that gave a job, or with it if its share
               -- was cut.
               WHEN t.is_full THEN (
                   SELECT w.key
                   FROM walk w
                   WHERE w.n = t.walked - (t.walked > 1 AND t.nth < (
                       SELECT s.jobs FROM shares s WHERE s.place = t.walked))::integer)
               ELSE (SELECT w.key FROM walk w WHERE w.n >= $10::integer AND w.lap = 1)
           END AS walked_to, t.walked,
           (SELECT d.jobs FROM diverted d) AS diverted,
           -- A token that another claim took from under this one may come back soon.
           least((SELECT min(o.wait_us) FROM rooms o),
                 (SELECT 20000 FROM charged c WHERE NOT c.is_granted LIMIT 1)) AS token_in_us,
           (SELECT min(c.start_us) FROM charged c WHERE c.is_granted) AS start_us,
           a.turn_ids, a.turn_slots
    FROM total t
    CROSS JOIN (
        SELECT array_agg(a.id) AS turn_ids, array_agg(a.slot) AS turn_slots
        FROM allowed a
        WHERE a.slot IS NOT NULL AND EXISTS (SELECT FROM policy p WHERE p.has_followers)
    ) a
) n
LEFT JOIN leased l ON true
