//! Letters: capture, redrive, edit, delivery and removal.

use std::time::Duration;

use redrive::dlq::{Edit, Letter, LetterState, RedriveOptions, RetentionRule};
use redrive::{Failure, Job, JobId, Operator};
use redrive_tests::{Begin, Dead, Order, Sql, finish, worker};

use super::{Case, no_rows, reject, succeed};

pub(super) const LETTERS: &[Case] = &[
    Case {
        name: "failures are captured, each once",
        given: no_rows,
        change: |s| {
            let db = s.queue.database();
            for position in ["1", "2", "2"] {
                db.captures(&s.captured(position));
            }
            let many = ["2", "3", "3", "4"].map(|position| s.captured(position));
            db.dlq().capture_many(&many).unwrap();
            s.sql("SELECT redrive.capture('sql', '1', 'QUEUE', 'event', '{}')");
        },
        changes: &[
            ("jobs_dead_lettered_total{q,captured}", 5),
            ("jobs_dead_lettered_by_kind_total{q,event}", 5),
            ("dlq_errors_total{q,Broken}", 4),
            ("dlq_errors_total{q,captured}", 1),
            ("dlq_captured_total{q,q}", 4),
            ("dlq_captured_total{q,sql}", 1),
            ("dlq_letters{q,open}", 5),
        ],
    },
    Case {
        name: "a failure is captured again while it is redriven",
        given: |s| {
            s.queue.captures(&s.captured("1"));
            s.redrive();
        },
        change: |s| {
            s.queue.captures(&s.captured("1"));
        },
        changes: &[],
    },
    Case {
        name: "failures are captured again after an operator discarded their letters",
        given: |s| {
            let dlq = s.queue.database().dlq();
            let many = ["1", "2", "3"].map(|position| s.captured(position));
            dlq.capture_many(&many).unwrap();
            dlq.discard(&s.letters(), &Operator::default().reason("test"))
                .unwrap();
        },
        change: |s| {
            let dlq = s.queue.database().dlq();
            dlq.capture(&s.captured("1")).unwrap();
            let many = ["2", "3", "3", "1"].map(|position| s.captured(position));
            dlq.capture_many(&many).unwrap();
        },
        changes: &[
            ("jobs_dead_lettered_total{q,captured}", 3),
            ("jobs_dead_lettered_by_kind_total{q,event}", 3),
            ("dlq_errors_total{q,Broken}", 3),
            ("dlq_captured_total{q,q}", 3),
            ("dlq_letters{q,discarded}", -3),
            ("dlq_letters{q,open}", 3),
        ],
    },
    Case {
        name: "letters are redriven",
        given: |s| s.dead_letter(3),
        change: |s| s.redrive(),
        changes: &[
            ("dlq_redriven_total{q}", 3),
            ("dlq_letters{q,open}", -3),
            ("dlq_letters{q,redriving}", 3),
            ("queue_live_jobs{q}", 3),
            ("dlq_residence_seconds{q,redriven}", 3),
        ],
    },
    Case {
        name: "letters are redriven by SQL into another queue",
        given: |s| s.dead_letter(2),
        change: |s| {
            s.sql("SELECT redrive.redrive('{\"queue\": \"QUEUE\"}', to_queue => 'QUEUE-2')");
        },
        changes: &[
            ("dlq_redriven_total{q}", 2),
            ("dlq_letters{q,open}", -2),
            ("dlq_letters{q-2,redriving}", 2),
            ("queue_live_jobs{q-2}", 2),
            ("dlq_residence_seconds{q,redriven}", 2),
        ],
    },
    Case {
        name: "redriven jobs succeed",
        given: |s| {
            s.dead_letter(2);
            s.redrive();
        },
        change: |s| s.work(succeed),
        changes: done!(2, "dlq_recovered_total{q}": 2, "dlq_letters{q,redriving}": -2,
                       "dlq_letters{q,recovered}": 2),
    },
    Case {
        name: "redriven jobs succeed in a transaction",
        given: |s| {
            s.dead_letter(2);
            s.redrive();
        },
        change: |s| {
            let worker = worker(&s.queue)
                .handle_in_transaction(|_: &Job<Order>, _| Ok(()))
                .started();
            finish(&s.queue, worker);
        },
        changes: done!(2, "dlq_recovered_total{q}": 2, "dlq_letters{q,redriving}": -2,
                       "dlq_letters{q,recovered}": 2),
    },
    Case {
        name: "a redriven job dies again",
        given: |s| {
            s.dead_letter(1);
            s.redrive();
        },
        change: |s| s.work(reject),
        changes: &[
            ("jobs_claimed_total{q}", 1),
            ("job_queue_wait_seconds{q}", 1),
            ("job_attempts_failed_total{q,order,rejected}", 1),
            ("job_run_seconds{q,failed}", 1),
            ("jobs_dead_lettered_total{q,rejected}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,Broken}", 1),
            ("jobs_dead_lettered_again_total{q}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("dlq_letters{q,redriving}", -1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Case {
        name: "one redriven job recovers and one dies in one statement",
        given: |s| {
            s.dead_letter(2);
            s.redrive();
            s.claim();
        },
        change: |s| {
            let lease = s.lease();
            let cells = [
                ("succeeded", Some("order"), None, None, 1),
                ("ended", None, None, None, 1),
                ("failed", Some("order"), Some("rejected"), None, 1),
                ("wait", None, None, Some(0), 2),
                ("run", Some("succeeded"), None, Some(0), 1),
                ("run", Some("failed"), None, Some(0), 1),
                ("end_to_end", None, None, Some(0), 1),
                ("attempts_done", None, None, Some(0), 1),
            ];
            s.settle(lease, &[("done", None), ("dead", Some("rejected"))], &cells);
        },
        changes: &[
            ("job_queue_wait_seconds{q}", 2),
            ("jobs_succeeded_total{q,order}", 1),
            ("job_run_seconds{q,succeeded}", 1),
            ("job_end_to_end_seconds{q}", 1),
            ("job_attempts_to_success{q}", 1),
            ("dlq_recovered_total{q}", 1),
            ("dlq_letters{q,recovered}", 1),
            ("job_attempts_failed_total{q,order,rejected}", 1),
            ("job_run_seconds{q,failed}", 1),
            ("jobs_dead_lettered_total{q,rejected}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,Broken}", 1),
            ("jobs_dead_lettered_again_total{q}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("dlq_letters{q,redriving}", -2),
            ("queue_live_jobs{q}", -2),
        ],
    },
    Case {
        name: "the third identical death is quarantined",
        given: |s| {
            s.dead_letter(1);
            for _ in 0..2 {
                s.redrive();
                s.work(|_| Err(Failure::reject("broken")));
            }
            s.redrive();
        },
        change: |s| s.work(|_| Err(Failure::reject("broken"))),
        changes: &[
            ("jobs_claimed_total{q}", 1),
            ("job_queue_wait_seconds{q}", 1),
            ("job_attempts_failed_total{q,order,rejected}", 1),
            ("job_run_seconds{q,failed}", 1),
            ("jobs_dead_lettered_total{q,rejected}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,Rejected}", 1),
            ("jobs_dead_lettered_again_total{q}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,quarantined}", 1),
            ("dlq_letters{q,redriving}", -1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Case {
        name: "quarantined letters are redriven with force",
        given: |s| {
            s.dead_letter(2);
            s.sql("UPDATE redrive.dead_letters SET state = 'quarantined' WHERE queue = 'QUEUE'");
        },
        change: |s| {
            let operator = Operator::default().reason("fixed");
            let options = RedriveOptions::new().force();
            s.queue
                .database()
                .dlq()
                .redrive_with(&s.letters(), &options, &operator)
                .unwrap();
        },
        changes: &[
            ("dlq_redriven_total{q}", 2),
            ("dlq_letters{q,quarantined}", -2),
            ("dlq_letters{q,redriving}", 2),
            ("queue_live_jobs{q}", 2),
            ("dlq_residence_seconds{q,redriven}", 2),
        ],
    },
    Case {
        name: "a redriven job is cancelled",
        given: |s| {
            s.dead_letter(1);
            s.redrive();
        },
        change: |s| {
            let asked = "SELECT id FROM redrive.jobs WHERE queue = $1";
            let id: i64 = s.client.ask(asked, &[&s.queue.name()]);
            s.queue.database().admin().cancel(JobId::new(id)).unwrap();
        },
        changes: &[
            ("jobs_dead_lettered_total{q,manual}", 1),
            ("jobs_dead_lettered_by_kind_total{q,order}", 1),
            ("dlq_errors_total{q,cancelled}", 1),
            ("jobs_dead_lettered_again_total{q}", 1),
            ("job_attempts_at_dead_letter{q}", 1),
            ("dlq_letters{q,open}", 1),
            ("dlq_letters{q,redriving}", -1),
            ("queue_live_jobs{q}", -1),
        ],
    },
    Case {
        name: "letters are discarded",
        given: |s| s.dead_letter(2),
        change: |s| {
            let operator = Operator::default().reason("sold out");
            s.queue
                .database()
                .dlq()
                .discard(&s.letters(), &operator)
                .unwrap();
        },
        changes: &[
            ("dlq_discarded_total{q}", 2),
            ("dlq_letters{q,open}", -2),
            ("dlq_letters{q,discarded}", 2),
            ("dlq_residence_seconds{q,discarded}", 2),
        ],
    },
    Case {
        name: "discarded letters are reopened",
        given: |s| {
            s.dead_letter(2);
            let operator = Operator::default().reason("sold out");
            let dlq = s.queue.database().dlq();
            dlq.discard(&s.letters(), &operator).unwrap();
        },
        change: |s| {
            let dlq = s.queue.database().dlq();
            dlq.reopen(&s.letters(), &Operator::default()).unwrap();
        },
        changes: &[("dlq_letters{q,discarded}", -2), ("dlq_letters{q,open}", 2)],
    },
    Case {
        name: "letters are edited",
        given: |s| s.dead_letter(2),
        change: |s| {
            let edit = Edit::merge(r#"{"number": 7}"#).unwrap();
            s.queue.edits(&s.letters(), &edit);
        },
        changes: &[],
    },
    Case {
        name: "letters are delivered to a sink",
        given: |s| s.dead_letter(2),
        change: |s| {
            let sink = |_: &Letter| Ok(());
            s.queue
                .database()
                .dlq()
                .deliver(&s.letters(), &sink, &Operator::default())
                .unwrap();
        },
        changes: &[
            ("dlq_recovered_total{q}", 2),
            ("dlq_letters{q,open}", -2),
            ("dlq_letters{q,recovered}", 2),
        ],
    },
    Case {
        name: "closed letters are pruned",
        given: |s| {
            s.dead_letter(2);
            let operator = Operator::default().reason("sold out");
            s.queue
                .database()
                .dlq()
                .discard(&s.letters(), &operator)
                .unwrap();
        },
        change: |s| {
            let taken = "SELECT redrive.remove_letters('QUEUE', 'discarded', '0', 'delete', 100)";
            s.sql(taken);
        },
        changes: &[("dlq_pruned_total{q}", 2), ("dlq_letters{q,discarded}", -2)],
    },
    Case {
        name: "open letters are archived",
        given: |s| s.dead_letter(2),
        change: |s| {
            let rule = RetentionRule::archive(LetterState::Open, Duration::ZERO);
            let db = s.queue.database();
            db.retains(&rule.queue(s.queue.name()));
            db.tidies_up();
        },
        changes: &[("dlq_pruned_total{q}", 2), ("dlq_letters{q,open}", -2)],
    },
];
