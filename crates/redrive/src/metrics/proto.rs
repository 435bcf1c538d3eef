//! Families as the `prometheus` crate has them.

use prometheus::proto;

use crate::metrics::{Family, Metric, MetricKind, Sample, Value};

/// The families as the `prometheus` crate encodes them, in the same order.
///
/// ```
/// use prometheus::{Encoder, TextEncoder};
/// use redrive::metrics::{Reader, to_proto};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let reading = Reader::new("1.0.0").unreachable();
/// let text = TextEncoder::new().encode_to_string(&to_proto(&reading.families))?;
/// assert!(text.contains("redrive_up 0\n"));
/// # Ok(()) }
/// ```
pub fn to_proto(families: &[Family]) -> Vec<proto::MetricFamily> {
    families.iter().map(family).collect()
}

fn family(family: &Family) -> proto::MetricFamily {
    let metric = family.metric;
    let mut told = proto::MetricFamily::default();
    told.set_name(metric.name.to_owned());
    told.set_help(metric.help.to_owned());
    told.set_field_type(match metric.kind {
        MetricKind::Counter => proto::MetricType::COUNTER,
        MetricKind::Gauge => proto::MetricType::GAUGE,
        MetricKind::Histogram(_) => proto::MetricType::HISTOGRAM,
    });
    let samples = family.samples.iter().map(|sample| value(metric, sample));
    told.set_metric(samples.collect());
    told
}

fn value(metric: &Metric, sample: &Sample) -> proto::Metric {
    let labels = metric.labels.iter().zip(&*sample.labels);
    let mut told = proto::Metric::from_label(
        labels
            .map(|(label, value)| {
                let mut pair = proto::LabelPair::default();
                pair.set_name(label.name.to_owned());
                pair.set_value(value.clone());
                pair
            })
            .collect(),
    );
    match (metric.kind, &sample.value) {
        (MetricKind::Counter, Value::Number(number)) => {
            let mut counter = proto::Counter::default();
            counter.set_value(*number);
            told.set_counter(counter);
        }
        (_, Value::Number(number)) => {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(*number);
            told.set_gauge(gauge);
        }
        (kind, Value::Buckets { counts, sum }) => {
            told.set_histogram(histogram(kind, counts, *sum));
        }
    }
    told
}

/// Cumulative, as it is scraped; the encoder adds the bucket without a bound.
fn histogram(kind: MetricKind, counts: &[u64], sum: f64) -> proto::Histogram {
    let bounds = match kind {
        MetricKind::Histogram(bounds) => bounds,
        MetricKind::Counter | MetricKind::Gauge => &[],
    };
    let mut below = 0;
    let buckets = bounds.iter().zip(counts).map(|(bound, count)| {
        below += count;
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(below);
        bucket
    });
    let mut told = proto::Histogram::default();
    told.set_bucket(buckets.collect());
    told.set_sample_count(counts.iter().sum());
    told.set_sample_sum(sum);
    told
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;
    use crate::metrics::CATALOGUE;

    fn told(name: &str, labels: &[&str], value: Value) -> String {
        let metric = CATALOGUE.iter().find(|metric| metric.name == name);
        let family = Family {
            metric: metric.expect("in the catalogue"),
            samples: vec![Sample {
                labels: labels.iter().map(|&label| label.to_owned()).collect(),
                value,
            }],
        };
        TextEncoder::new()
            .encode_to_string(&to_proto(&[family]))
            .expect("it can be told")
    }

    #[test]
    fn a_histogram_is_cumulative() {
        let mut counts = vec![0; 11];
        (counts[0], counts[1], counts[10]) = (5, 2, 1);
        let value = Value::Buckets { counts, sum: 40.0 };
        let text = told("redrive_job_attempts_to_success", &["mail"], value);
        for line in [
            "# TYPE redrive_job_attempts_to_success histogram",
            r#"redrive_job_attempts_to_success_bucket{queue="mail",le="1"} 5"#,
            r#"redrive_job_attempts_to_success_bucket{queue="mail",le="2"} 7"#,
            r#"redrive_job_attempts_to_success_bucket{queue="mail",le="25"} 7"#,
            r#"redrive_job_attempts_to_success_bucket{queue="mail",le="+Inf"} 8"#,
            r#"redrive_job_attempts_to_success_sum{queue="mail"} 40"#,
            r#"redrive_job_attempts_to_success_count{queue="mail"} 8"#,
        ] {
            assert!(
                text.lines().any(|told| told == line),
                "no `{line}` in\n{text}"
            );
        }
    }

    #[test]
    fn a_counter_is_one_and_its_labels_are_escaped() {
        let queue = "a\"b\\c";
        let text = told("redrive_jobs_enqueued_total", &[queue], Value::Number(3.0));
        assert!(
            text.contains("# TYPE redrive_jobs_enqueued_total counter"),
            "{text}"
        );
        let line = r#"redrive_jobs_enqueued_total{queue="a\"b\\c"} 3"#;
        assert!(text.lines().any(|told| told == line), "{text}");
    }
}
