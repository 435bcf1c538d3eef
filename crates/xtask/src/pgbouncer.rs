//! PgBouncer, the pooler that the tests put before their server.

use crate::packaged::Packaged;

/// The program.
pub(crate) const PGBOUNCER: Packaged = Packaged {
    program: "pgbouncer",
    variable: "PGBOUNCER",
    package: "pgbouncer",
    what_to_do: "Install PgBouncer, then run this again:
    Debian, Ubuntu   sudo apt-get install --no-install-recommends pgbouncer
    Fedora, RHEL     sudo dnf install pgbouncer
    macOS            brew install pgbouncer
or say where it is:
    PGBOUNCER=/path/to/pgbouncer cargo xtask ...",
};
