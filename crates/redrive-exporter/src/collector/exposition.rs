//! The metrics as text, in the exposition format of Prometheus.

use std::sync::Arc;

use prometheus::{Encoder as _, TextEncoder};
use redrive::metrics::{Family, to_proto};

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Renders families in the order of their names. Leaves out a family that cannot be encoded, and logs it.
pub(crate) fn render(mut families: Vec<Family>) -> Arc<Vec<u8>> {
    families.sort_by_key(|family| family.metric.name);
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    // One family at a time, each freed after it: they take up many times the space of the text.
    for family in families {
        let length = text.len();
        if let Err(error) = encoder.encode(&to_proto(&[family]), &mut text) {
            log::error!("could not encode a metric: {error}");
            text.truncate(length);
        }
    }
    text.shrink_to_fit();
    Arc::new(text)
}
