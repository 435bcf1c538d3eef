//! Series: values by metric and labels, between the answers of the database and the families.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use crate::metrics::{CATALOGUE, Family, Metric, MetricKind, Sample, Source, Value};

/// One series: which metric (its place in the catalogue) and the values of its labels.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    place: usize,
    /// Shared: a key is kept by the last answer, by the guard and on the page.
    pub(crate) labels: Arc<[String]>,
}

/// Series with their values, in the order of the catalogue.
pub(crate) type Series = BTreeMap<Key, Value>;

impl Key {
    /// A series of a metric of the catalogue; none when the name is not in it, or when it has other
    /// labels there: a newer schema may know more than we do.
    pub(crate) fn new(name: &str, labels: Vec<String>) -> Option<Key> {
        let place = *places().get(name)?;
        let key = Key::at(place, labels);
        (key.metric().labels.len() == key.labels.len()).then_some(key)
    }

    /// The series of a metric, by its place in the catalogue.
    pub(crate) fn at(place: usize, labels: Vec<String>) -> Key {
        let labels = labels.into();
        Key { place, labels }
    }

    pub(crate) fn metric(&self) -> &'static Metric {
        &CATALOGUE[self.place]
    }

    pub(crate) fn source(&self) -> Source {
        self.metric().source
    }

    /// The value of a label; none when the metric has no such label.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        let index = self.metric().labels.iter().position(|l| l.name == name)?;
        Some(&self.labels[index])
    }

    /// The same series under another value of a label.
    pub(crate) fn with_label(self, name: &str, value: &str) -> Key {
        let named = self.metric().labels.iter().map(|label| label.name);
        let labels = named.zip(&*self.labels).map(|(label, old)| match label {
            label if label == name => value.to_owned(),
            _ => old.clone(),
        });
        Key {
            place: self.place,
            labels: labels.collect(),
        }
    }
}

fn places() -> &'static HashMap<&'static str, usize> {
    static PLACES: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let named = CATALOGUE.iter().enumerate();
        named.map(|(place, metric)| (metric.name, place)).collect()
    });
    &PLACES
}

/// Nothing, as a value of this metric.
pub(crate) fn zero(metric: &Metric) -> Value {
    match metric.kind {
        MetricKind::Counter | MetricKind::Gauge => Value::Number(0.0),
        MetricKind::Histogram(bounds) => Value::Buckets {
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        },
    }
}

/// The families of these series, in the order of the catalogue.
pub(crate) fn families(series: Series) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for (key, value) in series {
        let metric = key.metric();
        let sample = Sample {
            labels: key.labels,
            value,
        };
        match families.last_mut() {
            Some(family) if family.metric.name == metric.name => family.samples.push(sample),
            Some(_) | None => families.push(Family {
                metric,
                samples: vec![sample],
            }),
        }
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_one_of_the_catalogue_or_none() {
        let labels = |n| vec!["a".to_owned(); n];
        assert!(Key::new("redrive_jobs_enqueued_total", labels(1)).is_some());
        for (name, count) in [
            ("redrive_jobs_enqueued_total", 0),
            ("redrive_jobs_enqueued_total", 2),
            ("redrive_no_such_thing", 1),
        ] {
            assert_eq!(Key::new(name, labels(count)), None, "{name} {count}");
        }
    }

    #[test]
    fn families_come_in_the_order_of_the_catalogue() {
        let mut series = Series::new();
        for (name, label) in [
            ("redrive_queue_live_jobs", "b"),
            ("redrive_jobs_enqueued_total", "b"),
            ("redrive_jobs_enqueued_total", "a"),
        ] {
            let key = Key::new(name, vec![label.to_owned()]).expect("in the catalogue");
            series.insert(key, Value::Number(1.0));
        }
        let told: Vec<_> = families(series)
            .into_iter()
            .map(|family| {
                let labels = family.samples.iter().map(|s| s.labels[0].clone());
                (family.metric.name, labels.collect::<String>())
            })
            .collect();
        assert_eq!(
            told,
            [
                ("redrive_jobs_enqueued_total", "ab".to_owned()),
                ("redrive_queue_live_jobs", "b".to_owned())
            ]
        );
    }
}
