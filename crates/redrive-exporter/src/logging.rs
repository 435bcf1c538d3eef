//! Log lines on stderr.

use std::io::Write as _;

use log::LevelFilter;

/// Starts logging. A second call in the same process has no effect.
pub(crate) fn start(level: LevelFilter) {
    let mut builder = env_logger::Builder::new();
    builder
        // Below warnings, only our own lines: the driver logs every statement.
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
                // A server's message may contain newlines.
                record.args().to_string().escape_debug()
            )
        });
    // Fails if the process has a logger already, for example a test's.
    _ = builder.try_init();
}
