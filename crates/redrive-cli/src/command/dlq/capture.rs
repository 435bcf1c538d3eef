//! `redrive dlq capture`: failures from elsewhere as letters, one, or a file of them.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use redrive::{Captured, Database, MOST_CAPTURED_BYTES};
use serde_json::json;

use crate::args::Arguments;
use crate::capture_line::CaptureLine;
use crate::connect::{self, Patience};
use crate::error::{Error, Result};
use crate::lines::Lines;
use crate::progress::Progress;
use crate::render::{counted, grouped, json_line};
use crate::{Ending, Streams};

/// The longest line that is read: the largest capture in base64, and the rest of its line.
const LINE_BYTES: usize = MOST_CAPTURED_BYTES / 3 * 4 + 1024 * 1024;
/// How many lines are captured at a time.
const CHUNK: usize = 1000;
/// How many bytes of lines are captured at a time, about.
const CHUNK_BYTES: u64 = 4 * 1024 * 1024;

/// Record failures from outside of redrive as dead letters, with their bytes as they are.
///
/// The same position of the same source is recorded once, however often this is called. When the
/// bytes are JSON, the letter can be redriven into its queue.
///
/// Of a file, lines that are bad are named, and the others are captured. Interrupted, repeat it:
/// nothing is recorded twice.
#[derive(Args, Debug)]
#[command(
    override_usage = "redrive dlq capture [OPTIONS] <SOURCE> <POSITION> <QUEUE> <KIND> [BYTES]
       redrive dlq capture [OPTIONS] --file <F.ndjson>",
    after_help = "\
Examples:
  kcat -C -t orders -p 3 -o 1842 -c 1 |
    redrive dlq capture kafka:orders 3/1842 orders order.placed - --error-class ParseError
  redrive dlq capture --file failures.ndjson

A file has one JSON object a line, with the members source, position, queue
and kind; the bytes as one of payload (JSON), raw (text) and raw_base64; and,
if wanted, content_type, headers (an object of texts), error_class,
error_message and error_detail. `redrive dlq export` writes such lines.

The exit code is 1 when a line was bad."
)]
pub(crate) struct Capture {
    /// Where it came from.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    source: Option<String>,
    /// Its position there.
    #[arg(required_unless_present = "file")]
    position: Option<String>,
    /// The queue it is redriven to.
    #[arg(required_unless_present = "file")]
    queue: Option<String>,
    /// The kind of job it becomes then.
    #[arg(required_unless_present = "file")]
    kind: Option<String>,
    /// The bytes; - is stdin.
    #[arg(default_value = "-")]
    bytes: PathBuf,
    /// A file with one failure a line (NDJSON); - is stdin.
    #[arg(long, value_name = "F.ndjson")]
    file: Option<PathBuf>,
    /// The class of the error, by which letters are grouped.
    #[arg(long, default_value = "captured")]
    error_class: String,
    /// What went wrong.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    error_message: String,
    /// What the bytes are.
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    content_type: String,
}

impl Capture {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        match &self.file {
            Some(file) => many(file, arguments, io),
            None => self.one(arguments, io),
        }
    }

    fn one(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let text = |given: &Option<String>| given.clone().unwrap_or_default();
        let foreign = Captured::new(
            text(&self.source),
            text(&self.position),
            text(&self.queue),
            text(&self.kind),
            self.read()?,
        )
        .content_type(&*self.content_type)
        .error(&*self.error_class, &*self.error_message);
        let db = connect::database(arguments, Patience::Minute, io)?;
        let (id, is_new) = match db.capture(&foreign)? {
            redrive::Capture::New(id) => (id, true),
            redrive::Capture::Known(id) => (id, false),
        };
        if arguments.json {
            json_line(io.out, &json!({ "id": id.get(), "new": is_new }))?;
        } else {
            writeln!(io.out, "{id}")?;
        }
        if !is_new {
            io.say(format!("this position was captured before, as letter {id}"));
        }
        Ok(Ending::Done)
    }

    fn read(&self) -> Result<Vec<u8>> {
        let most = MOST_CAPTURED_BYTES as u64;
        let mut bytes = Vec::new();
        open(&self.bytes)?
            .take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(&self.bytes, error))?;
        if bytes.len() as u64 > most {
            return Err(Error::new(format!(
                "`{}` is over the limit of {most} bytes for a capture",
                self.bytes.display()
            )));
        }
        Ok(bytes)
    }
}

/// What became of a file.
#[derive(Debug, Default)]
struct Counts {
    new: u64,
    known: u64,
    bad_lines: u64,
}

/// Captures every line of a file.
fn many(file: &Path, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let mut lines = Lines::of(BufReader::with_capacity(1 << 16, open(file)?), LINE_BYTES);
    let db = connect::database(arguments, Patience::Minute, io)?;
    db.check_schema()?;
    let progress = Progress::unknown("capturing");
    let mut counts = Counts::default();
    let mut chunk: Vec<Captured> = Vec::new();
    let mut chunk_from = 0;
    loop {
        let line = lines
            .next_as(CaptureLine::read)
            .map_err(|error| unreadable(file, error))?;
        let at_end = line.is_none();
        match line {
            Some(Ok(captured)) => chunk.push(captured),
            Some(Err(bad)) => {
                counts.bad_lines += 1;
                progress.aside(|| io.say(format!("line {}: {}", bad.number, bad.why)));
            }
            None => {}
        }
        if chunk.len() == CHUNK || lines.bytes() - chunk_from > CHUNK_BYTES || at_end {
            send(&db, &chunk, &mut counts)?;
            chunk.clear();
            chunk_from = lines.bytes();
            progress.show(counted(counts.new + counts.known, "failure"));
        }
        if at_end {
            break;
        }
    }
    drop(progress);
    if arguments.json {
        json_line(
            io.out,
            &json!({ "new": counts.new, "known": counts.known, "bad_lines": counts.bad_lines }),
        )?;
    } else {
        writeln!(
            io.out,
            "{} captured, {} known before",
            counted(counts.new, "failure"),
            grouped(counts.known)
        )?;
    }
    if counts.bad_lines > 0 {
        io.say(format!(
            "left out {}",
            counted(counts.bad_lines, "bad line")
        ));
    }
    Ok(match counts.bad_lines {
        0 => Ending::Done,
        _ => Ending::NothingMatched,
    })
}

fn send(db: &Database, chunk: &[Captured], counts: &mut Counts) -> Result<()> {
    for capture in db.capture_many(chunk)? {
        match capture {
            redrive::Capture::New(_) => counts.new += 1,
            redrive::Capture::Known(_) => counts.known += 1,
        }
    }
    Ok(())
}

fn open(file: &Path) -> Result<Box<dyn Read>> {
    Ok(match file == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file).map_err(|error| unreadable(file, error))?),
    })
}

fn unreadable(file: &Path, error: io::Error) -> Error {
    Error::caused_by(format!("could not read `{}`", file.display()), error)
}
