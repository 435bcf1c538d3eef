//! The forms of a function that handles jobs.

use std::sync::Arc;

use crate::job::failure::Failure;
use crate::job::job::Job;
use crate::job::payload::{Payload, read};
use crate::sync::Transaction;
use crate::worker::handlers::{Handler, HandlerOptions, in_transaction, single};

/// A function that handles jobs: `fn(&Job<P>) -> Result<(), Failure>`, where `P` is a [`Payload`].
///
/// It has one of four forms:
///
/// | parameters | |
/// |---|---|
/// | `&Job<P>` | |
/// | `&Job<P>, &mut Transaction<'_>` | runs in the transaction that also completes the job |
/// | `&S, &Job<P>` | with the state of [`Handlers::with`](crate::Handlers::with) |
/// | `&S, &Job<P>, &mut Transaction<'_>` | both |
///
/// A closure names the types of its parameters, because they tell the form.
///
/// # Transactions
///
/// What the handler writes with `postgres::Transaction` and the completion, which follows, commit together or not at all, so
/// effects in this database happen exactly once. Each of these jobs has its own lease and uses a pooled connection
/// while it runs. A queue with such handlers has no more slots than the pool has connections for, beside the
/// [five](crate::limits::WORKER_CONNECTIONS) of the worker and one for other calls, but at least one. If the handler
/// outlasts its deadline or the grace period of [`Worker::stop`](crate::Worker::stop), the server rolls its transaction
/// back. Use `SET LOCAL`: a setting without LOCAL stays on the connection, for the next job.
///
/// An attempt that cannot commit failed, for example because the handler ignored the error of a statement, ended the
/// transaction, made it read-only or violated a deferred constraint. One that gets no connection is not charged, nor,
/// ten times for each job at most, an outage of the database.
///
/// ```
/// use redrive::{Failure, Handlers, Job, Payload};
/// use postgres::Transaction;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)] struct Charge { order: i64 }
/// # impl Payload for Charge { const KIND: &'static str = "charge"; }
/// # #[derive(Serialize, Deserialize)] struct Mail { to: String }
/// # impl Payload for Mail { const KIND: &'static str = "mail"; }
///
/// fn charge(job: &Job<Charge>, tx: &mut Transaction<'_>) -> Result<(), Failure> {
///     tx.execute("UPDATE orders SET paid = true WHERE id = $1", &[&job.payload().order])?;
///     Ok(())
/// }
///
/// let handlers = Handlers::new().handle(charge).handle(|mail: &Job<Mail>| Ok(()));
/// assert_eq!(handlers.kinds().collect::<Vec<_>>(), ["charge", "mail"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "this does not handle jobs",
    label = "expected `fn(&Job<P>) -> Result<(), Failure>`, where `P: Payload`",
    note = "a closure names the types of all its parameters",
    note = "`&{S}`, the state of `Handlers::with`, may precede `&Job<P>`; `&mut postgres::Transaction<'_>` may follow"
)]
pub trait JobHandler<S, Form>: Sized {
    #[doc(hidden)]
    fn erase(self, state: &Arc<S>) -> Erased;
}

/// The kind that a handler handles. `None`: every kind without its own.
pub(super) type Handles = Option<String>;

/// A handler whose payload, state and form are known no more.
#[allow(missing_debug_implementations, reason = "nobody outside sees it")]
pub struct Erased(pub(super) Handles, pub(super) Handler);

/// In the form of a handler: it takes a transaction.
#[derive(Debug)]
pub struct InTransaction;

impl<S, P, F> JobHandler<S, (Job<P>,)> for F
where
    P: Payload + 'static,
    F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
{
    fn erase(self, _: &Arc<S>) -> Erased {
        let handler = single(HandlerOptions::of::<P>(), read, self);
        Erased(Some(P::KIND.to_owned()), handler)
    }
}

impl<S, P, F> JobHandler<S, (Job<P>, InTransaction)> for F
where
    P: Payload + 'static,
    F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    fn erase(self, _: &Arc<S>) -> Erased {
        Erased(Some(P::KIND.to_owned()), in_transaction(self))
    }
}

impl<S, P, F> JobHandler<S, (S, Job<P>)> for F
where
    S: Send + Sync + 'static,
    P: Payload + 'static,
    F: Fn(&S, &Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
{
    fn erase(self, state: &Arc<S>) -> Erased {
        let state = Arc::clone(state);
        JobHandler::erase(move |job: &Job<P>| self(&state, job), &Arc::new(()))
    }
}

impl<S, P, F> JobHandler<S, (S, Job<P>, InTransaction)> for F
where
    S: Send + Sync + 'static,
    P: Payload + 'static,
    F: Fn(&S, &Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    fn erase(self, state: &Arc<S>) -> Erased {
        let state = Arc::clone(state);
        let handler = move |job: &Job<P>, tx: &mut Transaction<'_>| self(&state, job, tx);
        JobHandler::erase(handler, &Arc::new(()))
    }
}
