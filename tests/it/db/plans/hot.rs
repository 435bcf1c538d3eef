//! The statements that must not slow down: name, the pages it may touch, and its parameters. The
//! limit is a few dozen pages per row it changes, far fewer than a scan of a large table.

/// A statement, its parameters, and the pages it may touch.
pub(super) struct Hot {
    pub(super) name: &'static str,
    pub(super) arguments: &'static str,
    pub(super) pages: i64,
}

/// Reads the lines of a table.
pub(super) fn hot(table: &'static str) -> impl Iterator<Item = Hot> {
    table.trim().lines().map(|line| {
        let (name, rest) = line.split_once(' ').expect("a name");
        let rest = rest.trim_start();
        let (pages, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
        Hot {
            name,
            arguments: arguments.trim_start(),
            pages: pages.parse().expect("a number of pages"),
        }
    })
}

/// The statements of workers, and a listing, which is no cheaper under the settings of callers.
pub(super) const WORKERS: &str = r"
claim                      5000  'orders', NULL, '{}', 500, 8388608, 1, gen_random_uuid(), gen_random_uuid(), '{-32768}', '{0}', '{32767}', NULL, 2
claim_window               5000  'orders', NULL, '{}', 500, 8388608, 1, gen_random_uuid(), gen_random_uuid(), '{-4,0}', '{1500000,1500000}', '{1600000,1600000}', NULL, 2
measure_queue               500  'orders', 0
claim_one                   100  'orders', NULL, NULL, 0, gen_random_uuid(), gen_random_uuid()
claim_groups              30000  'orders', NULL, '{}', 500, 8388608, gen_random_uuid(), gen_random_uuid(), NULL, NULL, 500, 31, 1, '{}'
take_group_tokens           100  'orders', '{g1,g2,g3,none}', '{1,2,3,4}'
forget_full_buckets       10000  1000
queues_with_held_groups   30000  10000
promote                   20000  'orders', 1000, 10000, 0
settle_done                  20  ARRAY['00000000-0000-0000-0001-000000000002']::uuid[], 'orders', ARRAY['00000000-0000-0000-0001-000000000002']::uuid[], '{succeeded}', '{order}', '{NULL}', '{10}', '{0}', '{10}', false
settle                      500  ARRAY_FILL('00000000-0000-0000-0001-000000000002'::uuid, '{4}'), '{20,21,22,23}', '{done,retry,retry,dead}', '{0,0,60000,0}', '{NULL,NULL,NULL,rejected}', '{NULL,E,E,E}', '{NULL,e,e,e}', '{NULL,NULL,NULL,NULL}', '{NULL,5,5,5}', '00000000-0000-0000-0000-000000000001', 'h', 'v', false, '{f,f,f,f}', 1, 'orders', '{0,0,0,0}', ARRAY['00000000-0000-0000-0001-000000000002']::uuid[], '{failed}', '{order}', '{error}', '{NULL}', '{2}', '{0}', '{NULL,NULL,NULL,NULL}', 10
settle_own                  200  '00000000-0000-0000-0001-000000000002', 20, 1, true, true, now(), '{succeeded}', '{order}', '{NULL}', '{1}', '{0}'
release                    2000  '00000000-0000-0000-0000-000000000001', ARRAY['00000000-0000-0000-0001-000000000002']::uuid[], 0, '{}', 10
reap                      30000  60000, 100, 3, 5000, ARRAY[gen_random_uuid()], 10000, 16777216
renew                      2000  '{00000000-0000-0000-0000-000000000001}', '{orders}', 'h', 1, 'v', '{1}', '{NULL}', '{60000}', '{NULL}', '{1}'
chores                     2000  '{00000000-0000-0000-0000-000000000001}', 60000
age_jobs                   6000  'orders', 3600000, 3, 500
age_jobs                  20000  'orders', 0, 3, 500
wait                         20  '00000000-0000-0000-0000-000000000001', true
leave                      2000  '{00000000-0000-0000-0000-000000000001}'
compact                    2000
turn_ring                  2000  1000000000, 1000
fold_metrics              40000  5000
fold_letters               2000  5000
fold_runs                  2000  5000
count_chores               2000  'orders', '{chore}', '{ring}', '{0}', '{1}', '{0.1}'
take_probe                  200  'queue:orders', 1000
held_groups                2000  'held', NULL, 50
held_groups                 200  NULL, 5, 1
";

/// The statements of other clients.
pub(super) const CALLERS: &str = r#"
enqueue                     200  'orders', '{order}', ARRAY['{}']::json[], '{0}', '{0}', '{5}'
enqueue_one                 200  'orders', 'order', '{}', 0, 5
store_jobs                  300  'orders', '{order,order}', ARRAY['{}','{}']::json[], '{0,0}', '{0,0}', '{5,5}', '{k7,new}', '{NULL,NULL}', '{g1,NULL}', '{NULL,NULL}', '{60000,60000}'
list_letters               2000  '{"queue": "orders"}', NULL, 50, false, false
list_letters               2000  '{"queue": "orders"}', NULL, 50, false, true
redrive_letters           30000  '{"queue": "orders"}', 500, 'a test', 'me', NULL, NULL, NULL, false, NULL
redrive_letters            2000  '{"ids": [199998]}', 500, 'a test', 'me', NULL, NULL, NULL, false, NULL
redrive_letters             300  '{"ids": [199998], "queue": "orders"}', 500, 'a test', 'me', NULL, NULL, NULL, false, NULL
redrive_letters            2000  '{"queue": "none"}', 500, 'a test', 'me', NULL, NULL, NULL, false, NULL
discard_letters           40000  '{"queue": "orders"}', 500, 'a test', 'me', NULL, false
run_letters                2000  1, 100000, NULL, 100
run_letters                 200  NULL, 0, 5, 100
metrics_queues            60000
metrics_letters            5000
metrics_operations         5000
metrics_tables             5000
metrics_server             2000
is_drained                  100  '{orders}'
"#;
