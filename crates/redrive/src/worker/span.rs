//! The span around a handler, for programs that trace.

use tracing::span::EnteredSpan;

use crate::job::headers::TRACE_PARENT;
use crate::job::job::JobMeta;

/// Enters the span of an attempt, which the returned value leaves when it is dropped. Of a batch, it names
/// the first job.
pub(crate) fn enter(meta: &JobMeta, jobs: usize) -> EnteredSpan {
    let parent = meta.headers.0.get(TRACE_PARENT).map(String::as_str);
    tracing::info_span!(
        target: "redrive",
        "job",
        queue = &*meta.queue,
        kind = &*meta.kind,
        job = meta.id.get(),
        attempt = meta.attempt,
        jobs,
        traceparent = parent,
    )
    .entered()
}
