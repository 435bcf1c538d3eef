//! The exporter, unchanged.

use std::ffi::OsString;
use std::io;

use crate::role::Options;

pub(super) fn run(options: &Options) {
    let address = format!("127.0.0.1:{}", options.spec.port);
    let arguments = [
        "exporter",
        "--web.listen-address",
        &address,
        "--database-url",
        &options.named_url(),
    ];
    // Its exit code and its output do not matter: the checker reads its page.
    _ = redrive_exporter::run(
        arguments.map(OsString::from),
        &mut io::sink(),
        &mut io::sink(),
    );
}
