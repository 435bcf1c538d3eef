//! The metrics as text, in the exposition format of Prometheus.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use prometheus::core::Desc;
use prometheus::proto::MetricFamily;
use prometheus::{Encoder as _, Registry, TextEncoder};
use redrive::metrics::{CATALOGUE, Family, Metric, to_proto};

/// Metrics as text. Clones share the text.
#[derive(Clone)]
pub(crate) struct Exposition(Arc<Vec<u8>>);

impl Exposition {
    /// The media type of the text.
    pub(crate) const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Returns the text.
    pub(crate) fn text(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposition")
            .field("bytes", &self.0.len())
            .finish()
    }
}

/// Renders families through a `prometheus` registry.
#[derive(Debug)]
pub(crate) struct Renderer {
    /// Locked for one gathering at a time.
    registry: Mutex<Registry>,
    current: CurrentFamilies,
}

impl Renderer {
    /// Creates a registry with every metric of the catalogue.
    pub(crate) fn new() -> Renderer {
        let registry = Registry::new();
        let current = CurrentFamilies::default();
        // A test registers the catalogue, so this cannot fail in a program that passed it.
        if let Err(error) = registry.register(Box::new(current.clone())) {
            log::error!("could not register the metrics: {error}");
        }
        Renderer {
            registry: Mutex::new(registry),
            current,
        }
    }

    /// Renders families. Leaves out a family that cannot be encoded, and logs it.
    pub(crate) fn render(&self, families: Vec<Family>) -> Exposition {
        let encoder = TextEncoder::new();
        let mut text = Vec::new();
        // One family at a time, each freed after it: they take up many times the space of the text.
        for family in self.gather(families) {
            let length = text.len();
            if let Err(error) = encoder.encode(&[family], &mut text) {
                log::error!("could not encode a metric: {error}");
                text.truncate(length);
            }
        }
        text.shrink_to_fit();
        Exposition(Arc::new(text))
    }

    fn gather(&self, families: Vec<Family>) -> Vec<MetricFamily> {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.current.set(families);
        registry.gather()
    }
}

/// The families that the next gathering takes.
#[derive(Clone, Debug, Default)]
struct CurrentFamilies(Arc<Mutex<Vec<Family>>>);

impl CurrentFamilies {
    fn set(&self, families: Vec<Family>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = families;
    }

    fn take(&self) -> Vec<Family> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl prometheus::core::Collector for CurrentFamilies {
    fn desc(&self) -> Vec<&Desc> {
        DESCRIPTIONS.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // One at a time, for the same reason.
        let families = self.take().into_iter();
        families.flat_map(|family| to_proto(&[family])).collect()
    }
}

static DESCRIPTIONS: LazyLock<Vec<Desc>> = LazyLock::new(|| {
    let describe = |metric: &Metric| {
        let labels = metric.labels.iter().map(|label| label.name.to_owned());
        Desc::new(
            metric.name.to_owned(),
            metric.help.to_owned(),
            labels.collect(),
            HashMap::new(),
        )
        .ok()
    };
    CATALOGUE.iter().filter_map(describe).collect()
});
