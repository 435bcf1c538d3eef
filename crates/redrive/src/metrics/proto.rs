//! Converts metrics to the types of the `prometheus` crate.

use prometheus::proto;

use crate::metrics::{MetricKind, Sample};

/// Converts samples to the types of the `prometheus` crate, in the same order. Those of a metric must stand together.
///
/// ```
/// use prometheus::{Encoder, TextEncoder};
/// use redrive::metrics::{Reader, to_proto};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let reading = Reader::new("1.0.0").unreachable();
/// let text = TextEncoder::new().encode_to_string(&to_proto(&reading.samples))?;
/// assert!(text.contains("redrive_up 0\n"));
/// # Ok(()) }
/// ```
pub fn to_proto(samples: &[Sample]) -> Vec<proto::MetricFamily> {
    let families = samples.chunk_by(|one, next| one.metric.name == next.metric.name);
    families.map(family).collect()
}

/// Converts the samples of a metric, of which there is one at least.
fn family(samples: &[Sample]) -> proto::MetricFamily {
    let metric = samples[0].metric;
    let mut result = proto::MetricFamily::default();
    result.set_name(metric.name.to_owned());
    result.set_help(metric.help.to_owned());
    result.set_field_type(match metric.kind {
        MetricKind::Counter => proto::MetricType::COUNTER,
        MetricKind::Gauge => proto::MetricType::GAUGE,
        MetricKind::Histogram(_) => proto::MetricType::HISTOGRAM,
    });
    result.set_metric(samples.iter().map(value).collect());
    result
}

fn value(sample: &Sample) -> proto::Metric {
    let labels = sample.metric.labels.iter().zip(&*sample.labels);
    let pairs = labels.map(|(label, value)| {
        let mut pair = proto::LabelPair::default();
        pair.set_name(label.name.to_owned());
        pair.set_value(value.clone());
        pair
    });
    let mut result = proto::Metric::from_label(pairs.collect());
    let number = sample.numbers.first().copied().unwrap_or_default();
    match sample.metric.kind {
        MetricKind::Counter => {
            let mut counter = proto::Counter::default();
            counter.set_value(number);
            result.set_counter(counter);
        }
        MetricKind::Gauge => {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(number);
            result.set_gauge(gauge);
        }
        MetricKind::Histogram(bounds) => result.set_histogram(histogram(bounds, &sample.numbers)),
    }
    result
}

/// Converts the counts to cumulative ones. The encoder adds the `+Inf` bucket.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the counts are whole numbers"
)]
fn histogram(bounds: &[f64], numbers: &[f64]) -> proto::Histogram {
    let (sum, counts) = numbers.split_last().unwrap_or((&0.0, &[]));
    let mut cumulative = 0.0_f64;
    let buckets = bounds.iter().zip(counts).map(|(bound, count)| {
        cumulative += count;
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(cumulative as u64);
        bucket
    });
    let mut result = proto::Histogram::default();
    result.set_bucket(buckets.collect());
    result.set_sample_count(counts.iter().sum::<f64>() as u64);
    result.set_sample_sum(*sum);
    result
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;
    use crate::metrics::CATALOGUE;

    #[test]
    fn histogram_buckets_are_cumulative() {
        let name = "redrive_job_attempts_to_success";
        let metric = CATALOGUE.iter().find(|metric| metric.name == name);
        let mut numbers = vec![0.0; 12];
        (numbers[0], numbers[1], numbers[10], numbers[11]) = (5.0, 2.0, 1.0, 40.0);
        let sample = Sample {
            metric: metric.expect("in the catalogue"),
            labels: ["mail".to_owned()].into(),
            numbers,
        };
        let text = TextEncoder::new().encode_to_string(&to_proto(&[sample]));
        let text = text.expect("valid metrics");
        for line in [
            r#"redrive_job_attempts_to_success_bucket{queue="mail",le="1"} 5"#,
            r#"redrive_job_attempts_to_success_bucket{queue="mail",le="2"} 7"#,
            r#"redrive_job_attempts_to_success_bucket{queue="mail",le="25"} 7"#,
            r#"redrive_job_attempts_to_success_bucket{queue="mail",le="+Inf"} 8"#,
            r#"redrive_job_attempts_to_success_sum{queue="mail"} 40"#,
            r#"redrive_job_attempts_to_success_count{queue="mail"} 8"#,
        ] {
            let is_there = text.lines().any(|found| found == line);
            assert!(is_there, "no `{line}` in\n{text}");
        }
    }
}
