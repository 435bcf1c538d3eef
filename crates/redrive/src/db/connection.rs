//! A connection, of the library's pool or of the user's, with its prepared statements.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use postgres::{Client, Statement};
use r2d2::{ManageConnection, PooledConnection};

use crate::db::deadline::CallDeadline;
use crate::job::wait::from_now;

/// How long closing a connection may wait for a silent server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection, with the type of its manager erased.
pub(crate) trait Connection: Send {
    fn client(&mut self) -> &mut Client;
    fn statements(&mut self) -> &mut Statements;

    /// The deadline of the calls on this connection. `None`: it cannot have one.
    fn deadline(&self) -> Option<&CallDeadline>;

    /// Keeps the pool from giving the connection to another call.
    fn discard(&mut self);
}

/// The statements prepared on a connection, stored with it.
#[derive(Default)]
pub(crate) struct Statements(pub(super) HashMap<&'static str, Statement>);

/// A connection that the library opened, with a deadline if it can have one.
pub(crate) struct OwnConnection {
    pub(super) client: Client,
    statements: Statements,
    deadline: Option<CallDeadline>,
    /// Whether the pool must not give it to another call.
    pub(super) is_discarded: bool,
}

impl OwnConnection {
    pub(crate) fn new(client: Client, deadline: Option<CallDeadline>) -> OwnConnection {
        OwnConnection {
            client,
            statements: Statements::default(),
            deadline,
            is_discarded: false,
        }
    }
}

/// It belongs to a pool while it is used.
impl<M> Connection for PooledConnection<M>
where
    M: ManageConnection<Connection = OwnConnection>,
{
    fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn statements(&mut self) -> &mut Statements {
        &mut self.statements
    }

    fn deadline(&self) -> Option<&CallDeadline> {
        self.deadline.as_ref()
    }

    fn discard(&mut self) {
        self.is_discarded = true;
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        if let Some(deadline) = &self.deadline {
            deadline.set(Some(from_now(CLOSE_TIMEOUT)));
        }
    }
}

/// A connection of the user's pool.
pub(crate) struct ForeignConnection<M: ManageConnection>(pub(crate) PooledConnection<M>);

impl<M> Connection for ForeignConnection<M>
where
    M: ManageConnection<Connection = Client>,
{
    fn client(&mut self) -> &mut Client {
        &mut self.0
    }

    fn statements(&mut self) -> &mut Statements {
        let extensions = PooledConnection::extensions_mut(&mut self.0);
        if extensions.get::<Statements>().is_none() {
            extensions.insert(Statements::default());
        }
        #[expect(clippy::expect_used, reason = "invariant: it was inserted just above")]
        extensions
            .get_mut::<Statements>()
            .expect("the statements of the connection")
    }

    fn deadline(&self) -> Option<&CallDeadline> {
        None
    }

    /// Only the server can close a connection of the user's pool, and in a transaction that failed it does nothing else.
    fn discard(&mut self) {
        const END: &str =
            "ROLLBACK; SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())";
        // The server's last word is an error. The driver may panic again.
        _ = catch_unwind(AssertUnwindSafe(|| self.client().batch_execute(END)));
    }
}
