//! Keep: what remains of a finished job, for a time that its handler chooses.

use std::time::{Duration, SystemTime};

use crate::db::run::Run;
use crate::db::sql;
use crate::error::Result;
use crate::job::milliseconds::milliseconds;
use crate::pipeline::settlement::Settlement;

/// The shortest and the longest time.
pub(crate) const KEEP: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(30 * 24);

/// Stores the finished jobs that are to be kept.
pub(crate) fn store<'a>(
    session: &mut dyn Run,
    doing: &str,
    written: impl IntoIterator<Item = &'a Settlement>,
) -> Result<()> {
    let kept: Vec<(&Settlement, Duration)> = written
        .into_iter()
        .filter_map(|one| Some((one, one.kept_for()?)))
        .collect();
    if kept.is_empty() {
        return Ok(());
    }
    let metas = || kept.iter().map(|(one, _)| &one.meta);
    let queues: Vec<&str> = metas().map(|meta| &*meta.queue).collect();
    let ids: Vec<i64> = metas().map(|meta| meta.id.get()).collect();
    let kinds: Vec<&str> = metas().map(|meta| &*meta.kind).collect();
    let priorities: Vec<i16> = metas().map(|meta| meta.priority).collect();
    let attempts: Vec<i32> = metas().map(|meta| meta.attempt.cast_signed()).collect();
    let budgets: Vec<i32> = metas()
        .map(|meta| meta.max_attempts.cast_signed())
        .collect();
    let generations: Vec<i32> = metas().map(|meta| meta.generation.cast_signed()).collect();
    let enqueued: Vec<SystemTime> = metas().map(|meta| meta.enqueued_at).collect();
    let ran: Vec<i64> = kept
        .iter()
        .map(|(one, _)| milliseconds(one.run_time))
        .collect();
    let keep: Vec<i64> = kept.iter().map(|(_, keep)| milliseconds(*keep)).collect();
    session.run(
        doing,
        &sql::KEEP_DONE,
        &[
            &queues,
            &ids,
            &kinds,
            &priorities,
            &attempts,
            &budgets,
            &generations,
            &enqueued,
            &ran,
            &keep,
        ],
    )?;
    Ok(())
}
