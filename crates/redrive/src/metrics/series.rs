//! Identifies series by metric and labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::metrics::{CATALOGUE, Metric, MetricKind, Source};

/// Identifies a series: a metric and its label values.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    /// The index of the metric in the catalogue.
    index: usize,
    /// Shared, because the reader, the guard and the published samples all keep the labels.
    pub(crate) labels: Arc<[String]>,
}

/// The value of a series; see `Sample::numbers`.
pub(crate) type Numbers = Vec<f64>;

/// Values by series, in the order of the catalogue.
pub(crate) type Series = BTreeMap<Key, Numbers>;

impl Key {
    /// Returns a key, or `None` if the catalogue does not define the name or defines other labels.
    pub(crate) fn new(name: &str, labels: Vec<String>) -> Option<Key> {
        let index = CATALOGUE.iter().position(|metric| metric.name == name)?;
        let key = Key::at(index, labels);
        (key.metric().labels.len() == key.labels.len()).then_some(key)
    }

    /// Returns the key of a metric by its index in the catalogue.
    pub(crate) fn at(index: usize, labels: Vec<String>) -> Key {
        let labels = labels.into();
        Key { index, labels }
    }

    pub(crate) fn metric(&self) -> &'static Metric {
        &CATALOGUE[self.index]
    }

    pub(crate) fn source(&self) -> Source {
        self.metric().source
    }

    /// Returns the value of a label, or `None` if the metric has no such label.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        Some(&self.labels[self.place(name)?])
    }

    /// Sets the value of a label, if the metric has it.
    pub(crate) fn set_label(&mut self, name: &str, value: &str) {
        if let Some(place) = self.place(name) {
            value.clone_into(&mut Arc::make_mut(&mut self.labels)[place]);
        }
    }

    fn place(&self, label: &str) -> Option<usize> {
        self.metric().labels.iter().position(|l| l.name == label)
    }
}

/// Returns the zero value of a metric.
pub(crate) fn zero(metric: &Metric) -> Numbers {
    match metric.kind {
        MetricKind::Counter | MetricKind::Gauge => vec![0.0],
        MetricKind::Histogram(bounds) => vec![0.0; bounds.len() + 2],
    }
}

/// Returns a gauge and its value, or `None` if the catalogue does not define it.
pub(crate) fn gauge(name: &str, labels: &[&str], value: f64) -> Option<(Key, Numbers)> {
    let labels = labels.iter().map(|&label| label.to_owned()).collect();
    Some((Key::new(name, labels)?, vec![value]))
}
