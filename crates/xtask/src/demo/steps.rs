//! The steps of the demo.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use indicatif::HumanCount;
use redrive::Database;
use redrive::admin::QueueStats;
use redrive::dlq::GroupFilter;

use super::binaries::Session;
use super::gateway::Gateway;
use super::orders::Forecast;
use super::reconciliation::{live, open, reconcile};
use super::screen::{Progress, Screen};
use crate::cargo::typed;
use crate::child::ChildGuard;

/// How long a step may take.
const TIMEOUT: Duration = Duration::from_mins(3);
/// How often a step reads the state of the queue.
const INTERVAL: Duration = Duration::from_millis(200);
/// The error class of refunds.
const REFUNDS: &str = "NegativeAmount";

/// The state that all steps share.
pub(super) struct Steps<'a> {
    /// The running release of the order service.
    service: Option<ChildGuard>,
    session: Session<'a>,
    forecast: &'a Forecast,
    screen: &'a mut Screen,
    db: Database,
    gateway: Gateway,
}

impl<'a> Steps<'a> {
    /// Prepares the database and starts the payment gateway.
    pub(super) fn prepare(
        session: Session<'a>,
        forecast: &'a Forecast,
        screen: &'a mut Screen,
    ) -> Result<Steps<'a>> {
        session.redrive(&["--no-wait", "migrate"])?;
        Ok(Steps {
            service: None,
            session,
            forecast,
            screen,
            db: redrive::connect(session.url).context("cannot connect to the demo's database")?,
            gateway: Gateway::start()?,
        })
    }

    pub(super) fn run(mut self, orders: &Path) -> Result<()> {
        self.screen.heading("17:30", "Orders arrive");
        let (queue, file) = (self.session.queue, orders.display().to_string());
        let enqueue = ["enqueue", queue, "order.placed", "--file", &*file];
        self.redrive(&[&enqueue[..], &["--max-attempts", "6"]].concat())?;

        self.screen
            .heading("17:31", "Release 1 of the order service delivers them");
        self.start_release(1)?;
        let third = self.forecast.well_formed / 3;
        self.wait("a third of the orders to be delivered", |now| {
            now.delivered >= third
        })?;

        self.screen
            .heading("17:40", "The payment gateway goes down");
        self.screen
            .print("It answers 503. Attempts fail, jobs back off, the first run out of attempts.");
        self.gateway.set_down(true);
        let some = self.forecast.events.div_ceil(100);
        self.wait("jobs to run out of attempts", |now| now.letters >= some)?;

        self.screen.heading("18:02", "The gateway is back");
        self.screen.print("Jobs with attempts left are delivered.");
        self.gateway.set_down(false);
        self.wait_until_settled()?;

        self.screen
            .heading("18:05", "Jobs that could not succeed are dead letters");
        self.redrive(&["dlq"])?;

        self.screen
            .heading("18:30", "The fix is deployed: release 2 trims the currency");
        self.screen.command("kill -TERM order_service");
        self.stop_service()?;
        self.start_release(2)?;

        self.redrive_letters()?;
        self.discard_refunds()?;
        self.reconcile()
    }

    fn redrive_letters(&mut self) -> Result<()> {
        self.screen.heading("18:31", "The letters are redriven");
        if open(&self.stats()?) == 0 {
            self.screen.print("There are none.");
            return Ok(());
        }
        let queue = self.session.queue;
        // A dry run first.
        self.redrive(&["dlq", "redrive", queue])?;
        let reason = "release 2 is out, the gateway is back";
        // The refunds die again, and the letters behind them are still sent.
        self.redrive(&[
            "dlq",
            "redrive",
            queue,
            "--unthrottled",
            "--tolerate",
            "100%",
            "--no-wait",
            "--reason",
            reason,
            "--yes",
        ])?;
        self.wait_until_settled()?;
        let stats = self.stats()?;
        let (recovered, open) = (HumanCount(stats.recovered), HumanCount(open(&stats)));
        self.screen
            .print(format!("{recovered} recovered, {open} died again."));
        Ok(())
    }

    fn discard_refunds(&mut self) -> Result<()> {
        self.screen
            .heading("18:40", "An operator decides about the rest");
        let queue = self.session.queue;
        let waiting = GroupFilter::new().queue(queue).waiting();
        let groups = self.db.dlq().groups().list(&waiting);
        let groups = groups.with_context(|| format!("cannot list the failures of `{queue}`"))?;
        if groups.is_empty() {
            self.screen.print("No letter is left.");
            return Ok(());
        }
        self.redrive(&["dlq", "groups"])?;
        if groups.iter().any(|group| group.error_class == REFUNDS) {
            let refunds = format!("class={REFUNDS}");
            let reason = "a refund: booked by hand, ticket 4711";
            self.redrive(&[
                "dlq", "discard", queue, &refunds, "--reason", reason, "--yes",
            ])?;
        }
        self.redrive(&["audit"])
    }

    /// Compares the orders with the queue and the gateway.
    fn reconcile(mut self) -> Result<()> {
        self.stop_service()?;
        let stats = self.stats()?;
        let (report, verdict) = reconcile(self.forecast, &self.gateway, &stats);
        self.screen.heading("19:00", "Reconciliation");
        self.screen.print(report);
        verdict?;
        let events = HumanCount(self.forecast.events);
        self.screen
            .heading("     ", &format!("{events} in, {events} accounted for."));
        Ok(())
    }

    /// Shows and runs a command of redrive.
    fn redrive(&mut self, arguments: &[&str]) -> Result<()> {
        self.screen
            .command(&typed(Command::new("redrive").args(arguments)));
        let output = self.session.redrive(arguments)?;
        self.screen.print(output);
        Ok(())
    }

    fn start_release(&mut self, release: u8) -> Result<()> {
        self.screen
            .command(&format!("order_service --release {release}"));
        self.service = Some(self.session.start_service(&self.gateway.url(), release)?);
        Ok(())
    }

    fn stop_service(&mut self) -> Result<()> {
        match self.service.take() {
            Some(service) => self.session.stop_service(service),
            None => Ok(()),
        }
    }

    fn wait_until_settled(&mut self) -> Result<()> {
        self.wait("all jobs to be done or dead", |_| false)
    }

    /// Shows progress until a condition holds or no job is live.
    fn wait(&mut self, what: &str, is_reached: impl Fn(Progress) -> bool) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(service) = &mut self.service {
                self.session.check_running(service, "order_service")?;
            }
            let progress = self.progress()?;
            if progress.live == 0 || is_reached(progress) {
                self.screen.print(progress.to_string());
                return Ok(());
            }
            self.screen.progress(progress);
            ensure!(
                Instant::now() < end,
                "waited {TIMEOUT:?} for {what}: {progress}"
            );
            self.session.interrupt.pause(INTERVAL)?;
        }
    }

    fn progress(&self) -> Result<Progress> {
        let stats = self.stats()?;
        Ok(Progress {
            events: self.forecast.events,
            delivered: self.gateway.charged(),
            live: live(&stats),
            backing_off: stats.delayed,
            letters: open(&stats),
        })
    }

    fn stats(&self) -> Result<QueueStats> {
        let queue = self.session.queue;
        let stats = self.db.admin().stats(Some(queue));
        let stats = stats.with_context(|| format!("cannot read the statistics of `{queue}`"))?;
        // An empty queue has no row.
        Ok(stats.into_iter().next().unwrap_or_default())
    }
}
