//! The scenarios: together they change every metric of the catalogue.

mod schedules;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use nix::sys::signal::Signal;
use redrive::dlq::runs::{RunAction, RunId, RunOptions};
use redrive::dlq::{ForeignFailure, LetterFilter};

use super::context::{Context, TIMEOUT, connect, operator, run, say};
use super::workload::{self, Workload};
use crate::cargo::Artifacts;
use crate::interrupt::Interrupt;

/// How many pauses [`run_all`] takes.
pub(crate) const PAUSES: u32 = 15;
/// The last pause, at least: panels sample every 15 s and must show the last scenario.
const LAST_PAUSE: Duration = Duration::from_secs(20);

/// Runs all scenarios with pauses between them. `replace` replaces the exporter.
pub(crate) fn run_all(
    url: &str,
    programs: &Artifacts,
    interrupt: &Interrupt,
    pause: Duration,
    replace: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut context = Context {
        url,
        programs,
        interrupt,
        pause,
        db: redrive::connect(url).context("cannot connect to the database")?,
        admin: connect(url)?,
        workload: Workload::start(url)?,
    };
    context.ordinary_traffic()?;
    context.gateway_fails()?;
    context.tax_service_is_down()?;
    replace()?;
    context.bad_data_arrives()?;
    context.workers_are_killed()?;
    context.sessions_block_vacuum()?;
    context.letters_are_redriven()?;
    replace()?;
    context.jobs_die_again()?;
    context.operators_decide()?;
    context.maintenance_runs()?;
    replace()?;
    context.pause = pause.max(LAST_PAUSE);
    context.pause()
}

impl Context<'_> {
    fn ordinary_traffic(&mut self) -> Result<()> {
        say("ordinary traffic");
        self.pause()?;
        let reports = self.queue("reports")?;
        let many = (0..150)
            .map(|n| Ok(workload::job("report.day", "succeed", n)?.delay(Duration::from_hours(24))))
            .collect::<Result<Vec<_>>>()?;
        reports.enqueue_jobs(&many)?;
        for _ in 0..3 {
            let unique = workload::job("report.week", "succeed", 1)?
                .delay(Duration::from_hours(24))
                .unique("week-47");
            reports.enqueue_job(unique)?;
        }
        self.enqueue("mails", "mail.welcome", "later", 12, 3)?;
        self.set_schedules()?;
        self.pause()
    }

    fn gateway_fails(&mut self) -> Result<()> {
        say("the payment gateway fails at peak traffic");
        self.set(|now| &now.is_peak, true);
        self.set(|now| &now.is_gateway_broken, true);
        self.pause()?;
        self.set(|now| &now.is_peak, false);
        self.wait_for(
            40,
            "redrive.dead_letters WHERE error_class = 'GatewayTrouble'",
        )?;
        self.pause()?;
        self.set(|now| &now.is_gateway_broken, false);
        Ok(())
    }

    fn tax_service_is_down(&mut self) -> Result<()> {
        say("the tax service is down");
        self.set(|now| &now.is_tax_service_down, true);
        self.wait_for(1, "redrive.breakers WHERE state <> 'closed'")?;
        self.pause_mails()?;
        self.set(|now| &now.is_tax_service_down, false);
        // The operator knows that the service is back and does not wait for the probe.
        self.redrive("breaker close tax-service")?;
        Ok(())
    }

    fn bad_data_arrives(&mut self) -> Result<()> {
        say("bad data arrives");
        self.enqueue("orders", "order.placed", "currency", 25, 5)?;
        self.enqueue("orders", "order.placed", "doomed", 6, 5)?;
        self.enqueue("mails", "mail.welcome", "moody", 5, 5)?;
        self.enqueue("orders", "order.paid", "buggy", 3, 2)?;
        self.enqueue("mails", "mail.receipt", "slow", 3, 1)?;
        let invoices = self.queue("invoices")?;
        for number in 0..4 {
            let old = format!(r#"{{"total": "{number} EUR"}}"#);
            let old = redrive::NewJob::raw("invoice.send", &old)?;
            invoices.enqueue_job(old)?;
        }
        for position in ["0/20", "0/21"] {
            let event = ForeignFailure::new(
                "kafka:orders",
                position,
                "orders",
                "order.placed",
                b"\xff\xfe".to_vec(),
            )
            .error("ParseError", "invalid UTF-8");
            self.db.dlq().capture(&event)?;
        }
        // A consumer of events puts one off.
        run(
            &mut self.admin,
            "INSERT INTO redrive.dlq_events (event_type, payload, error_reason, retry_after)
             VALUES ('order.placed', '{}', 'busy', now() + interval '1 hour')",
        )?;
        let reports = self.queue("reports")?;
        let job = workload::job("report.day", "succeed", 7)?.delay(Duration::from_hours(1));
        let id = reports.enqueue_job(job)?;
        self.db
            .admin()
            .jobs()
            .cancel(id.id(), &redrive::Operator::default())?;
        for cause in [
            "exhausted",
            "rejected",
            "undecodable",
            "timeout",
            "captured",
            "manual",
        ] {
            let letters = format!("redrive.dead_letters WHERE cause = '{cause}'");
            self.wait_for(1, &letters)?;
        }
        self.hold_a_group()?;
        self.pause()?;
        self.release_the_group()
    }

    /// Lets a job of an ordered group die, with another one behind it.
    fn hold_a_group(&mut self) -> Result<()> {
        self.redrive("queue groups set invoices ordered --on-death=hold --reason=x")?;
        let invoices = self.queue("invoices")?;
        for _ in 0..2 {
            // The payload of an earlier release cannot be decoded.
            let old = redrive::NewJob::raw("invoice.send", r#"{"total": "1 EUR"}"#)?;
            invoices.enqueue_job(old.group("customer:42"))?;
        }
        self.wait_for(1, "redrive.held_groups WHERE waiting = 1")
    }

    /// Releases the group.
    fn release_the_group(&mut self) -> Result<()> {
        self.redrive("queue groups release invoices customer:42 --reason=x")
    }

    fn workers_are_killed(&mut self) -> Result<()> {
        say("workers are killed, and one is paused");
        self.enqueue("imports", "import.file", "succeed", 1, 5)?;
        let start = Instant::now();
        // The job kills its worker, and is dead-lettered after three.
        while self.count("redrive.dead_letters WHERE cause = 'worker_lost'")? == 0 {
            if start.elapsed() > 2 * TIMEOUT {
                return Err(anyhow!(
                    "a job that kills its workers was not dead-lettered"
                ));
            }
            let mut worker = self.start_worker("imports", "kill -9 $PPID")?;
            self.interrupt
                .wait_for(Duration::from_secs(15), || worker.status())?;
        }
        self.enqueue("imports", "import.file", "succeed", 2, 5)?;
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let started = folder.path().join("started");
        let handler = format!("touch '{}' && sleep 1", started.display());
        let paused = self.start_worker("imports", &handler)?;
        // A job that has not started when its worker stops is released and has no result to refuse.
        self.interrupt
            .wait_for(TIMEOUT, || Ok(started.exists().then_some(())))?
            .with_context(|| format!("waited {TIMEOUT:?} for a handler to start"))?;
        paused.signal(Signal::SIGSTOP)?;
        // Other workers see that the lease expired and reap it.
        self.wait_until("redrive.leases WHERE queue = 'imports'", |count| count == 0)?;
        paused.signal(Signal::SIGCONT)?;
        let refused = "metric = 'redrive_results_refused_total' AND numbers[1] > 0";
        let reaped = "metric = 'redrive_chore_seconds' AND labels @> '{reap}'";
        for counted in [refused, reaped] {
            self.wait_for(1, &format!("redrive.metric_totals() WHERE {counted}"))?;
        }
        self.pause()
    }

    fn sessions_block_vacuum(&mut self) -> Result<()> {
        say("a session holds back vacuum, another waits for a lock");
        let mut idle = connect(self.url)?;
        run(&mut idle, "BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        run(&mut idle, "SELECT count(*) FROM redrive.jobs")?;
        let mut prepared = connect(self.url)?;
        run(&mut prepared, "BEGIN")?;
        run(
            &mut prepared,
            "UPDATE accounts SET balance = 1 WHERE id = 1",
        )?;
        run(&mut prepared, "PREPARE TRANSACTION 'payout-7'")?;
        let url = self.url.to_owned();
        let waiting = std::thread::spawn(move || {
            connect(&url).and_then(|mut client| {
                run(&mut client, "UPDATE accounts SET balance = 2 WHERE id = 1")
            })
        });
        self.wait_for(1, "pg_stat_activity WHERE wait_event_type = 'Lock'")?;
        self.pause()?;
        run(&mut self.admin, "ROLLBACK PREPARED 'payout-7'")?;
        waiting
            .join()
            .unwrap_or_else(|_| Err(anyhow!("the session that waited for a lock panicked")))?;
        run(&mut idle, "ROLLBACK")
    }

    fn letters_are_redriven(&mut self) -> Result<()> {
        say("the fix is deployed, the letters are redriven");
        self.set(|now| &now.is_fixed, true);
        // One run is paused, one halts after its canary, two complete.
        let slow = RunOptions::new().rate(1);
        let paused = self.create_run("orders", "InvalidCurrency", &slow)?;
        self.pause()?;
        let runs = self.db.dlq().runs();
        runs.change(paused, RunAction::Pause, &operator())?;
        self.create_run("orders", "UnknownCustomer", &RunOptions::new().canary(5))?;
        let fast = RunOptions::new().rate(20);
        self.create_run("orders", "GatewayTrouble", &fast)?;
        // The run of a protected queue waits for a second operator.
        let protect = "SELECT redrive.set_protection('mails', approve_above => 0)";
        run(&mut self.admin, protect)?;
        let unapproved = self.create_run("mails", "BadAddress", &fast)?;
        self.pause()?;
        runs.change(
            unapproved,
            RunAction::Approve,
            &redrive::Operator::new("anna"),
        )?;
        let unprotect = "SELECT redrive.remove_protection('mails')";
        run(&mut self.admin, unprotect)?;
        self.wait_for(20, "redrive.dead_letters WHERE state = 'recovered'")?;
        self.wait_for(1, "redrive.redrive_runs WHERE state = 'halted'")?;
        // Their letters died again, of another cause.
        let again = "redrive.dead_letters WHERE error_class = 'MailboxFull' AND state = 'open'";
        self.wait_for(1, again)?;
        self.pause()
    }

    fn create_run(&self, queue: &str, class: &str, options: &RunOptions) -> Result<RunId> {
        let letters = LetterFilter::new().queue(queue).error_class(class);
        let run = self.db.dlq().runs().create(&letters, options, &operator());
        let run = run?;
        run.map(|run| run.id)
            .with_context(|| format!("no letter with the class {class}"))
    }

    fn jobs_die_again(&mut self) -> Result<()> {
        say("redriven jobs die again until they are quarantined");
        let doomed = LetterFilter::new()
            .queue("orders")
            .error_class("UnknownCustomer");
        let start = Instant::now();
        while self.count("redrive.dead_letters WHERE state = 'quarantined'")? == 0 {
            if start.elapsed() > TIMEOUT {
                return Err(anyhow!("no letter was quarantined"));
            }
            self.db.dlq().redrive(&doomed, &operator())?;
            let running = "redrive.dead_letters WHERE error_class = 'UnknownCustomer' AND state = 'redriving'";
            self.wait_until(running, |count| count == 0)?;
        }
        self.pause()
    }

    fn operators_decide(&mut self) -> Result<()> {
        say("operators decide about the rest");
        for (decision, class) in [
            ("ack", "UnknownCustomer"),
            ("resolve", "InvalidCurrency"),
            ("ignore", "MailboxFull"),
            ("resolve", "GatewayTrouble"),
        ] {
            self.redrive(&format!("dlq groups {decision} class={class} --yes"))?;
        }
        // The fix is lost: a regression.
        self.set(|now| &now.is_fixed, false);
        self.enqueue("orders", "order.placed", "currency", 2, 5)?;
        self.wait_for(
            1,
            "redrive.failure_groups WHERE error_class = 'InvalidCurrency' AND is_regression",
        )?;
        self.set(|now| &now.is_fixed, true);
        self.redrive("dlq discard invoices --reason=test --yes")?;
        self.redrive("dlq retention set open 30d archive --queue orders")?;
        self.pause()
    }

    fn maintenance_runs(&mut self) -> Result<()> {
        say("maintenance runs");
        run(
            &mut self.admin,
            "UPDATE redrive.dead_letters SET changed_at = changed_at - interval '3 days' WHERE state IN ('recovered', 'discarded') AND id % 2 = 0",
        )?;
        self.redrive("prune --older-than 1d --yes")?;
        self.redrive("audit counters")?;
        self.redrive("queue pause reports --reason=x")?;
        for statement in [
            "ANALYZE",
            "VACUUM redrive.dead_letters",
            // The postgres dashboard shows production settings.
            "ALTER SYSTEM SET fsync = on",
            "ALTER SYSTEM SET full_page_writes = on",
            "SELECT pg_reload_conf()",
        ] {
            run(&mut self.admin, statement)?;
        }
        // A segment is truncated by this call or by an earlier one of a worker.
        self.wait_for(
            1,
            "generate_series(1, 1) WHERE CASE WHEN redrive.turn_ring(1024, 1000) IS NOT NULL THEN \
             EXISTS (SELECT FROM redrive.ring_segments s WHERE s.truncated_at IS NOT NULL) END",
        )?;
        self.pause()
    }
}
