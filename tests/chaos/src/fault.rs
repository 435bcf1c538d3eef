//! The faults there are.

use std::fmt;

use clap::ValueEnum;

/// What can be done to the actors, to what is between, and to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Fault {
    /// SIGKILL of a worker
    Kill,
    /// SIGSTOP of a worker for longer than its lease
    Pause,
    /// SIGTERM of a worker: a graceful stop
    Terminate,
    /// SIGKILL of an enqueuer or operator
    KillClient,
    /// Connections of an actor are closed
    Cut,
    /// Connections of all actors are refused
    Refuse,
    /// Everything between actors and the server is slow
    Delay,
    /// A byte at a time between an actor and the server
    Slice,
    /// The server's half of the connections of an actor ends
    HalfClose,
    /// Answers to an actor are lost after the server has committed
    LoseAnswers,
    /// Connections of an actor are taken and never answered
    Silence,
    /// The server crashes (`pg_ctl stop -m immediate`) and starts again
    Crash,
    /// SIGKILL of a backend of the server
    KillBackend,
    /// SIGSTOP of the server and all its backends
    Freeze,
    /// Somebody locks the tables
    Lock,
    /// Somebody takes all connections of the server
    Connections,
    /// The disk of the server's log is full
    DiskFull,
    /// A standby that is behind takes over
    Promote,
    /// Everything dies at once
    RestartAll,
    /// The clock of a worker is a year off
    FakeClock,
}

impl Fault {
    /// How long it lasts, in milliseconds: from, to. None lasts where it is over at once.
    pub(crate) fn lasts(self) -> std::ops::Range<u64> {
        match self {
            Fault::Pause => 3500..6000,
            Fault::Refuse | Fault::Lock => 300..4000,
            Fault::Delay | Fault::Slice => 500..2500,
            Fault::Silence | Fault::Freeze => 500..6000,
            Fault::Crash => 100..4500,
            Fault::Connections | Fault::DiskFull => 500..3000,
            Fault::Promote => 300..1500,
            Fault::RestartAll => 100..2000,
            Fault::Kill
            | Fault::Terminate
            | Fault::KillClient
            | Fault::Cut
            | Fault::HalfClose
            | Fault::LoseAnswers
            | Fault::KillBackend
            | Fault::FakeClock => 0..1,
        }
    }

    /// How often it comes, beside the others.
    pub(crate) fn weight(self) -> u32 {
        match self {
            Fault::Kill | Fault::LoseAnswers => 6,
            Fault::Pause | Fault::Terminate | Fault::Cut => 4,
            Fault::Crash | Fault::KillBackend | Fault::Silence => 3,
            Fault::Promote => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.write_str(value.get_name()),
            None => write!(f, "{self:?}"),
        }
    }
}
