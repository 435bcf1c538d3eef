//! The exporter, as it is.

use std::ffi::OsString;
use std::io;

use crate::actor::Options;

pub(super) fn run(options: &Options) {
    let address = format!("127.0.0.1:{}", options.port);
    let arguments = [
        "exporter",
        "--web.listen-address",
        &address,
        "--database-url",
        &options.address(),
    ];
    // It may be told to end, which is what it is for; and what it says goes nowhere.
    _ = redrive_exporter::run(
        arguments.map(OsString::from),
        &mut io::sink(),
        &mut io::sink(),
    );
}
