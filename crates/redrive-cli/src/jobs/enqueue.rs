//! `redrive enqueue`: one job, or a file of jobs.

mod file;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::ArgGroup;
use redrive::limits::MAX_PAYLOAD_BYTES;
use redrive::{Enqueued, NewJob, Replace};

use crate::ndjson::{self, without_mark};
use crate::prelude::*;

/// Enqueue a job, or a file of jobs in one transaction
///
/// Prints the id of the job. A file is enqueued in one transaction, with memory use that does not
/// depend on its length.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").required(true)),
    override_usage = "redrive enqueue [OPTIONS] <QUEUE> <KIND> <PAYLOAD | - | --file F.ndjson>",
    before_help = "\
Examples:
  redrive enqueue orders order.placed '{\"order\": 42}'
  redrive enqueue orders order.remind '{\"order\": 42}' --delay 1h30m
  redrive enqueue reports report.day '{}' --unique 2027-03-01
  redrive enqueue mails quota.low '{\"account\": 7}' --unique 7 --unique-window 1h
  redrive enqueue index page '{\"id\": 7}' --unique 7 --delay 1m --replace both
  redrive enqueue mails code '{\"code\": 7}' --expires-in 10m --header trace=4b
  generate | redrive enqueue orders order.placed --file -
",
    after_help = "With --skip-bad-lines, the exit code is 1 if a line was bad."
)]
pub(crate) struct Enqueue {
    /// Queue, which need not exist.
    queue: String,
    /// Kind of the job, which selects its handler.
    kind: String,
    /// Payload as JSON; - reads it from stdin.
    #[arg(allow_negative_numbers = true, group = "what")]
    payload: Option<String>,
    /// File with one JSON payload per line (NDJSON); - is stdin.
    #[arg(long, value_name = "F.ndjson", group = "what")]
    file: Option<PathBuf>,
    /// Earliest start from now, such as 500ms, 90s, 1h30m or 2d.
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "0s", allow_hyphen_values = true)]
    delay: Duration,
    /// Earliest start as a time, such as 2027-03-01T08:00, in UTC unless it has an offset. A time in
    /// the past is now.
    #[arg(long, value_name = "TIME", conflicts_with = "delay", value_parser = time::moment)]
    at: Option<SystemTime>,
    #[command(flatten)]
    job: JobArgs,
    /// Group of the job, such as customer:42 (1 to 200 bytes). The policy of the queue decides what
    /// it means.
    #[arg(long)]
    group: Option<String>,
    /// Enqueue the job only if no unfinished job of the queue has this key (1 to 200 bytes).
    /// Otherwise print the id of that job and exit with 1.
    #[arg(long, value_name = "KEY", conflicts_with = "file")]
    unique: Option<String>,
    /// Free the key when a worker takes the job, instead of when the job is done.
    #[arg(long, requires = "unique")]
    until_started: bool,
    /// Change the job with this key if it still waits: its payload, its time or both.
    #[arg(long, value_name = "payload|time|both", requires = "unique")]
    replace: Option<Replace>,
    /// Also enqueue nothing within this time after the last job with this key and a window, even if
    /// that job is done.
    #[arg(long, value_name = "TIME", requires = "unique", value_parser = time::parse)]
    unique_window: Option<Duration>,
    /// Report and skip bad lines instead of rejecting the file.
    #[arg(long, requires = "file")]
    skip_bad_lines: bool,
}

/// What a job has besides its kind, its payload and its time.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct JobArgs {
    /// Priority from -1000 to 1000. Jobs with a higher priority run first.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    priority: i16,
    /// Attempts before a job becomes a dead letter; 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_attempts: u32,
    /// Latest start, from now or from its tick: a job that starts later becomes a dead letter instead.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    expires_in: Option<Duration>,
    /// Header, such as trace=4bf92f35; repeatable.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
}

impl JobArgs {
    pub(crate) fn with_options(&self, job: NewJob) -> NewJob {
        let job = job
            .priority(self.priority)
            .max_attempts(self.max_attempts)
            .with(self.expires_in, NewJob::expires_in);
        let headers = self.headers.iter();
        headers.fold(job, |job, (name, value)| job.header(name, value))
    }
}

/// Parses a header such as `trace=4bf92f35`.
fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

impl Enqueue {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match (&self.file, &self.payload) {
            (Some(file), _) => self.enqueue_file(file, cx),
            (None, payload) => self.enqueue_one(payload.as_deref().unwrap_or("-"), cx),
        }
    }

    fn enqueue_one(&self, payload: &str, cx: &mut Context<'_>) -> Result<Ending> {
        let job = match payload {
            "-" => NewJob::raw(&self.kind, without_mark(&read_payload()?).trim())?,
            payload => NewJob::raw(&self.kind, without_mark(payload))?,
        };
        let queue = cx.queue(&self.queue)?;
        let start = self.start(|| queue.database().admin().now())?;
        let enqueued = queue.enqueue_job(self.with_options(job, start))?;
        let id = enqueued.id();
        // The job that has the key may be of another kind.
        let is_own = !matches!(enqueued, Enqueued::Existing(_));
        let kind = is_own.then_some(&self.kind);
        let mut line = json!({ "id": id.get(), "queue": self.queue, "kind": kind });
        if let Some(key) = &self.unique {
            line["unique"] = json!(key);
            line["stored"] = json!(matches!(enqueued, Enqueued::New(_)));
            line["replaced"] = json!(matches!(enqueued, Enqueued::Replaced(_)));
        }
        cx.print(&line, id)?;
        match enqueued {
            Enqueued::New(_) => {}
            Enqueued::Existing(_) => {
                let window = self.unique_window.map_or("", |_| " or opened its window");
                let kept = ", and it is not replaced, because it has started or is of another kind";
                let kept = self.replace.map_or("", |_| kept);
                return cx.nothing(format!(
                    "nothing was enqueued: job {id} has this unique key{window}{kept}"
                ));
            }
            Enqueued::Replaced(_) => {
                cx.say(format!("job {id} has this unique key and was changed"));
            }
        }
        Ok(Ending::Done)
    }

    /// The delay from now. `now` is the time of the database.
    fn start(&self, now: impl FnOnce() -> redrive::Result<SystemTime>) -> Result<Duration> {
        Ok(match self.at {
            // It may have passed.
            Some(at) => at.duration_since(now()?).unwrap_or_default(),
            None => self.delay,
        })
    }

    fn with_options(&self, job: NewJob, delay: Duration) -> NewJob {
        self.job
            .with_options(job)
            .delay(delay)
            .with(self.group.as_ref(), NewJob::group)
            .with(self.unique.as_ref(), NewJob::unique)
            .with_flag(self.until_started, NewJob::until_started)
            .with(self.replace, NewJob::replace)
            .with(self.unique_window, NewJob::unique_window)
    }
}

fn read_payload() -> Result<String> {
    // Blanks around the payload do not count.
    let max = MAX_PAYLOAD_BYTES as u64 + 1024;
    let Some(bytes) = ndjson::read(Path::new("-"), max)? else {
        return Err(Error::new(format!(
            "the payload on stdin is too large; the limit is {} bytes",
            grouped(MAX_PAYLOAD_BYTES as u64)
        )));
    };
    String::from_utf8(bytes)
        .map_err(|error| Error::caused_by("the payload on stdin is not UTF-8", error.utf8_error()))
}
