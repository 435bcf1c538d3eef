//! `redrive dlq capture`: a failure from elsewhere as a letter.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use redrive::Captured;
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::error::{Error, Result};
use crate::render::json_line;
use crate::{Ending, Streams};

/// The largest capture: what is larger is not one event.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Record a failure from outside of redrive as a dead letter, with its bytes as they are.
///
/// The same position of the same source is recorded once, however often this is called. When the
/// bytes are JSON, the letter can be redriven into its queue.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  kcat -C -t orders -p 3 -o 1842 -c 1 |
    redrive dlq capture kafka:orders 3/1842 orders order.placed - --error-class ParseError")]
pub(crate) struct Capture {
    /// Where it came from.
    source: String,
    /// Its position there.
    position: String,
    /// The queue it is redriven to.
    queue: String,
    /// The kind of job it becomes then.
    kind: String,
    /// The bytes; - is stdin.
    #[arg(default_value = "-")]
    file: PathBuf,
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
        let foreign = Captured::new(
            &*self.source,
            &*self.position,
            &*self.queue,
            &*self.kind,
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
        let shown = self.file.display();
        let unreadable = |error| Error::caused_by(format!("could not read `{shown}`"), error);
        let reader: Box<dyn Read> = match self.file == Path::new("-") {
            true => Box::new(io::stdin()),
            false => Box::new(File::open(&self.file).map_err(unreadable)?),
        };
        let mut bytes = Vec::new();
        reader
            .take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(Error::new(format!(
                "`{shown}` is over the limit of {MOST_BYTES} bytes for a capture"
            )));
        }
        Ok(bytes)
    }
}
