//! Mutants.

use crate::proxy::Patch;

/// The ring turns at a small size.
pub(crate) fn quick_ring() -> Patch {
    Patch {
        statement: "turn_ring",
        from: "redrive.turn_ring($1, $2)",
        to: "redrive.turn_ring($1::bigint / 256, $2)",
    }
}
