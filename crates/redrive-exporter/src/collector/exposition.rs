//! The metrics as text, in the exposition format of Prometheus.

use std::sync::Arc;

use prometheus::{Encoder as _, TextEncoder};
use redrive::metrics::{Sample, to_proto};

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Renders samples in the order of the names of their metrics. Leaves out a metric that cannot be encoded, and logs it.
pub(crate) fn render(mut samples: Vec<Sample>) -> Arc<Vec<u8>> {
    samples.sort_by_key(|sample| sample.metric.name);
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    // One metric at a time: all together, they take up many times the space of the text.
    for of_metric in samples.chunk_by(|one, next| one.metric.name == next.metric.name) {
        let length = text.len();
        if let Err(error) = encoder.encode(&to_proto(of_metric), &mut text) {
            log::error!("could not encode a metric: {error}");
            text.truncate(length);
        }
    }
    text.shrink_to_fit();
    Arc::new(text)
}
