//! Logs the settings that let the server lose committed data.

use crate::db::caller::DbCaller;
use crate::db::durability::lapses;
use crate::worker::retry::call_timeout;
use crate::worker::state::State;

/// Logs each durability warning. A failed check does not stop the worker.
pub(crate) fn mention(state: &State, db_caller: &mut DbCaller) {
    let doing = "read the durability settings";
    match db_caller.call(doing, call_timeout(state), lapses) {
        Ok(lapses) => {
            for lapse in lapses {
                log::warn!("{state}: {lapse}");
            }
        }
        Err(error) => log::debug!("{state}: {error:#}"),
    }
}
