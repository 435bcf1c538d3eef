//! The programs of Prometheus.

use crate::packaged::Packaged;

/// It checks and tests rules, configurations and pages of metrics.
pub(crate) const PROMTOOL: Packaged = Packaged {
    program: "promtool",
    variable: "PROMTOOL",
    package: "prometheus",
    what_to_do: WHAT_TO_DO,
};

/// The server, with which `promtool` comes.
pub(crate) const PROMETHEUS: Packaged = Packaged {
    program: "prometheus",
    variable: "PROMETHEUS",
    package: "prometheus",
    what_to_do: WHAT_TO_DO,
};

const WHAT_TO_DO: &str = "Install Prometheus, then run this again:
    Debian, Ubuntu   sudo apt-get install --no-install-recommends prometheus
    macOS            brew install prometheus
    elsewhere        unpack a release of prometheus.io: it holds `prometheus` and `promtool`
or say where its programs are:
    PROMTOOL=/path/to/promtool PROMETHEUS=/path/to/prometheus cargo xtask ...";
