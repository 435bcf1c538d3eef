//! `redrive enqueue`: one job, or a file of them.

mod load;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use redrive::{KEY_BYTES, LONGEST_DELAY, NewJob, PAYLOAD_BYTES, Queue, Unique};
use serde_json::json;

use crate::args::Arguments;
use crate::command::enqueue::load::Load;
use crate::connect::{self, Patience};
use crate::duration;
use crate::error::{Error, Result};
use crate::lines::{BadLine, Lines};
use crate::progress::Progress;
use crate::render::{counted, grouped, json_line};
use crate::{Ending, Streams};

/// How many jobs of a file are sent at a time.
const CHUNK: usize = 10_000;
/// How many bytes of a file are sent at a time, about.
const CHUNK_BYTES: u64 = 8 * 1024 * 1024;

/// Store a job, or a file of them, and print what was stored.
///
/// A file is one transaction: its jobs are there all at once, or not at all. It is read with
/// bounded memory, however many lines it has; a regular file is read twice, so that a bad line is
/// found before anything is sent.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").required(true)),
    override_usage = "redrive enqueue [OPTIONS] <QUEUE> <KIND> <PAYLOAD | - | --file F.ndjson>",
    after_help = "\
Examples:
  redrive enqueue orders order.placed '{\"order\": 42}'
  redrive enqueue orders order.remind '{\"order\": 42}' --delay 1h30m
  redrive enqueue reports report.day '{}' --unique 2027-03-01
  generate | redrive enqueue orders order.placed --file -

With --skip-bad-lines the exit code is 1 when a line was bad."
)]
pub(crate) struct Enqueue {
    /// The queue; it need not be created.
    queue: String,
    /// The kind of the job, which names its handler.
    kind: String,
    /// The payload as JSON; - reads it from stdin.
    #[arg(allow_negative_numbers = true, group = "what")]
    payload: Option<String>,
    /// A file with one JSON payload a line (NDJSON); - is stdin.
    #[arg(long, value_name = "F.ndjson", group = "what")]
    file: Option<PathBuf>,
    /// Start no earlier than this from now: 500ms, 90s, 1h30m, 2d.
    #[arg(long, value_parser = delay, default_value = "0s", allow_hyphen_values = true)]
    delay: Duration,
    /// Jobs with a higher priority run first; -1000 to 1000.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    priority: i16,
    /// Attempts before it becomes a dead letter; 1 to 1000.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_attempts: u32,
    /// Store it only if no live job of the queue has this key; else print that job's id and exit
    /// with 1. 1 to 200 bytes.
    #[arg(long, value_name = "KEY", conflicts_with = "file", value_parser = unique_key)]
    unique: Option<String>,
    /// Enqueue the good lines of a file and name each bad one, instead of enqueuing none.
    #[arg(long, requires = "file")]
    skip_bad_lines: bool,
}

fn unique_key(text: &str) -> Result<String, String> {
    if !(1..=KEY_BYTES).contains(&text.len()) {
        return Err(format!("a unique key has 1 to {KEY_BYTES} bytes"));
    }
    Ok(text.to_owned())
}

fn delay(text: &str) -> Result<Duration, String> {
    let delay = duration::parse(text)?;
    if delay > LONGEST_DELAY {
        return Err("a delay is at most ten years (3650 days)".to_owned());
    }
    Ok(delay)
}

impl Enqueue {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        match (&self.file, &self.payload) {
            (Some(file), _) => self.enqueue_file(file, arguments, io),
            (None, payload) => self.enqueue_one(payload.as_deref().unwrap_or("-"), arguments, io),
        }
    }

    fn enqueue_one(
        &self,
        payload: &str,
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<Ending> {
        let job = match payload {
            "-" => self.with_options(NewJob::raw(&self.kind, read_payload()?.trim())?),
            payload => self.with_options(NewJob::raw(&self.kind, payload)?),
        };
        let job = match &self.unique {
            Some(key) => job.unique(key),
            None => job,
        };
        let queue = connect::queue(arguments, Patience::Minute, &self.queue, io)?;
        let added = queue.add_unique(job)?;
        let id = added.id();
        let (ending, is_new) = match added {
            Unique::Inserted(_) => (Ending::Done, true),
            Unique::Existing(_) => (Ending::NothingMatched, false),
        };
        if arguments.json {
            let mut line = json!({ "id": id.get(), "queue": self.queue, "kind": self.kind });
            if let Some(key) = &self.unique {
                line["unique"] = json!(key);
                line["stored"] = json!(is_new);
            }
            json_line(io.out, &line)?;
        } else {
            writeln!(io.out, "{id}")?;
        }
        if !is_new {
            io.say(format!("nothing was stored: job {id} has this key"));
        }
        Ok(ending)
    }

    fn with_options(&self, job: NewJob) -> NewJob {
        job.delay(self.delay)
            .priority(self.priority)
            .max_attempts(self.max_attempts)
    }

    fn enqueue_file(
        &self,
        file: &Path,
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<Ending> {
        // A name that is wrong is not the fault of line 1.
        NewJob::raw(&self.kind, "null")?;
        let size = size_of_regular(file);
        if let Some(size) = size
            && !self.skip_bad_lines
        {
            self.check(file, size)?;
        }
        let queue = connect::queue(arguments, Patience::Minute, &self.queue, io)?;
        queue.database().check_schema()?;
        let begin = Instant::now();
        let progress = match size {
            Some(size) => Progress::of_bytes("enqueuing", size),
            None => Progress::unknown("enqueuing"),
        };
        let sent = self.send(file, arguments, &queue, &progress, io)?;
        drop(progress);
        let seconds = begin.elapsed().as_secs_f64();
        self.report(&sent, seconds, arguments, io)?;
        Ok(if sent.bad_lines == 0 {
            Ending::Done
        } else {
            Ending::NothingMatched
        })
    }

    /// Reads a file to find a bad line before anything is sent.
    fn check(&self, file: &Path, size: u64) -> Result<()> {
        let progress = Progress::of_bytes("checking", size);
        let mut lines = Lines::new(open(file)?);
        while let Some(job) = lines
            .next_job(&self.kind)
            .map_err(|error| unreadable(file, error))?
        {
            job.map_err(|bad| refused(file, &bad))?;
            progress.at(lines.bytes());
        }
        Ok(())
    }

    /// Sends the lines of a file in one transaction.
    fn send(
        &self,
        file: &Path,
        arguments: &Arguments,
        queue: &Queue,
        progress: &Progress,
        io: &mut Streams<'_>,
    ) -> Result<Sent> {
        let load = Load::begin(
            connect::address(arguments)?,
            queue,
            connect::patience(arguments),
        )?;
        let mut lines = Lines::new(open(file)?);
        let mut sent = Sent::default();
        let mut chunk = Vec::new();
        let mut chunk_from = 0;
        loop {
            let job = lines
                .next_job(&self.kind)
                .map_err(|error| unreadable(file, error))?;
            let at_end = job.is_none();
            match job {
                Some(Ok(job)) => chunk.push(self.with_options(job)),
                Some(Err(bad)) if self.skip_bad_lines => {
                    sent.bad_lines += 1;
                    progress.aside(|| io.say(format!("line {}: {}", bad.number, bad.why)));
                }
                Some(Err(bad)) => return Err(refused(file, &bad)),
                None => {}
            }
            if chunk.len() == CHUNK || lines.bytes() - chunk_from > CHUNK_BYTES || at_end {
                sent.jobs += load.add(std::mem::take(&mut chunk))?;
                chunk_from = lines.bytes();
                progress.at(lines.bytes());
                progress.show(counted(sent.jobs, "job"));
            }
            if at_end {
                break;
            }
        }
        load.commit()?;
        Ok(sent)
    }

    fn report(
        &self,
        sent: &Sent,
        seconds: f64,
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<()> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate for people"
        )]
        let rate = (sent.jobs as f64 / seconds.max(0.001)) as u64;
        if arguments.json {
            return json_line(
                io.out,
                &json!({
                    "queue": self.queue, "kind": self.kind, "enqueued": sent.jobs, "bad_lines": sent.bad_lines,
                    "seconds": seconds, "jobs_per_second": rate,
                }),
            );
        }
        writeln!(
            io.out,
            "enqueued {} in {seconds:.1} s, {} a second",
            counted(sent.jobs, "job"),
            grouped(rate)
        )?;
        if sent.bad_lines > 0 {
            io.say(format!("left out {}", counted(sent.bad_lines, "bad line")));
        }
        Ok(())
    }
}

/// What became of a file.
#[derive(Debug, Default)]
struct Sent {
    jobs: u64,
    bad_lines: u64,
}

fn refused(file: &Path, bad: &BadLine) -> Error {
    Error::new(format!(
        "line {} of {} is bad, and nothing was enqueued: {}; --skip-bad-lines enqueues the others",
        bad.number,
        shown(file),
        bad.why
    ))
}

fn read_payload() -> Result<String> {
    let mut bytes = Vec::new();
    let most = PAYLOAD_BYTES as u64 + 1024;
    io::stdin()
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(Path::new("-"), error))?;
    String::from_utf8(bytes)
        .map_err(|error| Error::caused_by("the payload on stdin is not UTF-8", error.utf8_error()))
}

fn open(file: &Path) -> Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, io::stdin())));
    }
    let opened = File::open(file).map_err(|error| unreadable(file, error))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, opened)))
}

/// The size of a file that can be read twice.
fn size_of_regular(file: &Path) -> Option<u64> {
    let found = file.metadata().ok().filter(std::fs::Metadata::is_file);
    found
        .filter(|_| file != Path::new("-"))
        .map(|found| found.len())
}

fn unreadable(file: &Path, error: io::Error) -> Error {
    Error::caused_by(format!("could not read {}", shown(file)), error)
}

fn shown(file: &Path) -> String {
    if file == Path::new("-") {
        "stdin".to_owned()
    } else {
        format!("`{}`", file.display())
    }
}
