//! HTTP, as much as an exporter needs, and bounded in every direction.
//!
//! `tiny_http` reads and writes the parts of messages. Its server is not used: its accept loop ends
//! for good when a connection cannot be accepted (descriptors are used up, a client is gone
//! already), it gives each connection a thread without a limit, waits for a request for ever, and
//! takes headers of any length. None of that can be bounded from outside, so the way in is ours:
//!
//! * [`Door`] accepts, never ends by an error, and lets in as many [`Visitors`] as there may be; when
//!   there are more, who dawdles has to leave, so that who comes with a question always gets in.
//! * [`visit`] gives each of them one question, 5 seconds and 16 KiB to ask it.
//!
//! Every connection is closed after its answer, which is one of HTTP/1.0: no keep-alive, no chunks,
//! no second request that could begin in the middle of the first.

mod door;
mod head;
mod visit;
mod visitors;

pub(crate) use door::Door;
pub(crate) use head::Head;
pub(crate) use visit::Answer;
