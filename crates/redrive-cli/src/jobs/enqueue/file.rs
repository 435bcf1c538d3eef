//! A file of payloads, one per line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use redrive::limits::MAX_PAYLOAD_BYTES;
use redrive::{NewJob, Queue};

use super::transaction::FileTransaction;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ndjson::{BadLine, Lines};
use crate::terminal::{Progress, counted};

/// The most jobs sent in one statement.
const MAX_CHUNK_JOBS: usize = 10_000;
/// About the most bytes sent in one statement.
const MAX_CHUNK_BYTES: u64 = 8 * 1024 * 1024;

/// The treatment of bad lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadLines {
    /// The first bad line rejects the file.
    Reject,
    /// Bad lines are reported and skipped.
    Skip,
}

/// A file of payloads of one kind.
pub(super) struct JobFile<'a> {
    path: &'a Path,
    kind: &'a str,
    bad_lines: BadLines,
    /// The size of a regular file, which can be read twice.
    size: Option<u64>,
}

/// The result of enqueuing a file.
#[derive(Debug, Default)]
pub(super) struct EnqueuedFile {
    pub(super) jobs: u64,
    pub(super) bad_lines: u64,
}

impl<'a> JobFile<'a> {
    pub(super) fn new(path: &'a Path, kind: &'a str, bad_lines: BadLines) -> JobFile<'a> {
        let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file);
        let size = metadata
            .filter(|_| path != Path::new("-"))
            .map(|metadata| metadata.len());
        JobFile {
            path,
            kind,
            bad_lines,
            size,
        }
    }

    /// The size of a regular file.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Reads a regular file to find bad lines, if they reject the file.
    pub(super) fn check(&self) -> Result<()> {
        let (Some(size), BadLines::Reject) = (self.size, self.bad_lines) else {
            return Ok(());
        };
        let progress = Progress::of_bytes("checking", size);
        let mut lines = self.lines()?;
        while let Some(job) = self.next(&mut lines)? {
            job.map_err(|bad| self.rejected(&bad))?;
            progress.at(lines.bytes());
        }
        Ok(())
    }

    /// Enqueues the jobs in one transaction.
    pub(super) fn enqueue(
        &self,
        queue: &Queue,
        with_options: impl Fn(NewJob) -> NewJob,
        progress: &Progress,
        cx: &mut Context<'_>,
    ) -> Result<EnqueuedFile> {
        let transaction = FileTransaction::begin(cx.connect_options()?, queue, cx.bulk_timeout())?;
        let mut lines = self.lines()?;
        let mut enqueued = EnqueuedFile::default();
        let mut chunk = Vec::new();
        let mut chunk_start = 0;
        loop {
            let job = self.next(&mut lines)?;
            let at_end = job.is_none();
            match job {
                Some(Ok(job)) => chunk.push(with_options(job)),
                Some(Err(bad)) if self.bad_lines == BadLines::Skip => {
                    enqueued.bad_lines += 1;
                    progress.suspend(|| cx.say(format!("line {}: {}", bad.number, bad.error)));
                }
                Some(Err(bad)) => return Err(self.rejected(&bad)),
                None => {}
            }
            let is_full =
                chunk.len() == MAX_CHUNK_JOBS || lines.bytes() - chunk_start > MAX_CHUNK_BYTES;
            if is_full || at_end {
                enqueued.jobs += transaction.enqueue(std::mem::take(&mut chunk))?;
                chunk_start = lines.bytes();
                progress.at(lines.bytes());
                progress.show(counted(enqueued.jobs, "job"));
            }
            if at_end {
                break;
            }
        }
        // The file was checked as a whole, or at least has a known end.
        if self.size.is_some_and(|size| lines.bytes() < size) {
            return Err(Error::new(format!(
                "{} became shorter while it was read; nothing was enqueued",
                shown(self.path)
            )));
        }
        transaction.commit()?;
        Ok(enqueued)
    }

    fn lines(&self) -> Result<Lines<Box<dyn BufRead>>> {
        let reader: Box<dyn BufRead> = if self.path == Path::new("-") {
            Box::new(BufReader::with_capacity(1 << 16, io::stdin()))
        } else {
            let file = File::open(self.path).map_err(|error| unreadable(self.path, error))?;
            Box::new(BufReader::with_capacity(1 << 16, file))
        };
        Ok(Lines::new(reader, MAX_PAYLOAD_BYTES))
    }

    fn next(&self, lines: &mut Lines<Box<dyn BufRead>>) -> Result<Option<Result<NewJob, BadLine>>> {
        lines
            .next_job(self.kind)
            .map_err(|error| unreadable(self.path, error))
    }

    fn rejected(&self, bad: &BadLine) -> Error {
        Error::new(format!(
            "line {} of {} is bad, nothing was enqueued: {}; use --skip-bad-lines to enqueue the \
             other lines",
            bad.number,
            shown(self.path),
            bad.error
        ))
    }
}

pub(super) fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::caused_by(format!("could not read {}", shown(path)), error)
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "stdin".to_owned()
    } else {
        format!("`{}`", path.display())
    }
}
