//! The page of the exporter: it matches the catalogue, and promtool accepts it.

use std::io::Write as _;

use redrive::metrics::{CATALOGUE, MetricKind};
use redrive_tests::prelude::*;

use super::{PROGRAM, up};

/// The metrics that need replication slots.
const OF_SLOTS: &str = "redrive_pg_replication_slot_";

/// Returns the page of an exporter whose database has rows of every kind.
fn page() -> String {
    let (test, queue, mut client) = TestDatabase::with_session();
    queue.enqueue_many(&Order::up_to(3)).unwrap();
    work_off(&queue, |_: &Job<Order>| Ok(()));
    let call = "SELECT redrive.capture('kafka', '1', 'orders', 'k', '\\x7b7d', error_class => 'Timeout'); \
                SELECT redrive.set_rate_limit('orders', 1000); \
                SELECT redrive.schedule('hourly', 'orders', 'order', '{}', every => '1 hour')";
    client.sql(call);
    let exporter = Exporter::start(PROGRAM, test.url());
    up(&exporter);
    exporter.get("/metrics").text
}

#[test]
fn the_page_has_exactly_the_metrics_of_the_catalogue() {
    let expected = CATALOGUE.iter().map(|metric| {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        };
        format!("# TYPE {} {kind}", metric.name)
    });
    let page = page();
    let types = page.lines();
    let types = types.filter(|line| line.starts_with("# TYPE redrive_"));
    let is_always_there = |line: &String| !line.contains(OF_SLOTS);
    let types: BTreeSet<String> = types.map(str::to_owned).filter(is_always_there).collect();
    let expected: BTreeSet<String> = expected.filter(is_always_there).collect();
    let differing: Vec<_> = types.symmetric_difference(&expected).collect();
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn promtool_accepts_the_page() {
    let promtool = std::env::var_os("PROMTOOL").unwrap_or_else(|| "promtool".into());
    let mut checker = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run promtool, which comes with Prometheus; PROMTOOL names it");
    let mut stdin = checker.stdin.take().unwrap();
    stdin.write_all(page().as_bytes()).unwrap();
    drop(stdin);
    let output = checker.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
