//! `redrive dlq capture`: records failures of other systems as letters.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::thread;

use redrive::dlq::{CaptureOutcome, CapturePace, ForeignFailure};
use redrive::limits::MAX_CAPTURE_BYTES;

use crate::ndjson::{BadLine, CaptureLine, Lines, read, shown};
use crate::prelude::*;
use crate::stop::StopSignal;
use crate::terminal::Progress;

/// The longest line: the largest capture in base64, and the other members.
const MAX_LINE_BYTES: usize = MAX_CAPTURE_BYTES / 3 * 4 + 1024 * 1024;
/// The most lines, and about the most bytes, captured in one statement.
const MAX_CHUNK: (usize, u64) = (1000, 4 * 1024 * 1024);

/// Record failures of other systems as dead letters
///
/// The bytes are stored unchanged. A letter whose bytes are JSON can be redriven into its queue. Of
/// bytes that exceed 16 MiB, the letter shows the first 64 KiB: `dlq show --raw` prints all, and
/// `dlq deliver` sends all.
/// Each position of a source is recorded once, so an interrupted capture can be repeated. If the
/// letter of a position was recovered or discarded, it opens again with the new failure.
#[derive(Args, Debug)]
#[command(
    override_usage = "\
redrive dlq capture [OPTIONS] <SOURCE> <POSITION> <QUEUE> <KIND> [FILE]
       redrive dlq capture [OPTIONS] --file <F.ndjson>",
    before_help = "\
Examples:
  kcat -C -t orders -p 3 -o 1842 -c 1 |
    redrive dlq capture kafka:orders 3/1842 orders order.placed - \\
    --error-class ParseError
  redrive dlq capture --file failures.ndjson
  consume-dead-letters | redrive dlq capture --file - --rate 500
  tail -f failures.ndjson | redrive dlq capture --file -
",
    after_help = "\
File format: one JSON object per line with the members source, position, queue
and kind; the bytes as payload (JSON), raw (text) or raw_base64; and optionally
content_type, headers (an object of strings), error_class, error_message,
error_detail, group_key and failure_key. `redrive dlq export` writes such lines, with the
member letter: a new letter keeps its history, generation and counts, and one that was recovered or
discarded stays so. Bad lines are reported and skipped, and the exit code is then 1.

While the input pauses, as that of `tail -f` does, the lines that have come are recorded. Ctrl-C
ends the command after these; the exit code is then 1."
)]
pub(super) struct CaptureFailures {
    /// System that the failure comes from.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    source: Option<String>,
    /// Position in the source, which identifies the failure.
    #[arg(required_unless_present = "file")]
    position: Option<String>,
    /// Queue into which the letter is redriven.
    #[arg(required_unless_present = "file")]
    queue: Option<String>,
    /// Kind of the job when the letter is redriven.
    #[arg(required_unless_present = "file")]
    kind: Option<String>,
    /// File with the bytes; - is stdin.
    #[arg(value_name = "FILE", default_value = "-")]
    bytes: PathBuf,
    /// File with one failure per line (NDJSON); - is stdin.
    #[arg(long, value_name = "F.ndjson")]
    file: Option<PathBuf>,
    /// Failures a second from each source, at most. A flood waits in its source; nothing is dropped.
    #[arg(long, value_name = "N", requires = "file")]
    rate: Option<NonZeroU32>,
    /// Class of the error, by which letters are grouped.
    #[arg(
        long,
        value_name = "CLASS",
        default_value = "captured",
        conflicts_with = "file"
    )]
    error_class: String,
    /// Error message.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true,
        conflicts_with = "file"
    )]
    error_message: String,
    /// Media type of the bytes.
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "application/json",
        conflicts_with = "file"
    )]
    content_type: String,
}

impl CaptureFailures {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.file {
            Some(file) => capture_file(file, self.rate, cx),
            None => self.capture_one(cx),
        }
    }

    fn capture_one(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let text = |given: &Option<String>| given.clone().unwrap_or_default();
        let failure = ForeignFailure::new(
            text(&self.source),
            text(&self.position),
            text(&self.queue),
            text(&self.kind),
            self.read()?,
        )
        .content_type(&*self.content_type)
        .error(&*self.error_class, &*self.error_message);
        let db = cx.database()?;
        let captured = db.dlq().capture(&failure)?;
        let id = captured.id();
        let json = json!({
            "id": id.get(),
            "new": matches!(captured, CaptureOutcome::New(_)),
            "reopened": matches!(captured, CaptureOutcome::Reopened(_)),
        });
        cx.print(&json, id)?;
        match captured {
            CaptureOutcome::New(_) => {}
            CaptureOutcome::Reopened(_) => cx.say(format!(
                "letter {id} of this position was closed; it is open again with this failure"
            )),
            CaptureOutcome::Known(_) => {
                cx.say(format!("this position was already captured as letter {id}"));
            }
            CaptureOutcome::Different(_) => {
                return cx.nothing(format!(
                    "this position was already captured as letter {id}, with other bytes; these \
                     are not stored"
                ));
            }
        }
        Ok(Ending::Done)
    }

    fn read(&self) -> Result<Vec<u8>> {
        let max = MAX_CAPTURE_BYTES as u64;
        read(&self.bytes, max)?.ok_or_else(|| {
            let file = shown(&self.bytes);
            let max = grouped(max);
            Error::new(format!(
                "{file} is too large to capture; the limit is {max} bytes"
            ))
        })
    }
}

/// The lines of a file by result.
#[derive(Debug, Default, Serialize)]
struct CaptureCounts {
    new: u64,
    reopened: u64,
    known: u64,
    /// Known positions with other bytes.
    #[serde(skip)]
    different: u64,
    bad_lines: u64,
}

impl CaptureCounts {
    fn done(&self) -> u64 {
        self.new + self.reopened + self.known
    }
}

fn capture_file(file: &Path, rate: Option<NonZeroU32>, cx: &mut Context<'_>) -> Result<Ending> {
    let mut lines = Lines::of(file, MAX_LINE_BYTES)?;
    let db = cx.database()?;
    db.check_schema()?;
    let stop = StopSignal::listen()?;
    lines.stop = Some(stop);
    let progress = Progress::unknown("capturing");
    let mut counts = CaptureCounts::default();
    let mut bad_lines = 0;
    let mut reject = |what: String| {
        bad_lines += 1;
        progress.suspend(|| cx.say(what));
    };
    let mut pace = rate.map(CapturePace::new);
    // A chunk is no longer than a second of the rate.
    let (lines_of_chunk, bytes) = MAX_CHUNK;
    let in_a_second = rate.and_then(|rate| usize::try_from(rate.get()).ok());
    let max = (lines_of_chunk.min(in_a_second.unwrap_or(usize::MAX)), bytes);
    let mut capture = || -> Result<()> {
        while let Some(chunk) = lines.next_chunk(max, CaptureLine::read, |bad: BadLine| {
            reject(format!("line {}: {}", bad.number, bad.error));
            Ok(())
        })? {
            if let Some(pace) = &mut pace {
                thread::sleep(pace.wait(&chunk));
            }
            let captured = match db.dlq().capture_many(&chunk) {
                Err(error) if error.is_invalid() => capture_each(&db, &chunk, &mut reject)?,
                captured => captured?,
            };
            for captured in captured {
                match captured {
                    CaptureOutcome::New(_) => counts.new += 1,
                    CaptureOutcome::Reopened(_) => counts.reopened += 1,
                    CaptureOutcome::Known(_) => counts.known += 1,
                    CaptureOutcome::Different(_) => {
                        counts.known += 1;
                        counts.different += 1;
                    }
                }
            }
            progress.show(counted(counts.done(), "failure"));
        }
        Ok(())
    };
    let captured = capture();
    drop(progress);
    counts.bad_lines = bad_lines;
    let reported = match captured.is_err() && counts.done() == 0 {
        true => Ok(Ending::Done),
        false => report(&counts, cx),
    };
    captured?;
    match stop.check().is_break() {
        true => cx.nothing("stopped by a signal; repeat the command for the lines that follow"),
        false => reported,
    }
}

/// Captures failures of which the database refuses some: one at a time, to tell which.
fn capture_each(
    db: &Database,
    failures: &[ForeignFailure],
    reject: &mut impl FnMut(String),
) -> Result<Vec<CaptureOutcome>> {
    let mut captured = Vec::new();
    for failure in failures {
        match db.dlq().capture(failure) {
            Ok(outcome) => captured.push(outcome),
            Err(error) if error.is_invalid() => reject(format!("{error:#}")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(captured)
}

fn report(counts: &CaptureCounts, cx: &mut Context<'_>) -> Result<Ending> {
    let reopened = match counts.reopened {
        0 => String::new(),
        reopened => format!("{} reopened, ", counted(reopened, "letter")),
    };
    let (new, known) = (counted(counts.new, "failure"), grouped(counts.known));
    cx.print(
        counts,
        format!("{new} captured, {reopened}{known} already known"),
    )?;
    if counts.different > 0 {
        cx.say(format!(
            "{} already known with other bytes, which are not stored",
            counted(counts.different, "position")
        ));
    }
    if counts.bad_lines > 0 {
        cx.say(format!("skipped {}", counted(counts.bad_lines, "bad line")));
    }
    Ok(Ending::of(counts.different + counts.bad_lines == 0))
}
