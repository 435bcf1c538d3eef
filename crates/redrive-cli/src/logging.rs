//! Log lines on stderr: warnings by default, more with `-v`, full control with `RUST_LOG`.

use std::io::Write as _;

use log::LevelFilter;

use crate::terminal::clean;

/// Starts logging. A second call in the same process changes nothing.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    let mut builder = env_logger::Builder::new();
    match std::env::var("RUST_LOG") {
        Ok(filters) => builder.parse_filters(&filters),
        // The driver logs payloads, so only RUST_LOG enables its lines.
        Err(_) => builder
            .filter_level(LevelFilter::Warn)
            .filter_module("redrive", level)
            .filter_module("redrive_cli", level),
    };
    builder.format(|line, record| {
        let style = line.default_level_style(record.level());
        let message = record.args().to_string();
        writeln!(
            line,
            "{} {style}{:<5}{style:#} {}",
            line.timestamp_seconds(),
            record.level(),
            clean(&message)
        )
    });
    // Fails when a logger is already installed, for instance by a test.
    _ = builder.try_init();
}
