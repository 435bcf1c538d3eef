//! Log lines on stderr.

use std::io::Write as _;

use log::LevelFilter;

/// Starts logging; a second call in the same process changes nothing.
pub(crate) fn start(level: LevelFilter) {
    let mut builder = env_logger::Builder::new();
    builder
        // The driver's own lines are many, and of no use to whoever runs an exporter.
        .filter_level(level.min(LevelFilter::Warn))
        .filter_module("redrive", level)
        .filter_module("redrive_exporter", level)
        .format(|line, record| {
            let style = line.default_level_style(record.level());
            writeln!(
                line,
                "{} {style}{:<5}{style:#} {}",
                line.timestamp_seconds(),
                record.level(),
                // A line is a line, whatever a server says.
                record.args().to_string().escape_debug()
            )
        });
    // An error means that a logger is there already, a test's for instance.
    _ = builder.try_init();
}
