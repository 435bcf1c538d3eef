//! Releases the groups that letters hold during a drain, so that the jobs behind them run.

use postgres::Client;
use redrive::{Operator, Queue};

use super::Environment;
use crate::history::ClientLog;
use crate::role::groups::HELD;
use crate::role::operator;

/// The name of the client.
const NAME: &str = "releaser";

/// A client that releases groups.
pub(super) struct Releaser {
    log: ClientLog,
    queue: Queue,
}

impl Releaser {
    pub(super) fn open(env: &Environment) -> Releaser {
        let url = format!("{}&application_name={NAME}", env.server.url());
        let db = redrive::connect(&url).expect("connect");
        Releaser {
            log: env.log(NAME),
            queue: Queue::new(&db, HELD).expect("a valid name"),
        }
    }

    /// Releases the groups in which jobs wait behind a letter.
    pub(super) fn release_all(&self, client: &mut Client) {
        let query = "SELECT group_key FROM redrive.held_groups WHERE queue = $1 AND waiting > 0";
        let held = client.query(query, &[&HELD]).expect("read the held groups");
        for row in held {
            let operator = Operator::new(NAME).reason("the drain");
            operator::release(&self.log, &self.queue, row.get(0), &operator);
        }
    }
}
