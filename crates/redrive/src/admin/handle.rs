//! The handle through which operators list and change live jobs.

use crate::db::admin::Admin;
use crate::db::database::Database;

/// Lists live jobs and changes waiting ones in bulk. Returned by [`Admin::jobs`].
///
/// ```
/// use redrive::Operator;
/// use redrive::admin::{JobChange, JobFilter};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// let jobs = db.admin().jobs();
/// let urgent = JobFilter::new().queue("orders").kind("refund");
/// println!("{} refunds wait", jobs.count(&urgent)?.waiting());
/// let operator = Operator::new("maria@ops-1").reason("month end");
/// let changed = jobs.change(&urgent, JobChange::SetPriority(100), &operator)?;
/// println!("{} refunds run first", changed.ids.len());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    pub(crate) db: &'a Database,
}

impl<'a> Admin<'a> {
    /// Returns the handle that lists live jobs and changes waiting ones in bulk.
    pub fn jobs(&self) -> Jobs<'a> {
        Jobs { db: self.db }
    }
}
