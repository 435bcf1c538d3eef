//! Log lines on stderr: warnings by default, more with `-v`, anything with `RUST_LOG`.

use std::io::Write as _;

use log::LevelFilter;

use crate::render::clean;

/// Starts logging; a second call in the same process changes nothing.
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
        // The driver's own lines are many, and show payloads: only RUST_LOG turns them on.
        Err(_) => builder
            .filter_level(LevelFilter::Warn)
            .filter_module("redrive", level)
            .filter_module("redrive_cli", level),
    };
    builder.format(|line, record| {
        let style = line.default_level_style(record.level());
        let told = record.args().to_string();
        writeln!(
            line,
            "{} {style}{:<5}{style:#} {}",
            line.timestamp_seconds(),
            record.level(),
            clean(&told)
        )
    });
    // An error means that a logger is there already, a test's for instance.
    _ = builder.try_init();
}
