//! `cargo xtask demo`: a Friday evening, as a sequence of scenes.
//!
//! Everything in it is real: a PostgreSQL, an order service in a process of its own, a payment
//! gateway behind HTTP. Scenes wait for what they tell, never for a time.

mod accounts;
mod evening;
mod events;
mod gateway;
mod numbers;
mod programs;
mod screen;

use std::env;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;

use self::evening::Evening;
use self::events::Forecast;
use self::numbers::Numbers;
use self::programs::Programs;
use self::screen::Screen;
use crate::cluster::{Cluster, Durability};
use crate::error::{During, Result};
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;

/// What the evening is made of.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Orders to deliver, one JSON object a line; without it, orders are generated
    #[arg(value_name = "FILE.ndjson")]
    file: Option<PathBuf>,
    /// How many orders to generate
    #[arg(long, value_name = "N", default_value_t = 20_000, conflicts_with = "file",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    events: u64,
    /// Leave the PostgreSQL of the demo running, to look around in
    #[arg(long)]
    keep: bool,
    /// Afterwards run a Prometheus beside the exporter, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// Tells the story. An error when the numbers at its end do not add up.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<()> {
    let mut screen = Screen::new();
    let place = tempfile::tempdir().during(|| "cannot make a temporary folder")?;
    let file = options
        .file
        .clone()
        .unwrap_or_else(|| place.path().join("orders.ndjson"));
    if options.file.is_none() {
        events::write(&file, options.events)?;
    }
    let forecast = Forecast::of(&file)?;
    let programs = Programs::build(interrupt)?;

    let begin = Instant::now();
    println!("redrive: a Friday evening");
    let stage = Stage::set(interrupt, &mut screen)?;
    let told = {
        let log = place.path().join("order_service.log");
        let shop = programs.on(&stage.queue, &stage.url, &log);
        Evening::begin(shop, &forecast, &mut screen, interrupt)
            .and_then(|evening| tell(evening, &file))
            .and_then(|()| {
                let numbers = Numbers::of(shop, &mut screen, interrupt)?;
                println!("\nTold in {:.0} s.", begin.elapsed().as_secs_f64());
                match options.watch {
                    true => numbers.watch(place.path(), &mut screen, interrupt),
                    false => {
                        println!("The exporter ends with the demo; `--watch` keeps it.");
                        Ok(())
                    }
                }
            })
    };
    // After a failure, there is something to look into.
    if options.keep && interrupt.check().is_ok() {
        stage.keep();
    }
    told
}

/// The database of the evening.
#[derive(Debug)]
struct Stage {
    cluster: Option<Cluster>,
    url: String,
    queue: String,
}

impl Stage {
    /// The database that `DATABASE_URL` names, or one in a cluster of our own.
    fn set(interrupt: &Interrupt, screen: &mut Screen) -> Result<Stage> {
        if let Some(url) = env::var("DATABASE_URL").ok().filter(|url| !url.is_empty()) {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            // Somebody's own database may have real orders in it: they are not for our gateway.
            let queue = format!("demo-orders-{}", since.as_secs());
            screen.say(format!(
                "In the database of DATABASE_URL, in the queue `{queue}`."
            ));
            return Ok(Stage {
                cluster: None,
                url,
                queue,
            });
        }
        let binaries = Binaries::find(interrupt)?;
        let begin = Instant::now();
        let cluster = Cluster::start(&binaries, Durability::Durable, interrupt)?;
        let url = cluster.create_database("redrive")?;
        screen.say(format!(
            "On a PostgreSQL {} of its own, made in {:.1} s: {url}",
            binaries.version(),
            begin.elapsed().as_secs_f64()
        ));
        Ok(Stage {
            cluster: Some(cluster),
            url,
            queue: "orders".to_owned(),
        })
    }

    /// Leaves the cluster running and says how to go on.
    fn keep(self) {
        println!("\nTo look around:\n    export DATABASE_URL={}", self.url);
        println!("    cargo run --bin redrive -- stats {}", self.queue);
        println!("    cargo run --bin redrive-exporter");
        if let Some(cluster) = self.cluster {
            println!("The PostgreSQL is still running; to stop and remove it:");
            println!("    {}", cluster.keep());
        }
    }
}

/// The scenes, one after the other.
fn tell(mut evening: Evening<'_>, orders: &Path) -> Result<()> {
    evening.orders_come_in(orders)?;
    evening.release_1_delivers()?;
    evening.the_gateway_goes_down()?;
    evening.the_gateway_comes_back()?;
    evening.what_failed_is_a_dead_letter()?;
    evening.the_fix_is_deployed()?;
    evening.the_letters_are_redriven()?;
    evening.people_decide_the_rest()?;
    evening.the_accounts_are_made()
}
