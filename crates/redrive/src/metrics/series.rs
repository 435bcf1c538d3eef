//! Identifies series by metric and labels.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

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
        let index = *indices().get(name)?;
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
        let index = self.metric().labels.iter().position(|l| l.name == name)?;
        Some(&self.labels[index])
    }

    /// Returns the key with another value for one label.
    pub(crate) fn with_label(self, name: &str, value: &str) -> Key {
        let named = self.metric().labels.iter().map(|label| label.name);
        let labels = named.zip(&*self.labels).map(|(label, old)| match label {
            label if label == name => value.to_owned(),
            _ => old.clone(),
        });
        Key {
            index: self.index,
            labels: labels.collect(),
        }
    }
}

fn indices() -> &'static HashMap<&'static str, usize> {
    static INDICES: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let named = CATALOGUE.iter().enumerate();
        named.map(|(index, metric)| (metric.name, index)).collect()
    });
    &INDICES
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
