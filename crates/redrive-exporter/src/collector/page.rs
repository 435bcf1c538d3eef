//! The page of metrics, in the text format of Prometheus.

use std::fmt;
use std::sync::Arc;

use prometheus::{Encoder as _, TextEncoder};
use redrive::metrics::{Family, to_proto};

/// Metrics as text. A copy shares the text.
#[derive(Clone)]
pub(crate) struct Page(Arc<Vec<u8>>);

impl Page {
    /// The type of its content.
    pub(crate) const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Writes down families; one that cannot be written is left out, and said.
    pub(crate) fn of(families: Vec<Family>) -> Page {
        let encoder = TextEncoder::new();
        let mut text = Vec::new();
        // One family at a time, and gone after that: they take up many times the space of the text.
        for family in families {
            if family.samples.is_empty() {
                continue;
            }
            let before = text.len();
            let family = to_proto(&[family]);
            if let Err(error) = encoder.encode(&family, &mut text) {
                log::error!("a metric cannot be written: {error}");
                text.truncate(before);
            }
        }
        text.shrink_to_fit();
        Page(Arc::new(text))
    }

    /// The text.
    pub(crate) fn text(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("bytes", &self.0.len())
            .finish()
    }
}
