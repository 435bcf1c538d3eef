//! The scenes: whatever a number of the catalogue counts happens, once at least.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redrive::{Act, Captured, GroupState, Groups, JobId, LetterState, Letters, Rate, RunOptions};

use super::hands::{PATIENCE, Scenes, connect, run};
use super::shop::{self, Shop};
use super::stage::Programs;
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;

/// How many breaths [`play`] takes.
pub(crate) const BREATHS: u32 = 13;
/// How long the last one is at least: panels look every 15 s, and must see the last scene.
const LAST: Duration = Duration::from_secs(20);

/// Makes the database what the scenes need: the schema, a slot that nobody reads, old letters.
pub(crate) fn prepare(url: &str) -> Result<()> {
    let db = redrive::connect(url).during(|| "cannot open the database of the shop")?;
    db.migrate()
        .during(|| "cannot migrate the database of the shop")?;
    let mut admin = connect(url)?;
    for statement in [
        "ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'",
        "SELECT pg_reload_conf()",
        "SELECT pg_stat_reset()",
        "SELECT pg_create_physical_replication_slot('nightly_backup', true)",
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)",
        "INSERT INTO accounts VALUES (1, 0)",
    ] {
        run(&mut admin, statement)?;
    }
    for (days, position) in [(0.1, "0/17"), (2.0, "0/18"), (9.0, "0/19")] {
        let event = Captured::new(
            "kafka:orders",
            position,
            "orders",
            "order.placed",
            b"{broken".to_vec(),
        )
        .error("ParseError", "expected `}`");
        db.capture(&event).during(|| "cannot capture an event")?;
        // It is as old as it says: rows are aged, never clocks.
        let age = format!(
            "UPDATE redrive.dead_letters SET died_at = died_at - interval '{days} days' \
             WHERE position = '{position}'"
        );
        run(&mut admin, &age)?;
    }
    Ok(())
}

/// Plays all scenes, with a breath between them; `replace` replaces the exporter.
pub(crate) fn play(
    url: &str,
    programs: &Programs,
    interrupt: &Interrupt,
    breath: Duration,
    replace: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut scenes = Scenes {
        url,
        programs,
        interrupt,
        breath,
        db: redrive::connect(url).during(|| "cannot open the database of the shop")?,
        admin: connect(url)?,
        shop: Shop::open(url)?,
    };
    scenes.an_ordinary_day()?;
    scenes.the_gateway_breaks()?;
    scenes.the_tax_service_is_down()?;
    replace()?;
    scenes.bad_data_comes_in()?;
    scenes.workers_are_killed()?;
    scenes.somebody_holds_the_horizon()?;
    scenes.the_letters_are_redriven()?;
    replace()?;
    scenes.some_die_again()?;
    scenes.people_decide_the_rest()?;
    scenes.the_house_is_cleaned()?;
    replace()?;
    scenes.breath = breath.max(LAST);
    scenes.breathe()
}

impl Scenes<'_> {
    fn an_ordinary_day(&mut self) -> Result<()> {
        say("an ordinary day");
        self.breathe()?;
        let reports = self.queue("reports")?;
        let many = (0..150)
            .map(|n| Ok(shop::job("report.day", "go", n)?.delay(Duration::from_hours(24))))
            .collect::<Result<Vec<_>>>()?;
        reports
            .add_many(many)
            .during(|| "cannot enqueue the reports")?;
        for _ in 0..3 {
            let unique = shop::job("report.week", "go", 1)?
                .delay(Duration::from_hours(24))
                .unique("week-47");
            reports
                .add_unique(unique)
                .during(|| "cannot enqueue a unique report")?;
        }
        self.enqueue("mails", "mail.welcome", "later", 12, 3)?;
        self.breathe()
    }

    fn the_gateway_breaks(&mut self) -> Result<()> {
        say("the payment gateway breaks, in a rush");
        self.world(|world| {
            world.is_rush.store(true, Ordering::Relaxed);
            world.is_gateway_broken.store(true, Ordering::Relaxed);
        });
        self.breathe()?;
        self.world(|world| world.is_rush.store(false, Ordering::Relaxed));
        self.wait_for(
            "letters of the gateway",
            "SELECT count(*) >= 40 FROM redrive.dead_letters WHERE error_class = 'GatewayTrouble'",
        )?;
        self.breathe()?;
        self.world(|world| world.is_gateway_broken.store(false, Ordering::Relaxed));
        Ok(())
    }

    fn the_tax_service_is_down(&mut self) -> Result<()> {
        say("the tax service is down");
        self.world(|world| world.is_tax_down.store(true, Ordering::Relaxed));
        self.wait_for(
            "the breaker to open",
            "SELECT count(*) > 0 FROM redrive.breakers WHERE state <> 'closed'",
        )?;
        self.breathe()?;
        self.world(|world| world.is_tax_down.store(false, Ordering::Relaxed));
        // Somebody who knows that it is back does not wait for the probe.
        self.redrive(&["breaker", "close", "tax-service"])?;
        Ok(())
    }

    fn bad_data_comes_in(&mut self) -> Result<()> {
        say("bad data comes in");
        self.enqueue("orders", "order.placed", "currency", 25, 5)?;
        self.enqueue("orders", "order.placed", "doomed", 6, 5)?;
        self.enqueue("mails", "mail.welcome", "moody", 5, 5)?;
        self.enqueue("orders", "order.paid", "buggy", 3, 2)?;
        self.enqueue("mails", "mail.receipt", "slow", 3, 1)?;
        let invoices = self.queue("invoices")?;
        for number in 0..4 {
            let old = format!(r#"{{"total": "{number} EUR"}}"#);
            let old = redrive::NewJob::raw("invoice.send", &old)
                .during(|| "cannot make an old invoice")?;
            invoices
                .add(old)
                .during(|| "cannot enqueue an old invoice")?;
        }
        for position in ["0/20", "0/21"] {
            let event = Captured::new(
                "kafka:orders",
                position,
                "orders",
                "order.placed",
                b"\xff\xfe".to_vec(),
            )
            .error("ParseError", "invalid UTF-8");
            self.db
                .capture(&event)
                .during(|| "cannot capture an event")?;
        }
        let doubted = self.queue("reports")?;
        let job = shop::job("report.day", "go", 7)?.delay(Duration::from_hours(1));
        let id = doubted.add(job).during(|| "cannot enqueue a report")?;
        self.db.cancel(id).during(|| "cannot cancel a report")?;
        for reason in [
            "exhausted",
            "rejected",
            "undecodable",
            "timeout",
            "captured",
            "manual",
        ] {
            let question =
                format!("SELECT count(*) > 0 FROM redrive.dead_letters WHERE reason = '{reason}'");
            self.wait_for(&format!("a letter of the reason `{reason}`"), &question)?;
        }
        self.breathe()
    }

    fn workers_are_killed(&mut self) -> Result<()> {
        say("workers are killed, and one is paused");
        self.enqueue("imports", "import.file", "go", 1, 5)?;
        let begin = Instant::now();
        // A job that kills its worker: after three of them it is a letter.
        while !self
            .holds("SELECT count(*) > 0 FROM redrive.dead_letters WHERE reason = 'worker_lost'")?
        {
            if begin.elapsed() > 2 * PATIENCE {
                return Err(Error::new(
                    "a job that kills its worker did not become a letter",
                ));
            }
            let mut worker = self.start_worker("imports", "kill -9 $PPID")?;
            self.interrupt
                .wait_for(Duration::from_secs(15), || worker.status())?;
        }
        self.enqueue("imports", "import.file", "go", 2, 5)?;
        let paused = self.start_worker("imports", "sleep 1")?;
        self.wait_for(
            "a lease",
            "SELECT count(*) > 0 FROM redrive.leases WHERE queue = 'imports'",
        )?;
        paused.pause()?;
        // The other workers see that it has not renewed, and take its jobs back.
        self.wait_for(
            "the lease to be lost",
            "SELECT count(*) = 0 FROM redrive.leases WHERE queue = 'imports'",
        )?;
        paused.resume()?;
        self.breathe()
    }

    fn somebody_holds_the_horizon(&mut self) -> Result<()> {
        say("somebody holds the horizon, somebody waits for a lock");
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
        self.wait_for(
            "a backend that waits",
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
        )?;
        self.breathe()?;
        run(&mut self.admin, "ROLLBACK PREPARED 'payout-7'")?;
        waiting
            .join()
            .unwrap_or_else(|_| Err(Error::new("what waited for a lock panicked")))?;
        run(&mut idle, "ROLLBACK")
    }

    fn the_letters_are_redriven(&mut self) -> Result<()> {
        say("the fix is deployed, the letters are redriven");
        self.world(|world| world.is_fixed.store(true, Ordering::Relaxed));
        // One that is paused, one that halts by itself, one that goes through.
        let slow = RunOptions::new().rate(Rate::PerSecond(NonZeroU32::MIN));
        let paused = self
            .db
            .create_run(
                &Letters::queue("orders").error_class("InvalidCurrency"),
                &slow,
                &Act::new(),
            )
            .during(|| "cannot make a run")?
            .ok_or_else(|| Error::new("no letter of a wrong currency to redrive"))?;
        self.breathe()?;
        self.db
            .pause_run(paused.id, &Act::new())
            .during(|| "cannot pause a run")?;
        let canary = RunOptions::new().canary(5);
        self.db
            .create_run(
                &Letters::queue("orders").error_class("UnknownCustomer"),
                &canary,
                &Act::new(),
            )
            .during(|| "cannot make a run")?;
        let all = RunOptions::new().rate(Rate::PerSecond(NonZeroU32::MIN.saturating_add(19)));
        self.db
            .create_run(
                &Letters::queue("orders").error_class("GatewayTrouble"),
                &all,
                &Act::new(),
            )
            .during(|| "cannot make a run")?;
        self.db
            .create_run(
                &Letters::queue("mails").error_class("BadAddress"),
                &all,
                &Act::new(),
            )
            .during(|| "cannot make a run")?;
        self.wait_for(
            "letters that recovered",
            "SELECT count(*) >= 20 FROM redrive.dead_letters WHERE state = 'recovered'",
        )?;
        self.wait_for(
            "a run that halts",
            "SELECT count(*) > 0 FROM redrive.redrive_runs WHERE state = 'halted'",
        )?;
        self.breathe()
    }

    fn some_die_again(&mut self) -> Result<()> {
        say("some die again, until they are quarantined");
        let doomed = Letters::queue("orders").error_class("UnknownCustomer");
        let begin = Instant::now();
        while !self
            .holds("SELECT count(*) > 0 FROM redrive.dead_letters WHERE state = 'quarantined'")?
        {
            if begin.elapsed() > PATIENCE {
                return Err(Error::new("what dies again and again was not quarantined"));
            }
            self.db
                .redrive(&doomed, &Act::new())
                .during(|| "cannot redrive")?;
            self.wait_for("them to die", "SELECT count(*) = 0 FROM redrive.dead_letters WHERE error_class = 'UnknownCustomer' AND state = 'redriving'")?;
        }
        self.breathe()
    }

    fn people_decide_the_rest(&mut self) -> Result<()> {
        say("people decide the rest");
        let groups = self
            .db
            .groups(&Groups::all())
            .during(|| "cannot list the groups")?;
        let of = |class: &str| {
            groups
                .iter()
                .find(|group| group.error_class == class)
                .map(|group| group.id)
        };
        for (class, state) in [
            ("UnknownCustomer", GroupState::Acknowledged),
            ("InvalidCurrency", GroupState::Resolved),
            ("BadAddress", GroupState::Ignored),
            ("GatewayTrouble", GroupState::Resolved),
        ] {
            let id =
                of(class).ok_or_else(|| Error::new(format!("no failure group of `{class}`")))?;
            self.db
                .mark_group(id, state, &Act::new().why("seen"))
                .during(|| "cannot mark a group")?;
        }
        // What was fixed is lost again: a regression.
        self.world(|world| world.is_fixed.store(false, Ordering::Relaxed));
        self.enqueue("orders", "order.placed", "currency", 2, 5)?;
        self.wait_for(
            "the regression",
            "SELECT count(*) > 0 FROM redrive.failure_groups WHERE error_class = 'InvalidCurrency' AND regressions > 0",
        )?;
        self.world(|world| world.is_fixed.store(true, Ordering::Relaxed));
        let some: Vec<JobId> = self
            .db
            .letters(&Letters::queue("invoices").state(LetterState::Open))
            .during(|| "cannot list letters")?
            .iter()
            .map(|letter| letter.id)
            .collect();
        self.db
            .discard(&Letters::ids(some), &Act::new().why("test data"))
            .during(|| "cannot discard")?;
        self.redrive(&[
            "dlq",
            "retention",
            "set",
            "open",
            "30d",
            "archive",
            "--queue",
            "orders",
        ])?;
        self.breathe()
    }

    fn the_house_is_cleaned(&mut self) -> Result<()> {
        say("the house is cleaned");
        run(
            &mut self.admin,
            "UPDATE redrive.dead_letters SET changed_at = changed_at - interval '3 days' WHERE state IN ('recovered', 'discarded') AND id % 2 = 0",
        )?;
        self.redrive(&["prune", "--older-than", "1d"])?;
        self.redrive(&["audit", "counters"])?;
        for statement in [
            "ANALYZE",
            "VACUUM redrive.dead_letters",
            // The server is for tests; that of a shop keeps what it is told.
            "ALTER SYSTEM SET fsync = on",
            "ALTER SYSTEM SET full_page_writes = on",
            "SELECT pg_reload_conf()",
        ] {
            run(&mut self.admin, statement)?;
        }
        self.wait_for(
            "a segment that is truncated",
            // By this call or, before it, by a worker's chores.
            "SELECT redrive.turn_ring(1024, 1000) IS NOT NULL AND r.truncated_at IS NOT NULL FROM redrive.ring r",
        )?;
        self.breathe()
    }
}

fn say(scene: &str) {
    println!("    {scene}");
}
