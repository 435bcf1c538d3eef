//! The statements that must not slow down.

/// A statement, its parameters, and the pages it may touch: a few dozen per row it changes, far
/// fewer than a scan of a large table.
pub(super) struct Hot {
    pub(super) name: &'static str,
    pub(super) arguments: &'static str,
    pub(super) pages: i64,
}

/// The statements of workers.
pub(super) const WORKERS: [Hot; 31] = [
    Hot {
        name: "claim",
        arguments: "'orders', NULL, '{}', 500, 8388608, 1, gen_random_uuid(), gen_random_uuid(), \
                    '{-32768}', '{0}', '{32767}', NULL, 2",
        pages: 5000,
    },
    Hot {
        name: "claim_window",
        arguments: "'orders', NULL, '{}', 500, 8388608, 1, gen_random_uuid(), gen_random_uuid(), '{-4,0}', '{1500000,1500000}', '{1600000,1600000}', NULL, 2",
        pages: 5000,
    },
    Hot {
        name: "measure_queue",
        arguments: "'orders', '{order}', '{}', 0",
        pages: 500,
    },
    Hot {
        name: "claim_one",
        arguments: "'orders', NULL, NULL, 0, gen_random_uuid(), gen_random_uuid()",
        pages: 100,
    },
    Hot {
        name: "claim_groups",
        arguments: "'orders', NULL, '{}', 500, 8388608, gen_random_uuid(), gen_random_uuid(), NULL, NULL, 5199000, '{big}', 500, true, 31, '{}', 1",
        pages: 30_000,
    },
    Hot {
        name: "charge_groups",
        arguments: "'orders', '{g1,g2,g3,none}', '{1,2,3,4}'",
        pages: 100,
    },
    Hot {
        name: "put_off",
        arguments: "ARRAY['00000000-0000-0000-0001-000000000002', '00000000-0000-0000-0001-000000000002']::uuid[], '{20,21}', \
                    '{1000,2000}'",
        pages: 200,
    },
    Hot {
        name: "forget_full_buckets",
        arguments: "1000",
        pages: 10_000,
    },
    Hot {
        name: "queues_with_held_groups",
        arguments: "10000",
        pages: 30_000,
    },
    Hot {
        name: "promote",
        arguments: "'orders', 1000, NULL, NULL, 10000",
        pages: 20_000,
    },
    Hot {
        name: "sweep_delayed",
        arguments: "'orders', 1000, 0, 100",
        pages: 20_000,
    },
    Hot {
        name: "store_delayed_mark",
        arguments: "'orders', 1700000000000000, 0",
        pages: 20,
    },
    Hot {
        name: "settle_done",
        arguments: "ARRAY['00000000-0000-0000-0001-000000000002']::uuid[], 'orders', \
                    ARRAY['00000000-0000-0000-0001-000000000002']::uuid[], '{succeeded}', '{order}', '{NULL}', '{10}', '{0}', '{10}', false",
        pages: 200,
    },
    Hot {
        name: "settle",
        arguments: "ARRAY_FILL('00000000-0000-0000-0001-000000000002'::uuid, '{4}'), '{20,21,22,23}', \
                    '{done,retry,retry,dead}', '{0,0,60000,0}', '{NULL,NULL,NULL,rejected}', \
                    '{NULL,E,E,E}', '{NULL,e,e,e}', '{NULL,NULL,NULL,NULL}', ARRAY[NULL, '{}', '{}', '{}']::jsonb[], \
                    '00000000-0000-0000-0000-000000000001', 'h', 'v', 'manual', '{f,f,f,f}', 1, 'orders', '{0,0,0,0}', \
                    ARRAY['00000000-0000-0000-0001-000000000002']::uuid[], '{retried}', '{NULL}', '{NULL}', '{NULL}', \
                    '{2}', '{0}', '{NULL,NULL,NULL,NULL}', 10, false",
        pages: 500,
    },
    Hot {
        name: "settle_own",
        arguments: "'00000000-0000-0000-0001-000000000002', 20, 1, true, true, now(), '{succeeded}', '{order}', '{NULL}', \
                    '{1}', '{0}'",
        pages: 200,
    },
    Hot {
        name: "release",
        arguments: "'00000000-0000-0000-0000-000000000001', ARRAY['00000000-0000-0000-0001-000000000002']::uuid[], \
                    '{}', 0, '{}', 10, 'manual'",
        pages: 2000,
    },
    Hot {
        name: "reap",
        arguments: "60000, 100, 3, 5000, 'manual', 10000, 16777216, gen_random_uuid()",
        pages: 30_000,
    },
    Hot {
        name: "renew",
        arguments: "'00000000-0000-0000-0000-000000000001', 'orders', 'h', 1, 'v', 1, NULL, 60000",
        pages: 2000,
    },
    Hot {
        name: "chores",
        arguments: "'00000000-0000-0000-0000-000000000001', 60000",
        pages: 2000,
    },
    Hot {
        name: "age_jobs",
        arguments: "'orders', 3600000, 3, NULL, 500",
        pages: 2000,
    },
    Hot {
        name: "age_jobs",
        arguments: "'orders', 0, 3, NULL, 500",
        pages: 20_000,
    },
    Hot {
        name: "give_back",
        arguments: "'00000000-0000-0000-0001-000000000002', '{20,21}'",
        pages: 200,
    },
    Hot {
        name: "wait",
        arguments: "'00000000-0000-0000-0000-000000000001', true",
        pages: 20,
    },
    Hot {
        name: "leave",
        arguments: "'00000000-0000-0000-0000-000000000001'",
        pages: 2000,
    },
    Hot {
        name: "compact",
        arguments: "",
        pages: 2000,
    },
    Hot {
        name: "turn_ring",
        arguments: "1000000000, 1000",
        pages: 2000,
    },
    Hot {
        name: "fold_metrics",
        arguments: "5000",
        pages: 40_000,
    },
    Hot {
        name: "fold_letters",
        arguments: "5000",
        pages: 2000,
    },
    Hot {
        name: "fold_runs",
        arguments: "5000",
        pages: 2000,
    },
    Hot {
        name: "count_chores",
        arguments: "'orders', '{chore}', '{ring}', '{0}', '{1}', '{0.1}'",
        pages: 2000,
    },
    Hot {
        name: "take_probe",
        arguments: "'queue:orders', gen_random_uuid(), 1000, 'orders', NULL, NULL, 3, '{-32768}', '{0}', '{32767}', '{}', '{}', '{}'",
        pages: 200,
    },
];

/// The statements of other clients.
pub(super) const CALLERS: [Hot; 9] = [
    Hot {
        name: "enqueue",
        arguments: "'orders', '{order}', ARRAY['{}']::json[], '{0}', '{0}', '{5}'",
        pages: 200,
    },
    Hot {
        name: "enqueue_one",
        arguments: "'orders', 'order', '{}', 0, 5",
        pages: 200,
    },
    Hot {
        name: "enqueue_unique",
        arguments: "'orders', '{order,order}', ARRAY['{}','{}']::json[], '{0,0}', '{0,0}', '{5,5}', '{k7,new}', '{NULL,NULL}', '{g1,NULL}', '{60000,60000}'",
        pages: 300,
    },
    Hot {
        name: "letters",
        arguments: "'{\"queue\": \"orders\"}', NULL, 50",
        pages: 2000,
    },
    Hot {
        name: "redrive",
        arguments: "'{\"queue\": \"orders\"}', NULL, 500, NULL, NULL, 'a test', 'me', NULL, NULL, NULL, false, NULL",
        pages: 30_000,
    },
    Hot {
        name: "discard",
        arguments: "'{\"queue\": \"orders\"}', NULL, 500, 'a test', 'me', NULL",
        pages: 40_000,
    },
    Hot {
        name: "run_letters",
        arguments: "1, 100000, 100",
        pages: 2000,
    },
    Hot {
        name: "letter_runs",
        arguments: "5, 100",
        pages: 200,
    },
    Hot {
        name: "drained",
        arguments: "'orders'",
        pages: 100,
    },
];
