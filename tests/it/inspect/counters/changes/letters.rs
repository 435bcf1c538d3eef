//! Letters: capture, redrive, edit, delivery and removal.

use redrive_tests::prelude::*;

use super::attempts::work_in_transaction;
use super::{Case, Fixture, buried, claim, died, done, failed, moved, reject, succeed, succeeded};

/// The change of a death after a redrive.
const AGAIN: &str = "jobs_dead_lettered_again_total{q}=1";

/// Redrives this many letters.
fn redriven(s: &mut Fixture, letters: i64) {
    s.dead_letter(letters);
    s.redrive();
}

fn discarded(s: &mut Fixture) {
    s.dead_letter(2);
    s.queue.discards(&s.letters());
}

/// Captures failures at these positions in one call.
fn capture(s: &mut Fixture, positions: &[&str]) {
    let many = positions.iter().map(|position| s.captured(position));
    let many: Vec<_> = many.collect();
    s.queue.database().dlq().capture_many(&many).unwrap();
}

/// The changes of redriven letters whose jobs succeed.
fn recovered(letters: i64) -> String {
    let moved = moved(letters, "redriving", "recovered");
    format!("dlq_recovered_total{{q}}={letters} {moved}")
}

/// The changes of letters of this state that are sent back.
fn sent(letters: i64, state: &str) -> String {
    let moved = moved(letters, state, "redriving");
    format!(
        "dlq_redriven_total{{q}}={letters} dlq_residence_seconds{{q,redriven}}={letters} {moved} \
         queue_live_jobs{{q}}={letters}"
    )
}

pub(super) const LETTERS: &[Case] = cases! {
    "failures are captured, each once", |s| {
        for position in ["1", "2", "2"] {
            s.queue.captures(&s.captured(position));
        }
        capture(s, &["2", "3", "3", "4"]);
        s.sql("SELECT redrive.capture('sql', '1', 'QUEUE', 'event', '{}')");
    } => "jobs_dead_lettered_total{q,captured}=5 jobs_dead_lettered_by_kind_total{q,event}=5
          dlq_errors_total{q,Broken}=4 dlq_errors_total{q,captured}=1
          dlq_captured_total{q,q}=4 dlq_captured_total{q,sql}=1 dlq_letters{q,open}=5";
    "a failure is captured again while it is redriven" given |s| {
        s.queue.captures(&s.captured("1"));
        s.redrive();
    }, |s| { s.queue.captures(&s.captured("1")); } => "";
    "failures are captured again after an operator discarded their letters" given |s| {
        capture(s, &["1", "2", "3"]);
        s.queue.discards(&s.letters());
    }, |s| {
        s.queue.captures(&s.captured("1"));
        capture(s, &["2", "3", "3", "1"]);
    } => moved(3, "discarded", "open"),
        "jobs_dead_lettered_total{q,captured}=3 jobs_dead_lettered_by_kind_total{q,event}=3
         dlq_errors_total{q,Broken}=3 dlq_captured_total{q,q}=3";
    "letters are redriven" given |s| s.dead_letter(3), |s| s.redrive() => sent(3, "open");
    "letters are redriven by SQL into another queue" given |s| s.dead_letter(2), |s| {
        s.sql("SELECT redrive.redrive('{\"queue\": \"QUEUE\"}', to_queue => 'QUEUE-2')");
    } => "dlq_redriven_total{q}=2 dlq_residence_seconds{q,redriven}=2
          dlq_letters{q,open}=-2 dlq_letters{q-2,redriving}=2 queue_live_jobs{q-2}=2";
    "redriven jobs succeed" given |s| redriven(s, 2), |s| s.work(succeed) => done(2), recovered(2);
    "redriven jobs succeed in a transaction" given |s| redriven(s, 2),
        |s| work_in_transaction(s, 0) => done(2), recovered(2);
    "a redriven job dies again" given |s| redriven(s, 1), |s| s.work(reject)
        => died("rejected", "rejected", "Broken"), AGAIN, "dlq_letters{q,redriving}=-1";
    "one redriven job recovers and one dies in one statement" given |s| {
        redriven(s, 2);
        claim(s);
    }, |s| {
        let lease = s.lease();
        let cells = [
            ("succeeded", Some("order"), None, None, 1),
            ("failed", Some("order"), Some("rejected"), None, 1),
            ("wait", None, None, Some(0), 2),
            ("run", Some("succeeded"), None, Some(0), 1),
            ("run", Some("failed"), None, Some(0), 1),
            ("end_to_end", None, None, Some(0), 1),
            ("attempts_done", None, None, Some(0), 1),
        ];
        s.settle(lease, &[("done", None), ("dead", Some("rejected"))], &cells);
    } => "job_queue_wait_seconds{q}=2", succeeded(1), recovered(1),
        failed("rejected"), buried(1, "rejected", "Broken"), AGAIN, "dlq_letters{q,redriving}=-1";
    "the third identical death is quarantined" given |s| {
        redriven(s, 1);
        for _ in 0..2 {
            s.work(|_| Err(Failure::reject("broken")));
            s.redrive();
        }
    }, |s| s.work(|_| Err(Failure::reject("broken")))
        => died("rejected", "rejected", "Rejected"), moved(1, "open", "quarantined"), AGAIN,
        "dlq_letters{q,redriving}=-1";
    "quarantined letters are redriven with force" given |s| {
        s.dead_letter(2);
        s.sql("UPDATE redrive.dead_letters SET state = 'quarantined' WHERE queue = 'QUEUE'");
    }, |s| drop(s.queue.redrives_with(&s.letters(), &RedriveOptions::new().force()))
        => sent(2, "quarantined");
    "a redriven job is cancelled" given |s| redriven(s, 1), |s| {
        let asked = "SELECT id FROM redrive.jobs WHERE queue = $1";
        let id: i64 = s.client.ask(asked, &[&s.queue.name()]);
        s.queue.cancels(JobId::new(id));
    } => buried(1, "manual", "cancelled"), "dlq_letters{q,redriving}=-1";
    "letters are discarded" given |s| s.dead_letter(2), |s| drop(s.queue.discards(&s.letters()))
        => moved(2, "open", "discarded"), "dlq_discarded_total{q}=2 dlq_residence_seconds{q,discarded}=2";
    "discarded letters are reopened" given discarded, |s| {
        let dlq = s.queue.database().dlq();
        dlq.reopen(&s.letters(), &Operator::default()).unwrap();
    } => moved(2, "discarded", "open");
    "letters are edited" given |s| s.dead_letter(2), |s| {
        let edit = Edit::merge(r#"{"number": 7}"#).unwrap();
        s.queue.edits(&s.letters(), &edit);
    } => "";
    "letters are delivered to a sink" given |s| s.dead_letter(2), |s| {
        let (dlq, sink) = (s.queue.database().dlq(), |_: &Letter| Ok(()));
        dlq.deliver(&s.letters(), &sink, &Operator::default()).unwrap();
    } => moved(2, "open", "recovered"), "dlq_recovered_total{q}=2";
    "closed letters are pruned" given discarded, |s| {
        s.sql("SELECT redrive.remove_letters('QUEUE', 'discarded', '0', 'delete', 100)");
    } => "dlq_pruned_total{q}=2 dlq_letters{q,discarded}=-2";
    "open letters are archived" given |s| s.dead_letter(2), |s| {
        let rule = RetentionRule::archive(LetterState::Open, Duration::ZERO);
        s.queue.retains(&rule.queue(s.queue.name()));
        s.queue.tidies_up();
    } => "dlq_pruned_total{q}=2 dlq_letters{q,open}=-2";
};
