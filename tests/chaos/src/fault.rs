//! The kinds of faults.

use std::fmt;

use clap::ValueEnum;

/// A fault of a process, of the network or of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Fault {
    /// SIGKILL of a worker
    Kill,
    /// SIGSTOP of all workers but one for longer than their leases
    Pause,
    /// SIGTERM of a worker: a graceful stop
    Terminate,
    /// SIGKILL of an enqueuer or operator
    KillClient,
    /// Close all connections of a process
    Cut,
    /// Refuse the connections of all processes
    Refuse,
    /// Slow down the network between all processes and the server
    Delay,
    /// Deliver one byte at a time to and from a process
    Slice,
    /// Close the server's half of the connections of a process
    HalfClose,
    /// Drop answers to a process after the server committed
    LoseAnswers,
    /// Accept the connections of a process, but never answer
    Silence,
    /// Crash the server (`pg_ctl stop -m immediate`) and restart it
    Crash,
    /// SIGKILL of one of the server's backends
    KillBackend,
    /// SIGSTOP of the server and all its backends
    Freeze,
    /// Lock a table exclusively
    Lock,
    /// Use up all connections of the server
    Connections,
    /// Fill the disk of the write-ahead log
    DiskFull,
    /// Fail over to a standby that lags behind
    Promote,
    /// Kill all processes and crash the server
    RestartAll,
    /// Restart a worker with its clock a year ahead
    FakeClock,
}

impl Fault {
    /// Returns the range of its duration in milliseconds; `0..1` for instantaneous faults.
    pub(crate) fn duration(self) -> std::ops::Range<u64> {
        match self {
            // Two leases: the other worker runs the jobs before the handlers end.
            Fault::Pause => 5500..8000,
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

    /// Returns its frequency relative to other faults.
    pub(crate) fn weight(self) -> u32 {
        match self {
            Fault::Pause => 8,
            Fault::Kill | Fault::LoseAnswers => 6,
            Fault::Terminate | Fault::Cut => 4,
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
