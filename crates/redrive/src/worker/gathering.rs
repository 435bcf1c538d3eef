//! Decides which jobs run together, and when a batch starts. Pure.
//!
//! A batch starts when it is full, when its payloads are large enough, or when its first job has
//! waited for the linger time.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sync::Instant;

/// A batch with this many bytes of payload is full, as is a claim.
pub(crate) const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// The batches that are being gathered, by kind.
#[derive(Debug)]
pub(crate) struct Gathering<T> {
    open: HashMap<Arc<str>, OpenBatch<T>>,
}

#[derive(Debug)]
struct OpenBatch<T> {
    jobs: Vec<T>,
    bytes: usize,
    size: usize,
    starts_at: Instant,
}

impl<T> Gathering<T> {
    pub(crate) fn new() -> Gathering<T> {
        Gathering {
            open: HashMap::new(),
        }
    }

    /// Adds a job with a payload of this many bytes to the batch of up to `size` jobs, which starts at `starts_at` at the
    /// latest. Returns whether it joined others, and the batch if that is full.
    pub(crate) fn add(
        &mut self,
        kind: &Arc<str>,
        job: T,
        bytes: usize,
        size: usize,
        starts_at: Instant,
    ) -> (bool, Option<Vec<T>>) {
        let batch = self
            .open
            .entry(Arc::clone(kind))
            .or_insert_with(|| OpenBatch {
                jobs: Vec::new(),
                bytes: 0,
                size,
                starts_at,
            });
        batch.starts_at = batch.starts_at.min(starts_at);
        batch.jobs.push(job);
        batch.bytes = batch.bytes.saturating_add(bytes);
        let joined = batch.jobs.len() > 1;
        let is_full = batch.jobs.len() >= batch.size || batch.bytes >= MAX_BATCH_BYTES;
        let filled = is_full.then(|| self.open.remove(kind)).flatten();
        (joined, filled.map(|batch| batch.jobs))
    }

    /// When the next batch must start. `None`: none waits.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.open.values().map(|batch| batch.starts_at).min()
    }

    /// Takes the batches that have lingered long enough.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Vec<T>> {
        let due = self.open.extract_if(|_, batch| batch.starts_at <= now);
        due.map(|(_, batch)| batch.jobs).collect()
    }

    /// Takes all batches, because the worker stops.
    pub(crate) fn take_all(&mut self) -> Vec<Vec<T>> {
        let all = self.open.drain();
        all.map(|(_, batch)| batch.jobs).collect()
    }

    /// Returns how many jobs would fill all open batches.
    pub(crate) fn missing(&self) -> usize {
        let batches = self.open.values();
        batches.map(|batch| batch.size - batch.jobs.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn kind(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn a_batch_starts_when_it_is_full() {
        let (mut gathering, now) = (Gathering::new(), Instant::now());
        let mut add = |job: u32| gathering.add(&kind("a"), job, 10, 3, now);
        assert_eq!(add(1), (false, None));
        assert_eq!(add(2), (true, None));
        assert_eq!(add(3), (true, Some(vec![1, 2, 3])));
        assert_eq!(add(4), (false, None));
        assert_eq!(gathering.missing(), 2);
        assert_eq!(gathering.take_all(), [[4]]);
        assert_eq!((gathering.missing(), gathering.next_due()), (0, None));
    }

    #[test]
    fn a_batch_starts_when_its_first_job_has_lingered() {
        let (mut gathering, start) = (Gathering::new(), Instant::now());
        gathering.add(&kind("a"), 1, 10, 3, start + SECOND);
        gathering.add(&kind("a"), 2, 10, 3, start + SECOND * 3 / 2);
        gathering.add(&kind("b"), 3, 10, 3, start + SECOND * 5 / 4);
        assert_eq!(gathering.missing(), 1 + 2);
        assert_eq!(gathering.next_due(), Some(start + SECOND));
        let early = start + SECOND.saturating_sub(Duration::from_nanos(1));
        assert_eq!(gathering.take_due(early), [[0; 0]; 0]);
        assert_eq!(gathering.take_due(start + SECOND), [[1, 2]]);
        assert_eq!(gathering.next_due(), Some(start + SECOND * 5 / 4));
        // A job that must start soon takes its batch along.
        gathering.add(&kind("b"), 4, 10, 3, start + SECOND);
        assert_eq!(gathering.take_due(start + SECOND), [[3, 4]]);
        assert_eq!(gathering.next_due(), None);
    }

    #[test]
    fn a_batch_starts_when_its_payloads_are_large() {
        let (mut gathering, now) = (Gathering::new(), Instant::now());
        let mut add = |job: u32, bytes| gathering.add(&kind("a"), job, bytes, 10, now);
        assert_eq!(add(1, MAX_BATCH_BYTES - 1), (false, None));
        assert_eq!(add(2, 1), (true, Some(vec![1, 2])));
        assert_eq!(add(3, usize::MAX), (false, Some(vec![3])));
    }
}
