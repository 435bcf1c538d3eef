//! The scenes of the evening.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use redrive::{Database, FailureCount, QueueStats};

use super::accounts::Accounts;
use super::events::Forecast;
use super::gateway::Gateway;
use super::programs::Shop;
use super::screen::{Progress, Screen, grouped};
use crate::cargo::typed;
use crate::error::{During, Error, Result};
use crate::interrupt::{Interrupt, Running};

/// How long a scene may last.
const PATIENCE: Duration = Duration::from_mins(3);
/// How long the numbers of the queue are left alone between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// The error class that the gateway gives to refunds.
const REFUNDS: &str = "NegativeAmount";

/// What all scenes share.
pub(super) struct Evening<'a> {
    /// The release of the order service that runs; none at first and at last. It is the first
    /// field because it must be dropped, and so stopped, before the gateway that it talks to.
    service: Option<Running>,
    shop: Shop<'a>,
    forecast: &'a Forecast,
    screen: &'a mut Screen,
    interrupt: &'a Interrupt,
    db: Database,
    gateway: Gateway,
}

impl<'a> Evening<'a> {
    /// Prepares the database and opens the payment gateway.
    pub(super) fn begin(
        shop: Shop<'a>,
        forecast: &'a Forecast,
        screen: &'a mut Screen,
        interrupt: &'a Interrupt,
    ) -> Result<Evening<'a>> {
        shop.redrive(interrupt, &["--no-wait", "migrate"])?;
        let db = redrive::connect(shop.url()).during(|| "cannot connect to the demo's database")?;
        let gateway = Gateway::open()?;
        Ok(Evening {
            service: None,
            shop,
            forecast,
            screen,
            interrupt,
            db,
            gateway,
        })
    }

    /// The file of orders becomes jobs.
    pub(super) fn orders_come_in(&mut self, file: &Path) -> Result<()> {
        self.screen.scene("17:30", "The evening's orders come in");
        self.screen.command("order_service take orders.ndjson");
        let begin = Instant::now();
        let said = self.shop.take(self.interrupt, file)?;
        let time = begin.elapsed().as_secs_f64();
        self.screen.say(format!("{}, in {time:.1} s.", said.trim()));
        Ok(())
    }

    /// The first third goes well.
    pub(super) fn release_1_delivers(&mut self) -> Result<()> {
        self.screen
            .scene("17:31", "Release 1 of the order service delivers them");
        self.screen.command("order_service work --release 1");
        self.service = Some(self.shop.work(self.gateway.url(), 1)?);
        let a_third = self.forecast.well_formed / 3;
        self.wait("to see a third of the orders delivered", |now| {
            now.delivered >= a_third
        })
    }

    /// Everything fails, backs off, is tried again; what has no attempt left dies.
    pub(super) fn the_gateway_goes_down(&mut self) -> Result<()> {
        self.screen.scene("17:40", "The payment gateway goes down");
        self.screen
            .say("It answers 503. Attempts fail, jobs back off, the first run out of them.");
        self.gateway.go_down();
        let some = self.forecast.events.div_ceil(100);
        self.wait("to see jobs run out of attempts", |now| now.letters >= some)
    }

    /// The jobs that are left are delivered.
    pub(super) fn the_gateway_comes_back(&mut self) -> Result<()> {
        self.screen.scene("18:02", "The gateway is back");
        self.screen
            .say("What still has attempts is delivered by itself.");
        self.gateway.come_back();
        self.wait_until_nothing_is_live()
    }

    /// The rest waits to be looked at, by what went wrong.
    pub(super) fn what_failed_is_a_dead_letter(&mut self) -> Result<()> {
        self.screen
            .scene("18:05", "What could not succeed is a dead letter");
        self.redrive(&["dlq"])
    }

    /// Another process takes over, without losing a job.
    pub(super) fn the_fix_is_deployed(&mut self) -> Result<()> {
        self.screen
            .scene("18:30", "The fix is deployed: release 2 trims the currency");
        self.screen.command("kill -TERM order_service");
        self.stop_service()?;
        self.screen.command("order_service work --release 2");
        self.service = Some(self.shop.work(self.gateway.url(), 2)?);
        Ok(())
    }

    /// All letters go back as jobs; those that nothing can save come back as letters.
    pub(super) fn the_letters_are_redriven(&mut self) -> Result<()> {
        self.screen.scene("18:31", "The letters are redriven");
        if self.numbers()?.open == 0 {
            self.screen.say("There are none.");
            return Ok(());
        }
        let queue = self.shop.queue();
        // First what would happen, then that it may.
        self.redrive(&["dlq", "redrive", queue])?;
        let why = "release 2 is out, the gateway is back";
        let pace = "--unthrottled";
        self.redrive(&["dlq", "redrive", queue, pace, "--why", why, "--yes"])?;
        self.wait_until_nothing_is_live()?;
        let Numbers {
            recovered, open, ..
        } = self.numbers()?;
        self.screen.say(format!(
            "{} recovered, {} died again.",
            grouped(recovered),
            grouped(open)
        ));
        Ok(())
    }

    /// Refunds are booked by hand; the rest waits for Monday.
    pub(super) fn people_decide_the_rest(&mut self) -> Result<()> {
        self.screen
            .scene("18:40", "What no release can save is for people to decide");
        let failures = self.numbers()?.failures;
        if failures.is_empty() {
            self.screen.say("There is none.");
            return Ok(());
        }
        self.redrive(&["dlq", "groups"])?;
        if failures.iter().any(|group| group.error_class == REFUNDS) {
            let queue = self.shop.queue();
            let refunds = format!("class={REFUNDS}");
            let why = "a refund: booked by hand, ticket 4711";
            self.redrive(&["dlq", "discard", queue, &refunds, "--why", why, "--yes"])?;
        }
        self.redrive(&["audit"])
    }

    /// The end: what came in is what became of it.
    pub(super) fn the_accounts_are_made(&mut self) -> Result<()> {
        self.stop_service()?;
        let Numbers {
            waiting,
            backing_off,
            open,
            recovered,
            discarded,
            ..
        } = self.numbers()?;
        let accounts = Accounts {
            live: waiting + backing_off,
            recovered,
            discarded,
            letters: open,
            ..Accounts::of(self.forecast, &self.gateway)
        };
        self.screen.scene("19:00", "The accounts");
        self.screen.say(accounts.to_string());
        accounts.check()?;
        let events = grouped(self.forecast.events);
        self.screen
            .scene("     ", &format!("{events} in, {events} accounted for."));
        Ok(())
    }

    /// Shows and runs the command line tool.
    fn redrive(&mut self, arguments: &[&str]) -> Result<()> {
        self.screen
            .command(&typed(Command::new("redrive").args(arguments)));
        let said = self.shop.redrive(self.interrupt, arguments)?;
        self.screen.say(said);
        Ok(())
    }

    fn stop_service(&mut self) -> Result<()> {
        match self.service.take() {
            Some(service) => self.shop.stop(self.interrupt, service),
            None => Ok(()),
        }
    }

    fn wait_until_nothing_is_live(&mut self) -> Result<()> {
        self.wait("for all jobs to be done or dead", |_| false)
    }

    /// Shows progress until it is far enough, or nothing is live that could change it.
    fn wait(&mut self, what: &str, enough: impl Fn(Progress) -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(service) = &mut self.service {
                self.shop.check(service)?;
            }
            let progress = self.look()?;
            if progress.live == 0 || enough(progress) {
                self.screen.arrived(progress);
                return Ok(());
            }
            self.screen.progress(progress);
            if Instant::now() >= end {
                return Err(Error::new(format!(
                    "waited {} s in vain {what}: {progress}",
                    PATIENCE.as_secs()
                )));
            }
            self.interrupt.wait_for(LOOK, || Ok(None::<()>))?;
        }
    }

    /// Where all the orders are now.
    fn look(&self) -> Result<Progress> {
        let numbers = self.numbers()?;
        Ok(Progress {
            events: self.forecast.events,
            delivered: self.gateway.charged(),
            live: numbers.waiting + numbers.backing_off,
            backing_off: numbers.backing_off,
            letters: numbers.open,
        })
    }

    fn numbers(&self) -> Result<Numbers> {
        let queue = self.shop.queue();
        let stats = self
            .db
            .stats(Some(queue))
            .during(|| format!("cannot look at `{queue}`"))?;
        // A queue with nothing in it, dead or alive, has no row.
        Ok(stats
            .into_iter()
            .next()
            .map(Numbers::from)
            .unwrap_or_default())
    }
}

/// The numbers of the queue, as far as the evening needs them.
#[derive(Debug, Default)]
struct Numbers {
    waiting: u64,
    backing_off: u64,
    open: u64,
    recovered: u64,
    discarded: u64,
    failures: Vec<FailureCount>,
}

impl From<QueueStats> for Numbers {
    fn from(stats: QueueStats) -> Numbers {
        Numbers {
            waiting: stats.ready + stats.leased,
            backing_off: stats.delayed,
            open: stats.open + stats.quarantined,
            recovered: stats.recovered,
            discarded: stats.discarded,
            failures: stats.failures,
        }
    }
}
