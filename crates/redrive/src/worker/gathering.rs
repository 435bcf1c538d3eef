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

    /// Takes the batches that must start by then. `None`: all, because the worker stops.
    pub(crate) fn take_due(&mut self, by: Option<Instant>) -> Vec<Vec<T>> {
        let is_due =
            |_: &Arc<str>, batch: &mut OpenBatch<T>| by.is_none_or(|by| batch.starts_at <= by);
        let due = self.open.extract_if(is_due);
        due.map(|(_, batch)| batch.jobs).collect()
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

    #[test]
    fn a_batch_starts_when_it_is_full_or_its_payloads_are_large() {
        let (mut gathering, now) = (Gathering::new(), Instant::now());
        for (job, bytes, expected) in [
            (1, 10, (false, None)),
            (2, 10, (true, None)),
            (3, 10, (true, Some(vec![1, 2, 3]))),
            (4, MAX_BATCH_BYTES - 1, (false, None)),
            (5, 1, (true, Some(vec![4, 5]))),
            (6, usize::MAX, (false, Some(vec![6]))),
            (7, 10, (false, None)),
        ] {
            let added = gathering.add(&"a".into(), job, bytes, 3, now);
            assert_eq!(added, expected, "{job}");
        }
        assert_eq!(gathering.missing(), 2);
        assert_eq!(gathering.take_due(None), [[7]]);
        assert_eq!((gathering.missing(), gathering.next_due()), (0, None));
    }

    #[test]
    fn a_batch_starts_when_its_first_job_has_lingered() {
        let (mut gathering, start) = (Gathering::new(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for (kind, job, starts_at) in [("a", 1, 100), ("a", 2, 150), ("b", 3, 125)] {
            gathering.add(&kind.into(), job, 10, 3, at(starts_at));
        }
        assert_eq!(
            (gathering.missing(), gathering.next_due()),
            (1 + 2, Some(at(100)))
        );
        assert_eq!(gathering.take_due(Some(at(99))), [[0; 0]; 0]);
        assert_eq!(gathering.take_due(Some(at(100))), [[1, 2]]);
        assert_eq!(gathering.next_due(), Some(at(125)));
        // A job that must start soon takes its batch along.
        gathering.add(&"b".into(), 4, 10, 3, at(100));
        assert_eq!(gathering.take_due(Some(at(100))), [[3, 4]]);
        assert_eq!(gathering.next_due(), None);
    }
}
