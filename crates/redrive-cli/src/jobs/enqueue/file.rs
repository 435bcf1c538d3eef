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
    pub(super) path: &'a Path,
    pub(super) kind: &'a str,
    /// Whether bad lines are reported and skipped. Otherwise the first one rejects the file.
    pub(super) skips_bad_lines: bool,
}

/// How many lines were enqueued or skipped.
#[derive(Debug, Default)]
pub(super) struct EnqueuedFile {
    pub(super) jobs: u64,
    pub(super) bad_lines: u64,
}

impl JobFile<'_> {
    /// Enqueues the jobs in one transaction.
    pub(super) fn enqueue(
        &self,
        queue: &Queue,
        with_options: impl Fn(NewJob) -> NewJob,
        cx: &mut Context<'_>,
    ) -> Result<EnqueuedFile> {
        let mut lines = Lines::of(self.path, MAX_PAYLOAD_BYTES)?;
        let size = self.size();
        let progress = match size {
            Some(size) => Progress::of_bytes("enqueuing", size),
            None => Progress::unknown("enqueuing"),
        };
        let transaction = FileTransaction::begin(cx.connect_options()?, queue, cx.bulk_timeout())?;
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
        // A program that writes it anew has cut it.
        if size.is_some_and(|size| lines.bytes() < size) {
            return Err(Error::new(format!(
                "{} became shorter while it was read; nothing was enqueued",
                shown(self.path)
            )));
        }
        transaction.commit()?;
        Ok(enqueued)
    }

    /// The size of a regular file, whose end is known. A file with the name of stdin is not read.
    fn size(&self) -> Option<u64> {
        let is_named = self.path != Path::new("-");
        let file = self.path.metadata().ok();
        let file = file.filter(|file| is_named && file.is_file());
        file.map(|file| file.len())
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
