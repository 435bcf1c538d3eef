//! Groups that are diverted: the jobs behind a letter become letters, and a redrive keeps their order.

use super::*;

/// A worker that rejects the orders below a number, which a test changes, and finishes the others.
fn rejecting_below(queue: &Queue, number: i64) -> (Worker, &'static Finished, &'static AtomicI64) {
    let (finished, below) = (kept::<Finished>(), kept::<AtomicI64>());
    below.store(number, Ordering::SeqCst);
    let handler = finished.noting_unless(move |job| {
        match job.payload().number < below.load(Ordering::SeqCst) {
            true => Err(Failure::reject("broken")),
            false => Ok(()),
        }
    });
    (worker(queue).slots(2).runs(handler), finished, below)
}

/// A queue whose group `a` is held by the letter of its first job, with its other jobs diverted behind it.
pub(super) struct Diverted {
    pub(super) test: TestDatabase,
    pub(super) queue: Queue,
    pub(super) worker: Worker,
    pub(super) finished: &'static Finished,
    /// Orders with a lower number are rejected.
    below: &'static AtomicI64,
    pub(super) ids: Vec<JobId>,
}

impl Diverted {
    /// A group of five jobs.
    fn new() -> Diverted {
        let mut diverted = Diverted::of(4);
        // One that arrives later is diverted too.
        diverted.ids.push(enqueue(&diverted.queue, "a", 5));
        letters(&diverted.queue, 5);
        diverted
    }

    /// A group of this many jobs.
    pub(super) fn of(jobs: i64) -> Diverted {
        let (test, queue) = with_policy(DIVERT);
        let ids = enqueue_rounds(&queue, &["a"], jobs);
        let (worker, finished, below) = rejecting_below(&queue, 2);
        letters(&queue, ids.len());
        below.store(0, Ordering::SeqCst);
        Diverted {
            test,
            queue,
            worker,
            finished,
            below,
            ids,
        }
    }

    fn these(&self, orders: &[usize]) -> LetterFilter {
        LetterFilter::new().ids(orders.iter().map(|order| self.ids[order - 1]))
    }

    #[track_caller]
    fn redrive(&self, orders: &[usize]) {
        let redriven = self.queue.redrives(&self.these(orders)).redriven;
        assert_eq!(redriven.len(), orders.len());
    }

    #[track_caller]
    fn discard(&self, orders: &[usize]) {
        let discarded = self.queue.discards(&self.these(orders));
        assert_eq!(discarded.len(), orders.len());
    }

    /// Runs the letters of all orders, and returns after the run has sent the last one.
    #[track_caller]
    fn run(&self, options: &RunOptions) -> RunId {
        let run = self.queue.drives(&of_orders(), options);
        assert_eq!(run.state, RunState::Finished);
        run.id
    }

    /// Waits until the letter of an order holds the group.
    #[track_caller]
    fn holds(&self, order: usize) {
        let id = self.ids[order - 1];
        wait_until("the letter to hold the group", SOON, || {
            let held = self.queue.held_groups(10).unwrap();
            held.len() == 1 && held[0].letter == id
        });
    }

    /// Waits until the group has no job and checks which orders ran.
    #[track_caller]
    fn ends(self, ran: &[i64]) {
        all_end(&self.test, &self.queue, self.worker, self.finished, ran);
        let mut client = self.test.client();
        assert_eq!(client.count("diverted_groups"), 0);
    }
}

fn open(queue: &Queue) -> Vec<Letter> {
    let open = LetterFilter::new().state(LetterState::Open).limit(1000);
    queue.listed(&open)
}

/// Waits until this many letters are open.
#[track_caller]
fn letters(queue: &Queue, count: usize) {
    wait_until("letters to be open", SOON, || open(queue).len() == count);
}

#[test]
fn jobs_behind_a_letter_become_letters_without_an_attempt() {
    let diverted = Diverted::new();
    let open = open(&diverted.queue);
    for letter in &open {
        match letter.id == diverted.ids[0] {
            true => assert_eq!((letter.cause, letter.attempts), (DeathCause::Rejected, 1)),
            false => assert_eq!((letter.cause, letter.attempts), (DeathCause::Diverted, 0)),
        }
    }
    let held = diverted.queue.held_groups(10).unwrap();
    assert_eq!((held.len(), held[0].letter), (1, diverted.ids[0]));
    assert_eq!((held[0].waiting, held[0].diverted), (0, 4));
    // Other groups continue.
    enqueue(&diverted.queue, "b", 7);
    drained(&diverted.queue);
    assert_eq!(diverted.finished.of("b"), [7]);
    stop(diverted.worker);
}

#[test]
fn a_redrive_of_all_runs_them_in_order_and_before_later_jobs() {
    let diverted = Diverted::new();
    diverted.redrive(&[5, 3, 1, 2, 4]);
    enqueue(&diverted.queue, "a", 6);
    diverted.ends(&[1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_redrive_of_the_first_lets_the_next_letter_hold_the_group() {
    let mut diverted = Diverted::new();
    for order in 1..=4 {
        diverted.redrive(&[order]);
        diverted.holds(order + 1);
    }
    diverted.ids.push(enqueue(&diverted.queue, "a", 6));
    letters(&diverted.queue, 2);
    diverted.redrive(&[5]);
    diverted.holds(6);
    diverted.redrive(&[6]);
    diverted.ends(&[1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_letter_that_opens_again_takes_the_turn_back() {
    let diverted = Diverted::new();
    let dlq = diverted.queue.database().dlq();
    diverted.discard(&[1]);
    diverted.holds(2);
    diverted.discard(&[2, 4]);
    diverted.holds(3);
    for order in [4, 1, 2] {
        let one = only(diverted.ids[order - 1]);
        assert_eq!(dlq.reopen(&one, &maria()).unwrap().ids.len(), 1);
    }
    diverted.holds(1);
    diverted.redrive(&[1, 2, 3, 4, 5]);
    diverted.ends(&[1, 2, 3, 4, 5]);
}

#[test]
fn a_redriven_job_has_the_turn_until_its_time() {
    let diverted = Diverted::new();
    let dlq = diverted.queue.database().dlq();
    let later = RedriveOptions::new().delay(HOUR);
    let second = only(diverted.ids[1]);
    dlq.redrive_with(&second, &later, &maria()).unwrap();
    diverted.redrive(&[1]);
    wait_until("the first to finish", SOON, || {
        diverted.finished.of("a") == [1]
    });
    let mut client = diverted.test.client();
    client.reaches("group_slots WHERE held_at IS NULL", 1);
    enqueue(&diverted.queue, "a", 6);
    client.sql("UPDATE redrive.jobs_delayed SET run_at = clock_timestamp()");
    diverted.holds(3);
    letters(&diverted.queue, 4);
    diverted.queue.redrives(&of_orders());
    diverted.ends(&[1, 2, 3, 4, 5, 6]);
}

#[test]
fn of_the_letters_with_one_key_that_of_the_first_job_goes_first() {
    let diverted = Diverted::new();
    // The first one died again, so its death is the last one.
    let mut client = diverted.test.client();
    client.sql("UPDATE redrive.dead_letters SET unique_key = 'k' WHERE id IN (1, 3)");
    client.sql("UPDATE redrive.dead_letters SET died_at = clock_timestamp() WHERE id = 1");
    let (all, dlq) = (of_orders(), diverted.queue.database().dlq());
    let sent = |of: &[LeftOut]| of.iter().map(|of| of.letters).sum::<u64>();
    let preview = dlq.preview_redrive(&all, &RedriveOptions::new()).unwrap();
    assert_eq!((preview.letters, sent(&preview.left_out)), (4, 1));
    let redriven = dlq.redrive(&all, &maria()).unwrap();
    assert_eq!(redriven.skipped, [(diverted.ids[2], Skip::Conflict)]);
    diverted.holds(3);
    letters(&diverted.queue, 3);
    diverted.redrive(&[3, 4, 5]);
    diverted.ends(&[1, 2, 3, 4, 5]);
}

#[test]
fn a_policy_sends_diverted_letters_as_often_as_the_one_that_they_wait_for() {
    let diverted = Diverted::new();
    let mut client = diverted.test.client();
    client.sql(
        "SELECT redrive.set_policy('daily', '{\"queue\": \"orders\"}', '1 day', generations => 1)",
    );
    client.sql("UPDATE redrive.dead_letters SET generation = 1");
    let due = "SELECT redrive.due_letters(s, clock_timestamp()) FROM redrive.schedules s";
    assert_eq!(client.ask::<Vec<i64>>(due, &[]), [0_i64; 0]);
    diverted.discard(&[1]);
    diverted.holds(2);
    let others: Vec<i64> = diverted.ids[1..].iter().map(|id| id.get()).collect();
    assert_eq!(client.ask::<Vec<i64>>(due, &[]), others);
    stop(diverted.worker);
}

#[test]
fn a_released_group_continues_and_its_letters_stay_open() {
    let diverted = Diverted::new();
    let released = diverted.queue.release_group("a", &maria()).unwrap();
    assert_eq!(released, Some(diverted.ids[0]));
    enqueue(&diverted.queue, "a", 6);
    drained(&diverted.queue);
    assert_eq!(diverted.finished.of("a"), [6]);
    assert_eq!(open(&diverted.queue).len(), 5);
    // A later death starts again and leaves the released letters out.
    diverted.below.store(8, Ordering::SeqCst);
    let seventh = enqueue(&diverted.queue, "a", 7);
    letters(&diverted.queue, 6);
    diverted.below.store(0, Ordering::SeqCst);
    enqueue(&diverted.queue, "a", 8);
    letters(&diverted.queue, 7);
    let held = diverted.queue.held_groups(10).unwrap();
    assert_eq!((held[0].letter, held[0].diverted), (seventh, 1));
    diverted.queue.redrives(&of_orders());
    drained(&diverted.queue);
    let ran = diverted.finished.of("a");
    assert_eq!(ran[..2], [6, 7], "the held job ran first");
    diverted.ends(&[6, 7, 1, 2, 3, 4, 5, 8]);
}

#[test]
fn a_delayed_job_of_an_earlier_id_waits_for_the_letter_and_runs_before_those_behind_it() {
    let (test, queue) = with_policy(DIVERT);
    let early = put(&queue, order("a", 1).delay(HOUR));
    enqueue(&queue, "a", 0);
    enqueue(&queue, "a", 3);
    let (worker, finished, below) = rejecting_below(&queue, 1);
    letters(&queue, 2);
    let one = JobFilter::new().ids([early]);
    let jobs = queue.database().admin().jobs();
    jobs.change(&one, JobChange::RunNow, &maria()).unwrap();
    test.reaches("jobs_waiting", 1);
    // A job behind the letter becomes one after a claim that has seen both.
    enqueue(&queue, "a", 4);
    letters(&queue, 3);
    below.store(0, Ordering::SeqCst);
    queue.redrives(&LetterFilter::new());
    all_end(&test, &queue, worker, finished, &[0, 1, 3, 4]);
    assert_eq!(open(&queue).len(), 0, "no job died again");
}

#[test]
fn a_cancelled_job_that_waited_passes_the_group_to_the_next_letter() {
    let (test, queue) = with_policy(DIVERT);
    let first = enqueue(&queue, "a", 1);
    // No worker handles the second job, so it stops the group once its turn comes.
    let other = NewJob::raw("other", "{}").unwrap().group("a");
    let second = put(&queue, other);
    let third = enqueue(&queue, "a", 3);
    let (worker, finished, below) = rejecting_below(&queue, 2);
    letters(&queue, 3);
    below.store(0, Ordering::SeqCst);
    queue.redrives(&LetterFilter::new().ids([first, second]));
    wait_until("the first to finish", SOON, || finished.of("a") == [1]);
    test.reaches("group_slots", 0);
    queue.database().cancels(second);
    let held = queue.held_groups(10).unwrap();
    assert_eq!((held.len(), held[0].letter), (1, third));
    queue.redrives(&only(third));
    all_end(&test, &queue, worker, finished, &[1, 3]);
}

#[test]
fn other_policies_let_the_group_continue_or_wait() {
    for policy in [CONTINUE, GroupPolicy::Fair, HOLD] {
        let diverted = Diverted::new();
        diverted.queue.set_group_policy(policy, &maria()).unwrap();
        enqueue(&diverted.queue, "a", 6);
        if policy == HOLD {
            let held = diverted.queue.held_groups(10).unwrap();
            assert_eq!((held[0].waiting, held[0].diverted), (1, 0));
            stop(diverted.worker);
        } else {
            drained(&diverted.queue);
            assert_eq!(open(&diverted.queue).len(), 5);
            diverted.ends(&[6]);
        }
    }
}

#[test]
fn a_run_waits_for_a_letter_that_a_job_which_ends_has_locked() {
    let diverted = Diverted::new();
    let lock = "SELECT FROM redrive.dead_letters WHERE id = 2 FOR NO KEY UPDATE";
    let mut ending = diverted.test.begins(lock);
    let (all, dlq) = (of_orders(), diverted.queue.database().dlq());
    let options = RunOptions::new().unthrottled();
    let mut driver = dlq.runs().start(&all, &options, &maria());
    let (_, driver) = driver.as_mut().unwrap().as_mut().expect("letters");
    let step = || driver.step().expect("a step");
    held_up(&diverted.test, step, || ending.sql("ROLLBACK"));
    diverted.ends(&[1, 2, 3, 4, 5]);
}

#[test]
fn a_redrive_passes_the_letters_behind_one_that_stays_locked() {
    let diverted = Diverted::new();
    let mut consumer = diverted.test.locks(diverted.ids[1]);
    let redriven = diverted.queue.redrives(&of_orders());
    assert_eq!(redriven.redriven, diverted.ids[..1]);
    let locked = diverted.ids[1..].iter().map(|id| (*id, Skip::Locked));
    assert_eq!(redriven.skipped, locked.collect::<Vec<_>>());
    consumer.sql("ROLLBACK");
    diverted.holds(2);
    diverted.redrive(&[2, 3, 4, 5]);
    diverted.ends(&[1, 2, 3, 4, 5]);
}

#[test]
fn redrives_of_every_form_keep_the_order_within_each_group() {
    let diverted = Diverted::new();
    // The first one is tried alone and dies again, so its death is now the last one.
    diverted.below.store(2, Ordering::SeqCst);
    diverted.redrive(&[1]);
    wait_until("the first letter to return", SOON, || {
        diverted.queue.database().letter(diverted.ids[0]).deaths == 2
    });
    diverted.holds(1);
    diverted.below.store(0, Ordering::SeqCst);
    let mut client = diverted.test.client();
    client
        .sql("SELECT redrive.set_policy('daily', '{\"queue\": \"orders\"}', '1 day', batch => 2)");
    let due = "SELECT redrive.due_letters(s, clock_timestamp()) FROM redrive.schedules s";
    let due: Vec<i64> = client.ask(due, &[]);
    assert_eq!(due, [0, 1].map(|place: usize| diverted.ids[place].get()));

    let (all, dlq) = (of_orders(), diverted.queue.database().dlq());
    let redriven = dlq.redrive(&all.clone().limit(2), &maria()).unwrap();
    assert_eq!(redriven.redriven, diverted.ids[..2]);
    diverted.holds(3);
    diverted.run(&RunOptions::new().unthrottled().canary(2));
    diverted.ends(&[1, 2, 3, 4, 5]);
}

#[test]
fn a_run_has_skipped_the_letters_whose_jobs_are_diverted_again() {
    let diverted = Diverted::new();
    diverted.below.store(2, Ordering::SeqCst);
    let id = diverted.run(&RunOptions::new().unthrottled());
    let runs = diverted.queue.database().dlq().runs();
    let run = || runs.get(id).unwrap().expect("the run");
    wait_until("each job to be a letter", SOON, || run().still_running == 0);
    assert_eq!((run().sent, run().died(), run().skipped), (1, 1, 4));
    assert_eq!(runs.skips(id).unwrap(), [(Skip::Diverted, 4)]);
    stop(diverted.worker);
}
