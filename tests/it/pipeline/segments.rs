//! Segments: they are filled, drained and truncated in turn without losing a job.

use redrive_tests::prelude::*;

/// Runs one rotation step, with segments of one page.
pub(super) fn step(client: &mut Client) -> String {
    client.ask("SELECT redrive.turn_ring(8192, 1000)", &[])
}

/// Returns the size of each segment in bytes.
fn sizes(client: &mut Client) -> Vec<i64> {
    let asked = "SELECT pg_relation_size(format('redrive.jobs_%s', n)::regclass) FROM generate_series(0, 7) n ORDER BY n";
    client.column(asked, &[])
}

fn current(client: &mut Client) -> i16 {
    client.ask("SELECT segment FROM redrive.ring", &[])
}

/// A worker that counts its jobs.
fn counting(queue: &Queue, slots: usize, tally: &Tally) -> Worker {
    worker(queue).slots(slots).runs(tally.counting())
}

#[test]
fn segments_rotate_under_load_and_lose_no_job() {
    let (test, queue) = TestDatabase::with_orders();
    let tally = Tally::new();
    let worker = counting(&test.queue("orders"), 2, &tally);
    let enough = kept::<AtomicBool>();
    let producer = thread::spawn(move || {
        let mut ids = Vec::<JobId>::new();
        while !enough.load(Ordering::SeqCst) {
            ids.extend(queue.enqueue_many(&Order::up_to(150)).unwrap());
        }
        ids
    });
    let mut client = test.client();
    let (mut turned, mut truncated) = (0, 0);
    wait_until("segments to be filled and truncated", SOON, || {
        match &*step(&mut client) {
            "turned" => turned += 1,
            "truncated" => truncated += 1,
            _ => {}
        }
        turned >= 4 && truncated >= 3
    });
    enough.store(true, Ordering::SeqCst);
    let ids = producer.join().expect("the producer");
    drained(&test.queue("orders"));
    done(&worker, ids.len() as u64);
    assert_eq!(stop(worker).stats.lost, 0);
    assert_eq!((tally.jobs(), tally.repeated()), (ids.len(), vec![]));
    // Without jobs, every segment but the current one is truncated.
    wait_until("the ring to be at rest", SOON, || {
        let at_rest = step(&mut client) == "nothing";
        let sizes = sizes(&mut client);
        at_rest && sizes.iter().filter(|bytes| **bytes > 0).count() <= 1
    });
}

#[test]
fn a_paused_backlog_stays_in_place_and_the_ring_turns_past_it() {
    let (test, mut client) = TestDatabase::with_client();
    let (paused, busy) = (test.queue("paused"), test.queue("busy"));
    // More than a step of the ring would move.
    let ids = paused.enqueue_many(&Order::up_to(1001)).unwrap();
    let worker = counting(&busy, 2, &Tally::new());
    let mut visited = vec![current(&mut client)];
    while visited.len() < 16 {
        let here = current(&mut client);
        busy.enqueue_many(&Order::up_to(300)).unwrap();
        drained(&busy);
        wait_until("the ring to turn", SOON, || {
            assert_ne!(step(&mut client), "moved");
            current(&mut client) != here
        });
        visited.push(current(&mut client));
    }
    stop(worker);
    assert!(!visited[1..].contains(&0), "{visited:?}");
    let all = (1..8).all(|segment| visited.contains(&segment));
    assert!(all, "{visited:?}");
    let left = "SELECT id FROM redrive.jobs WHERE queue = 'paused' AND segment = 0 ORDER BY id";
    let left: Vec<i64> = client.column(left, &[]);
    assert!(left.into_iter().map(JobId::new).eq(ids.iter().copied()));
    let tally = Tally::new();
    // With one slot they also run in the order in which they are claimed.
    finish(&paused, counting(&paused, 1, &tally));
    assert_eq!(tally.order(), ids, "in their order");
}

/// Puts this many jobs into each of the segments 0 to 6, and enough to turn into segment 7, which
/// becomes the current one.
fn fill(client: &mut Client, jobs: [i32; 7]) {
    client.sql("SELECT setval('redrive.ring_position', 7)");
    let insert = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                  SELECT $1, 'orders', 'order', '{\"number\": 1}' FROM generate_series(1, $2)";
    for (segment, jobs) in (0_i16..).zip(jobs.into_iter().chain([500])) {
        client.change(insert, &[&segment, &jobs]);
    }
}

#[test]
fn only_without_a_clean_segment_a_few_jobs_move() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    let before = queue.live(id);
    fill(&mut client, [6, 1001, 8, 1001, 1001, 9, 1001]);
    assert_eq!(step(&mut client), "moved");
    let counts = "SELECT count(*), count(*) FILTER (WHERE segment = 0), count(*) FILTER (WHERE segment = 7) \
                  FROM redrive.jobs";
    let counts: (i64, i64, i64) = client.row(counts, &[]);
    assert_eq!(counts, (1 + 6 + 8 + 9 + 4 * 1001 + 500, 0, 507));
    let times = |job: LiveJob| (job.since, job.enqueued_at);
    assert_eq!(times(queue.live(id)), times(before));
    wait_until("the ring to turn", SOON, || {
        step(&mut client);
        current(&mut client) == 0
    });
}

#[test]
fn with_a_backlog_in_every_segment_the_current_one_grows() {
    let (test, mut client) = TestDatabase::with_client();
    fill(&mut client, [1001; 7]);
    for _ in 0..3 {
        assert_eq!(step(&mut client), "nothing");
    }
    assert_eq!(current(&mut client), 7);
    // The segments with backlogs are not counted again at once.
    let passed = "ring_segments WHERE refusals = 1 AND retry_at > '-infinity'";
    client.reaches(passed, 7);
    let queue = test.queue("orders");
    let tally = Tally::new();
    finish(&queue, counting(&queue, 2, &tally));
    assert_eq!((tally.jobs(), tally.repeated()), (7 * 1001 + 500, vec![]));
    client.sql("UPDATE redrive.ring_segments SET retry_at = '-infinity'");
    wait_until("the ring to turn", SOON, || {
        step(&mut client);
        current(&mut client) != 7
    });
}
