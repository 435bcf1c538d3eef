//! The kinds of faults.

use std::fmt;
use std::ops::Range;

use clap::ValueEnum;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident: $duration:expr, weight $weight:literal;)+) => {
        /// A fault of a process, of the network or of the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
        pub(crate) enum Fault { $($(#[$doc])* $name,)+ }

        impl Fault {
            /// Returns the range of its duration in milliseconds; `0..1` for instantaneous faults.
            pub(crate) fn duration(self) -> Range<u64> {
                match self { $(Fault::$name => $duration,)+ }
            }

            /// Returns its frequency relative to other faults.
            pub(crate) fn weight(self) -> usize {
                match self { $(Fault::$name => $weight,)+ }
            }
        }
    };
}

faults! {
    /// SIGKILL of a worker
    Kill: 0..1, weight 6;
    // Two leases: the other worker runs the jobs before the handlers end.
    /// SIGSTOP of all workers but one for longer than their leases
    Pause: 5500..8000, weight 8;
    /// SIGTERM of a worker: a graceful stop
    Terminate: 0..1, weight 4;
    /// SIGKILL of an enqueuer or operator
    KillClient: 0..1, weight 2;
    /// Close all connections of a process
    Cut: 0..1, weight 4;
    /// Refuse the connections of all processes
    Refuse: 300..4000, weight 2;
    /// Slow down the network between all processes and the server
    Delay: 500..2500, weight 2;
    /// Drop answers to a process after the server committed
    LoseAnswers: 0..1, weight 6;
    /// Accept the connections of a process, but never answer
    Silence: 500..6000, weight 3;
    /// Crash the server (`pg_ctl stop -m immediate`) and restart it
    Crash: 100..4500, weight 3;
    /// SIGKILL of one of the server's backends
    KillBackend: 0..1, weight 3;
    /// SIGSTOP of the server and all its backends
    Freeze: 500..6000, weight 2;
    /// Lock a table exclusively
    Lock: 300..4000, weight 2;
    /// Use up all connections of the server
    Connections: 500..3000, weight 2;
    /// Fill the disk of the server
    DiskFull: 500..3000, weight 2;
    /// Fail over to a standby that lags behind
    Promote: 300..1500, weight 1;
    /// Kill all processes and crash the server
    RestartAll: 100..2000, weight 2;
    /// Restart a worker with its clock a year ahead
    FakeClock: 0..1, weight 2;
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.write_str(value.get_name()),
            None => write!(f, "{self:?}"),
        }
    }
}
