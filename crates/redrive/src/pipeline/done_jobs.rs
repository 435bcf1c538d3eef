//! Keep: what remains of a finished job, for a time that its handler chooses.

use std::time::Duration;

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
    let attempts = metas().map(|meta| meta.attempt.cast_signed());
    let budgets = metas().map(|meta| meta.max_attempts.cast_signed());
    let generations = metas().map(|meta| meta.generation.cast_signed());
    let ran = kept.iter().map(|(one, _)| milliseconds(one.run_time));
    let keep = kept.iter().map(|(_, keep)| milliseconds(*keep));
    session.run(
        doing,
        &sql::KEEP_DONE,
        &[
            &metas().map(|meta| &*meta.queue).collect::<Vec<&str>>(),
            &metas().map(|meta| meta.id.get()).collect::<Vec<i64>>(),
            &metas().map(|meta| &*meta.kind).collect::<Vec<&str>>(),
            &metas().map(|meta| meta.priority).collect::<Vec<i16>>(),
            &attempts.collect::<Vec<i32>>(),
            &budgets.collect::<Vec<i32>>(),
            &generations.collect::<Vec<i32>>(),
            &metas().map(|meta| meta.enqueued_at).collect::<Vec<_>>(),
            &ran.collect::<Vec<i64>>(),
            &keep.collect::<Vec<i64>>(),
        ],
    )?;
    Ok(())
}
