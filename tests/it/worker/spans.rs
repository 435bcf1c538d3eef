//! The feature `tracing`: a span around each handler, and the trace of a job in those that follow it.

use std::fmt::{Debug, Write as _};

use redrive_tests::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What a tracer saw, one text each.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, text: String) -> u64 {
        let mut seen = self.0.lock().unwrap();
        seen.push(text);
        seen.len() as u64
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a String cannot fail.
        _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Seen {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        Id::from_u64(self.note(fields.0))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata().target().to_owned());
    }

    fn enter(&self, span: &Id) {
        self.note(format!("enter {}", span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        self.note(format!("exit {}", span.into_u64()));
    }
}

#[test]
fn each_handler_runs_in_a_span_and_follow_ups_continue_the_trace() {
    let seen = Seen::default();
    tracing::subscriber::set_global_default(seen.clone()).unwrap();
    let (_test, queue) = TestDatabase::with_orders();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let order = new_order(1).header("traceparent", trace);
    let id = put(&queue, order.header("tracestate", "a=1"));
    let worker = worker(&queue)
        .slots(1)
        .handle(|job: &Job<Order>| {
            tracing::info!(target: "shop", "inside");
            job.then(NewJob::raw("receipt", "{}")?)?;
            Ok(job.then(NewJob::raw("other", "{}")?.header("traceparent", "own"))?)
        })
        .handle_kind("receipt", |job| {
            assert_eq!(job.headers()["tracestate"], "a=1");
            Ok(())
        })
        .handle_kind("other", |job| {
            assert!(!job.headers().contains_key("tracestate"));
            Ok(())
        })
        .handle_batch(BatchOptions::new(2), |_: &Batch<Finish>| Ok(()))
        .started();
    drained(&queue);
    queue.enqueue_many(&[Finish {}; 2]).unwrap();
    finish(&queue, worker);
    let seen = seen.0.lock().unwrap();
    let of_order = format!(
        "job queue=\"orders\" kind=\"order\" job={id} attempt=1 jobs=1 traceparent=\"{trace}\""
    );
    let at = seen.iter().position(|text| *text == of_order);
    let at = at.unwrap_or_else(|| panic!("{of_order} in {seen:#?}"));
    let span = at + 1;
    let inside = seen[at + 1..at + 4].join(", ");
    assert_eq!(inside, format!("enter {span}, shop, exit {span}"));
    for (kind, more) in [
        ("receipt", format!("jobs=1 traceparent={trace:?}")),
        ("other", "jobs=1 traceparent=\"own\"".to_owned()),
        ("finish", "jobs=2".to_owned()),
    ] {
        let is_it =
            |text: &&String| text.contains(&format!("kind={kind:?}")) && text.ends_with(&more);
        assert_eq!(seen.iter().filter(is_it).count(), 1, "{kind}: {seen:#?}");
    }
}
