//! The handle through which operators inspect and steer a running system.

use crate::db::database::Database;

/// Inspects and steers a running system. Returned by [`Database::admin`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// for queue in db.admin().stats(None)? {
///     println!("{}: {} ready, {} open letters", queue.queue, queue.ready, queue.open);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Admin<'a> {
    pub(crate) db: &'a Database,
}

impl Database {
    /// Returns the operator's view: live jobs, statistics, breakers and the audit log.
    pub fn admin(&self) -> Admin<'_> {
        Admin { db: self }
    }
}
