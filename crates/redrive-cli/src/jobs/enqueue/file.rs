//! A file of payloads, one per line.

use std::path::Path;
use std::time::Instant;

use redrive::NewJob;
use redrive::limits::MAX_PAYLOAD_BYTES;

use super::Enqueue;
use crate::ndjson::{BadLine, Lines, shown};
use crate::prelude::*;
use crate::terminal::Progress;

/// The most jobs, and about the most bytes, sent in one statement.
const MAX_CHUNK: (usize, u64) = (10_000, 8 * 1024 * 1024);

impl Enqueue {
    /// Enqueues the jobs of a file in one transaction.
    pub(super) fn enqueue_file(&self, path: &Path, cx: &mut Context<'_>) -> Result<Ending> {
        // Reports an invalid kind before line 1 is read.
        NewJob::raw(&self.kind, "null").map(drop)?;
        let queue = cx.queue(&self.queue)?;
        queue.database().check_schema()?;
        let start = self.start(|| queue.database().admin().now())?;
        let begin = Instant::now();
        let mut lines = Lines::of(path, MAX_PAYLOAD_BYTES)?;
        let size = size(path);
        let progress = match size {
            Some(size) => Progress::of_bytes("enqueuing", size),
            None => Progress::unknown("enqueuing"),
        };
        let (mut enqueued, mut bad_lines) = (0, 0);
        let mut reject = |BadLine { number, error }: BadLine| {
            if !self.skip_bad_lines {
                let file = shown(path);
                return Err(Error::new(format!(
                    "line {number} of {file} is bad, nothing was enqueued: {error}; use --skip-bad-lines to \
                     enqueue the other lines"
                )));
            }
            bad_lines += 1;
            progress.suspend(|| cx.say(format!("line {number}: {error}")));
            Ok(())
        };
        let job = |text: &str| {
            NewJob::raw(&self.kind, text).map_err(|error| Error::from(error).one_line())
        };
        queue.enqueue_chunks(|| {
            progress.at(lines.bytes());
            progress.show(counted(enqueued, "job"));
            let jobs = lines.next_chunk(MAX_CHUNK, job, &mut reject)?;
            // A program that writes it anew has cut it.
            if jobs.is_none() && size.is_some_and(|size| lines.bytes() < size) {
                return Err(Error::new(format!(
                    "{} became shorter while it was read; nothing was enqueued",
                    shown(path)
                )));
            }
            // A time does not wait for the lines before it.
            let passed = self.at.map(|_| begin.elapsed()).unwrap_or_default();
            let delay = start.saturating_sub(passed);
            Ok(jobs.map(|jobs| -> Vec<NewJob> {
                enqueued += jobs.len() as u64;
                let jobs = jobs.into_iter();
                jobs.map(|job| self.with_options(job, delay)).collect()
            }))
        })?;
        drop(progress);
        let took = begin.elapsed();
        let rate = u128::from(enqueued) * 1000 / took.as_millis().max(1);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        cx.print(
            &json!({
                "queue": self.queue, "kind": self.kind, "jobs": enqueued, "bad_lines": bad_lines,
                "duration_ms": took.json(), "jobs_per_second": rate,
            }),
            format!(
                "enqueued {} in {}, {} per second",
                counted(enqueued, "job"),
                short(took),
                grouped(rate)
            ),
        )?;
        if bad_lines > 0 {
            cx.say(format!("skipped {}", counted(bad_lines, "bad line")));
        }
        Ok(Ending::of(bad_lines == 0))
    }
}

/// The size of a regular file, whose end is known. A file with the name of stdin is not read.
fn size(path: &Path) -> Option<u64> {
    let is_named = path != Path::new("-");
    let file = path.metadata().ok();
    let file = file.filter(|file| is_named && file.is_file());
    file.map(|file| file.len())
}
