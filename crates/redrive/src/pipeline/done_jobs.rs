//! Keep: what remains of a finished job, for a time that its handler chooses.

use std::time::Duration;

use crate::db::run::{Run, values_of};
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
    let all = &kept[..];
    session.run(
        doing,
        &sql::KEEP_DONE,
        &[
            &values_of(all, |(one, _)| &*one.meta.queue),
            &values_of(all, |(one, _)| one.meta.id.get()),
            &values_of(all, |(one, _)| &*one.meta.kind),
            &values_of(all, |(one, _)| one.meta.priority),
            &values_of(all, |(one, _)| one.meta.attempt.cast_signed()),
            &values_of(all, |(one, _)| one.meta.max_attempts.cast_signed()),
            &values_of(all, |(one, _)| one.meta.generation.cast_signed()),
            &values_of(all, |(one, _)| one.meta.enqueued_at),
            &values_of(all, |(one, _)| milliseconds(one.run_time)),
            &values_of(all, |(_, keep)| milliseconds(*keep)),
        ],
    )?;
    Ok(())
}
