//! Until the library's reader is merged: the same signatures.
use std::time::Duration;

use redrive::metrics::{CATALOGUE, Family, Sample, Value};
use redrive::postgres::Client;

#[derive(Clone, Debug)]
pub(crate) struct Reader {
    version: String,
    queues: f64,
    is_good: bool,
}

#[derive(Debug)]
pub(crate) struct Reading {
    pub families: Vec<Family>,
    pub is_connected: bool,
    is_ready: bool,
}

impl Reading {
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }
}

impl Reader {
    pub(crate) fn new(version: &str) -> Reader {
        Reader {
            version: version.to_owned(),
            queues: 0.0,
            is_good: false,
        }
    }

    pub(crate) fn read(&mut self, client: &mut Client, budget: Duration) -> Reading {
        let limit = format!("SET statement_timeout = {}", budget.as_millis().max(1));
        let up = client.batch_execute(&limit).is_ok();
        let known = client
            .query_one("SELECT to_regclass('redrive.jobs') IS NOT NULL", &[])
            .is_ok_and(|row| row.get(0));
        self.is_good = false;
        if known
            && let Ok(row) = client.query_one(
                "SELECT count(*) FROM (SELECT FROM redrive.jobs LIMIT 10000) s",
                &[],
            )
        {
            self.is_good = true;
            self.queues = u32::try_from(row.get::<_, i64>(0)).map_or(0.0, f64::from);
        }
        let is_connected = !client.is_closed();
        Reading {
            is_connected,
            is_ready: up && known,
            families: self.families(up && is_connected),
        }
    }

    pub(crate) fn unreachable(&mut self) -> Reading {
        self.is_good = false;
        Reading {
            is_connected: false,
            is_ready: false,
            families: self.families(false),
        }
    }

    fn families(&self, up: bool) -> Vec<Family> {
        let flag = |is: bool| f64::from(u8::from(is));
        let of = |name: &str, labels: &[&str], value| Family {
            metric: CATALOGUE
                .iter()
                .find(|m| m.name == name)
                .expect("in the catalogue"),
            samples: vec![Sample {
                labels: labels.iter().map(|&l| l.to_owned()).collect(),
                value: Value::Number(value),
            }],
        };
        vec![
            of("redrive_queue_jobs", &["orders", "ready"], self.queues),
            of("redrive_up", &[], flag(up)),
            of("redrive_exporter_build_info", &[&self.version], 1.0),
            of("redrive_collector_success", &["queues"], flag(self.is_good)),
        ]
    }
}

pub(crate) fn to_proto(families: &[Family]) -> Vec<prometheus::proto::MetricFamily> {
    use prometheus::proto;
    families
        .iter()
        .map(|family| {
            let mut out = proto::MetricFamily::default();
            out.set_name(family.metric.name.to_owned());
            out.set_help(family.metric.help.to_owned());
            out.set_field_type(proto::MetricType::GAUGE);
            let metrics = family.samples.iter().map(|sample| {
                let mut metric = proto::Metric::default();
                let labels = family
                    .metric
                    .labels
                    .iter()
                    .zip(&sample.labels)
                    .map(|(l, v)| {
                        let mut pair = proto::LabelPair::default();
                        pair.set_name(l.name.to_owned());
                        pair.set_value(v.clone());
                        pair
                    });
                metric.set_label(labels.collect());
                let mut gauge = proto::Gauge::default();
                if let Value::Number(value) = sample.value {
                    gauge.set_value(value);
                }
                metric.set_gauge(gauge);
                metric
            });
            out.set_metric(metrics.collect());
            out
        })
        .collect()
}
