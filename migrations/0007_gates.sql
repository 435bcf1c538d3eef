-- Purpose: What stops the claims of a queue or a kind: breakers, pauses and rate limits.
-- breaking: yes

-- One row per breaker that was ever open. A breaker only stops claims: jobs stay ready, no attempt is
-- charged, and letters are written as usual.
--   `open`       the jobs concerned are not claimed until `probe_at`;
--   `half_open`  from then on one process may claim one of them, the probe, until the next `probe_at`,
--                which replaces a process that went away. `probes` is the fence;
--   `closed`     the last probe met no outage.
CREATE TABLE redrive.breakers (
    name       text        COLLATE "C" NOT NULL PRIMARY KEY,
    state      text        COLLATE "C" NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    cause  text        COLLATE "C" NOT NULL CHECK (cause IN ('outage', 'flood', 'operator')),
    message    text,
    kinds      text[]      COLLATE "C" NOT NULL DEFAULT '{}',
    outages    bigint      NOT NULL DEFAULT 0 CHECK (outages >= 0),
    probes     bigint      NOT NULL DEFAULT 0 CHECK (probes >= 0),
    delay_ms   bigint      NOT NULL CHECK (delay_ms > 0),
    opened_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    probe_at   timestamptz,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT breakers_have_a_name
        CHECK (length(name) >= 1 AND length(name) <= 106 AND name = btrim(name) AND name !~ '[[:cntrl:]]'),
    CONSTRAINT breakers_probe_unless_closed CHECK ((state = 'closed') = (probe_at IS NULL))
) WITH (fillfactor = 50);

COMMENT ON COLUMN redrive.breakers.name IS 'A dependency, as handlers name it; or `queue:` and a queue, for all jobs of that queue.';
COMMENT ON COLUMN redrive.breakers.cause IS 'outage: handlers reported it; flood: a worker wrote too many letters; operator: by hand.';
COMMENT ON COLUMN redrive.breakers.kinds IS 'The kinds that need this dependency, as workers reported them; empty for a queue.';
COMMENT ON COLUMN redrive.breakers.outages IS 'Outages in a row: those that opened it, and failed probes since.';
COMMENT ON COLUMN redrive.breakers.delay_ms IS 'The wait before a probe. A failed probe doubles it.';
COMMENT ON COLUMN redrive.breakers.probe_at IS 'When the next probe may start; infinity: an operator must close the breaker.';
-- One row per queue that is paused, or was until `ends_at`. A pause only stops claims: jobs stay ready and
-- lose no attempt, running jobs finish, and enqueues continue. It has no effect on breakers, nor they on it: a
-- queue that is paused behind an open breaker waits for both.
CREATE TABLE redrive.queue_pauses (
    queue     redrive.name NOT NULL PRIMARY KEY,
    paused_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    ends_at   timestamptz  NOT NULL,
    person    text,
    reason    text
);

COMMENT ON COLUMN redrive.queue_pauses.ends_at IS 'When it ends by itself; infinity: an operator must resume the queue.';
-- One row per limit. A claim takes a token for each job from a bucket that all workers share, and the job must start
-- within `hold`; one that did not returns to the queue, and its token is lost. In a time t, a bucket grants at most
-- `capacity + refill * t` tokens. The starts follow at most `hold` later, so in a time t at most
-- `capacity + refill * (t + hold)` jobs start. The values are chosen so that this is at most `burst + rate * t`:
-- * `hold` is a quarter of the time in which the burst refills, from 20 ms, which a claim over a network may take, to 1 s.
-- * With a burst of 2 or more, `capacity` is `burst - refill * hold`. It must be at least one token, which bounds
--   `refill` by `(burst - 1) / hold`; only a burst of less than 20 ms makes `refill` less than the rate.
-- * With a burst of 1, tokens are `1 / rate + hold` apart, so that starts are at least `1 / rate` apart. There, `hold`
--   is a twentieth of that, but at least 20 ms.
CREATE TABLE redrive.rate_limits (
    queue    redrive.name     NOT NULL,
    kind     text             COLLATE "C" NOT NULL CHECK (length(kind) <= 255),
    each_group boolean        NOT NULL DEFAULT false,
    starts   integer          NOT NULL CHECK (starts BETWEEN 1 AND 1000000),
    period   interval         NOT NULL CHECK (period BETWEEN '1 millisecond' AND '31 days'),
    burst    integer          NOT NULL CHECK (burst BETWEEN 1 AND 1000000),
    set_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    person   text,
    reason   text,
    rate     double precision NOT NULL GENERATED ALWAYS AS (starts / extract(epoch FROM period)::double precision) STORED,
    PRIMARY KEY (queue, kind, each_group),
    CONSTRAINT rate_limits_of_a_kind_or_each_group CHECK (NOT each_group OR kind = '')
);

COMMENT ON COLUMN redrive.rate_limits.kind IS 'The kind; empty: all jobs of the queue.';
COMMENT ON COLUMN redrive.rate_limits.each_group IS 'Whether the limit applies to each group of the queue by itself.';

-- The tokens of each limit of a queue or kind. It is apart from the limits because it changes with each claim and is compacted: a
-- snapshot that is older than a compaction finds no bucket, and a claim without a bucket gets no token.
CREATE TABLE redrive.rate_buckets (
    queue      redrive.name     NOT NULL,
    kind       text             COLLATE "C" NOT NULL,
    tokens     double precision NOT NULL,
    counted_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

COMMENT ON COLUMN redrive.rate_buckets.tokens IS 'The tokens at `counted_at`; more have come since.';
