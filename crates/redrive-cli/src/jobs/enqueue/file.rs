//! A file of payloads, one per line.

use std::path::Path;

use redrive::limits::MAX_PAYLOAD_BYTES;
use redrive::{NewJob, Queue};

use super::transaction::FileTransaction;
use crate::ndjson::{BadLine, Lines, shown};
use crate::prelude::*;
use crate::terminal::Progress;

/// The most jobs, and about the most bytes, sent in one statement.
const MAX_CHUNK: (usize, u64) = (10_000, 8 * 1024 * 1024);

/// A file of payloads of one kind.
pub(super) struct JobFile<'a> {
    path: &'a Path,
    kind: &'a str,
    /// Whether bad lines are reported and skipped. Otherwise the first one rejects the file.
    pub(super) skips_bad_lines: bool,
    /// The size of a regular file, which can be read twice.
    pub(super) size: Option<u64>,
}

/// How many lines were enqueued or skipped.
#[derive(Debug, Default)]
pub(super) struct EnqueuedFile {
    pub(super) jobs: u64,
    pub(super) bad_lines: u64,
}

impl<'a> JobFile<'a> {
    /// A file that a bad line rejects.
    pub(super) fn new(path: &'a Path, kind: &'a str) -> JobFile<'a> {
        let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file);
        let metadata = metadata.filter(|_| path != Path::new("-"));
        JobFile {
            path,
            kind,
            skips_bad_lines: false,
            size: metadata.map(|metadata| metadata.len()),
        }
    }

    /// Reads a regular file to find bad lines, if they reject the file.
    pub(super) fn check(&self) -> Result<()> {
        let Some(size) = self.size.filter(|_| !self.skips_bad_lines) else {
            return Ok(());
        };
        let progress = Progress::of_bytes("checking", size);
        let mut lines = Lines::of(self.path, MAX_PAYLOAD_BYTES)?;
        let mut reject = |bad| Err(self.rejected(&bad));
        while let Some(_jobs) = lines.next_chunk(MAX_CHUNK, |text| self.job(text), &mut reject)? {
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
        let mut lines = Lines::of(self.path, MAX_PAYLOAD_BYTES)?;
        let mut enqueued = EnqueuedFile::default();
        let mut reject = |bad: BadLine| {
            if !self.skips_bad_lines {
                return Err(self.rejected(&bad));
            }
            enqueued.bad_lines += 1;
            progress.suspend(|| cx.say(format!("line {}: {}", bad.number, bad.error)));
            Ok(())
        };
        while let Some(jobs) = lines.next_chunk(MAX_CHUNK, |text| self.job(text), &mut reject)? {
            let jobs = jobs.into_iter().map(&with_options).collect();
            enqueued.jobs += transaction.enqueue(jobs)?;
            progress.at(lines.bytes());
            progress.show(counted(enqueued.jobs, "job"));
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

    fn job(&self, text: &str) -> Result<NewJob, String> {
        NewJob::raw(self.kind, text).map_err(|error| Error::from(error).one_line())
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
