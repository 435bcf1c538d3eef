-- Purpose: Groups of jobs: their policies, turns and tokens.
-- breaking: yes

-- The policies of queues for the groups of their jobs; a queue without a row has none. `ordered`: one job at a time, by id; `limit`: up to
-- `job_limit` jobs at a time; `fair`: any number, in turn. `none` claims the jobs that wait as `fair` does, and lets
-- none wait any more. Such a row stays, so that workers find a job that an older transaction adds to those that wait.
CREATE TABLE redrive.group_policies (
    queue      redrive.name NOT NULL PRIMARY KEY,
    mode       text         COLLATE "C" NOT NULL CHECK (mode IN ('ordered', 'limit', 'fair', 'none')),
    job_limit  integer      NOT NULL CHECK (job_limit BETWEEN 1 AND 1000),
    on_death   text         COLLATE "C" NOT NULL CHECK (on_death IN ('continue', 'hold', 'divert')),
    CONSTRAINT group_policies_order_one_at_a_time CHECK (mode <> 'ordered' OR job_limit = 1),
    CONSTRAINT group_policies_hold_in_order CHECK (on_death = 'continue' OR mode = 'ordered')
);

COMMENT ON COLUMN redrive.group_policies.job_limit IS 'How many jobs of a group run at the same time; 1 if ordered; without meaning if fair or none.';
COMMENT ON COLUMN redrive.group_policies.on_death IS 'continue; hold: the letter of a job holds its group until it is redriven, closed, deleted or released; divert: meanwhile, jobs behind it become letters.';

-- The turns of groups. A slot belongs to a live job from its claim until it ends, or to the letter that holds its
-- group. It has no time limit: the statement that ends the job deletes it. The primary key decides between two
-- claims, even if a snapshot misses the slot.
CREATE TABLE redrive.group_slots (
    queue     redrive.name      NOT NULL,
    group_key redrive.group_key NOT NULL,
    slot      smallint          NOT NULL CHECK (slot BETWEEN 1 AND 1000),
    job_id    bigint            NOT NULL,
    held_at   timestamptz,
    PRIMARY KEY (queue, group_key, slot)
);

COMMENT ON COLUMN redrive.group_slots.held_at IS 'When the job died and its letter began to hold the group; NULL: the job is live.';

CREATE UNIQUE INDEX group_slots_by_job ON redrive.group_slots (job_id);

-- The groups that have diverted jobs behind a letter. While one of these letters is open, the jobs of the group behind
-- it are diverted too, so that a redrive of all of them keeps the order.
CREATE TABLE redrive.diverted_groups (
    queue     redrive.name      NOT NULL,
    group_key redrive.group_key NOT NULL,
    since     timestamptz       NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, group_key)
);

COMMENT ON COLUMN redrive.diverted_groups.since IS 'The first diverted job became a letter after this time; earlier letters do not count.';

CREATE INDEX dead_letters_diverted ON redrive.dead_letters (queue, group_key, id)
    WHERE cause = 'diverted' AND state IN ('open', 'quarantined', 'redriving');

-- The first waiting jobs of a group.
CREATE INDEX jobs_waiting_by_group ON redrive.jobs_waiting (queue, ((meta).group_key), id);
-- The groups that letters hold, those held for the longest time first.
CREATE INDEX group_slots_held ON redrive.group_slots (queue, held_at, job_id) WHERE held_at IS NOT NULL;
-- The buckets of the groups of a queue with a limit of each group, while they are not full: a group without a row has
-- all tokens of its bucket. The tokens that are missing come until `full_at`, so one column has them. The primary key
-- decides between two claims, even if a snapshot misses the row.
CREATE TABLE redrive.group_buckets (
    queue     redrive.name      NOT NULL,
    group_key redrive.group_key NOT NULL,
    full_at   timestamptz       NOT NULL,
    PRIMARY KEY (queue, group_key)
);

COMMENT ON COLUMN redrive.group_buckets.full_at IS 'When all its tokens are back, if no job starts.';

-- The queue is an expression, so that no plan reads this index to find the bucket of one group.
CREATE INDEX group_buckets_by_time ON redrive.group_buckets ((queue || ''), full_at);

-- Vacuum starts early and runs at full speed, because a queue table must lose its dead rows quickly.
DO $$
DECLARE
    each_table text;
BEGIN
    FOREACH each_table IN ARRAY '{jobs_0,jobs_1,jobs_2,jobs_3,jobs_4,jobs_5,jobs_6,jobs_7,jobs_waiting,jobs_delayed,'
        'unique_keys,unique_windows,group_slots,group_buckets,metric_deltas_0,metric_deltas_1,metric_deltas_2}'::text[]
    LOOP
        EXECUTE format('ALTER TABLE redrive.%I SET (autovacuum_vacuum_scale_factor = 0,'
            ' autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,'
            ' autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000)', each_table);
    END LOOP;
END
$$;
