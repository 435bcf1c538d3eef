//! What this host lets a worker start. A worker that exceeds a limit of the host would fail in the
//! middle of a job.

use std::fs;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use redrive::limits::MAX_PAYLOAD_BYTES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Result};

/// The threads of a worker without its slots, with those of its connections and of the driver.
const THREADS: u64 = 24;
/// The processes that a command may have at a time: `sh`, and two more in a pipe.
const PROCESSES_PER_COMMAND: u64 = 3;
/// The descriptors of a worker without its slots: five connections, signals, and those of a command
/// that is just starting.
const DESCRIPTORS: u64 = 30;
/// The descriptors of a running command: its stderr.
const DESCRIPTORS_PER_COMMAND: u64 = 1;
/// The MiB that a worker needs at first, and that each slot needs: its stack and a few payloads.
const MEMORY: u64 = 64;
const MEMORY_PER_SLOT: u64 = 6;
/// The MiB of address space that the allocator reserves for a thread, and for how many threads per
/// processor.
const ARENA: u64 = 64;
const ARENAS_PER_PROCESSOR: u64 = 8;
/// The stack of a thread that takes the place of a process.
const SMALL_STACK: usize = 16 * 1024;
/// The most threads that are tried. With more slots, the worker finds out when it starts them.
const MAX_TRIED: u64 = 2_000;

/// The number of slots that the host has room for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) slots: u64,
    /// Why they are fewer than wanted.
    pub(super) why_fewer: Option<String>,
}

/// A limit of the host, in units such as descriptors.
#[derive(Debug)]
struct Limit {
    /// Its name, with its value.
    name: String,
    unit: &'static str,
    left: u64,
    fixed: u64,
    per_slot: u64,
}

impl Limit {
    fn slots(&self) -> u64 {
        self.left.saturating_sub(self.fixed) / self.per_slot
    }

    fn why(&self, slots: u64) -> String {
        let Limit {
            name, unit, left, ..
        } = self;
        let needed = self.fixed + slots * self.per_slot;
        let noun = if slots == 1 {
            "slot needs"
        } else {
            "slots need"
        };
        format!("{name} leaves this worker {left} {unit}, and {slots} {noun} {needed}")
    }
}

/// Returns how many of the wanted slots the host has room for.
///
/// # Errors
/// If it has room for none.
pub(super) fn of(wanted: u64, runs_commands: bool) -> Result<Room> {
    check_file_size(runs_commands)?;
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let arenas = processors * ARENAS_PER_PROCESSOR;
    let space = (
        MEMORY + arenas.min(THREADS) * ARENA,
        MEMORY_PER_SLOT + if arenas > THREADS { ARENA } else { 0 },
    );
    let data = (MEMORY, MEMORY_PER_SLOT);
    let limits = [
        // First, because the allocator keeps what the threads below reserve.
        memory(
            wanted,
            "address space (ulimit -v)",
            Resource::As,
            "VmSize:",
            space,
        ),
        memory(wanted, "data (ulimit -d)", Resource::Data, "VmData:", data),
        descriptors(wanted, runs_commands),
        tasks(wanted, runs_commands),
    ];
    decide(wanted, limits.iter().flatten())
}

fn decide<'a>(wanted: u64, limits: impl Iterator<Item = &'a Limit>) -> Result<Room> {
    let tightest = limits.min_by_key(|limit| limit.slots());
    let Some(tightest) = tightest.filter(|limit| limit.slots() < wanted) else {
        return Ok(Room {
            slots: wanted,
            why_fewer: None,
        });
    };
    match tightest.slots() {
        0 => Err(Error::new(format!(
            "this host has no room for a worker: {}",
            tightest.why(1)
        ))),
        slots => Ok(Room {
            slots,
            why_fewer: Some(format!(
                "running {slots} of {wanted} slots: {}",
                tightest.why(wanted)
            )),
        }),
    }
}

/// The input of a command is a file in memory.
fn check_file_size(runs_commands: bool) -> Result<()> {
    let needed = MAX_PAYLOAD_BYTES as u64 + 1;
    match getrlimit(Resource::Fsize).current {
        Some(limit) if runs_commands && limit < needed => Err(Error::new(format!(
            "this host has no room for a worker: the limit of the size of files (ulimit -f) is {limit} \
             bytes, and the input of a command needs {needed}"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Raises the soft limit of descriptors if that helps and is allowed.
fn descriptors(wanted: u64, runs_commands: bool) -> Option<Limit> {
    let fixed = DESCRIPTORS;
    let per_slot = if runs_commands {
        DESCRIPTORS_PER_COMMAND
    } else {
        0
    };
    let open = fs::read_dir("/proc/self/fd").map_or(8, |entries| entries.count() as u64);
    let needed = open + fixed + wanted * per_slot;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut limit = current?;
    let raised = maximum.map_or(needed, |maximum| needed.min(maximum));
    let new = Rlimit {
        current: Some(raised),
        maximum,
    };
    if limit < raised && setrlimit(Resource::Nofile, new).is_ok() {
        limit = raised;
    }
    (limit < needed).then(|| Limit {
        name: format!("the limit of open files (ulimit -n) of {limit}"),
        unit: "descriptors",
        left: limit.saturating_sub(open),
        fixed,
        per_slot: per_slot.max(1),
    })
}

/// Tries how many threads the host lets this process start, whatever limits it: the account, the
/// control group or the system.
fn tasks(wanted: u64, runs_commands: bool) -> Option<Limit> {
    let fixed = THREADS;
    let processes = if runs_commands {
        PROCESSES_PER_COMMAND
    } else {
        0
    };
    let per_slot = 1 + processes;
    let needed = fixed + wanted * per_slot;
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
    let tried: Vec<_> = (0..needed.min(MAX_TRIED))
        .map_while(|_| {
            let gate = Arc::clone(&gate);
            let wait = move || drop(gate.read());
            let builder = thread::Builder::new().stack_size(SMALL_STACK);
            builder.spawn(wait).ok()
        })
        .collect();
    drop(closed);
    let left = tried.len() as u64;
    for thread in tried {
        // It cannot panic.
        _ = thread.join();
    }
    (left < needed.min(MAX_TRIED)).then(|| Limit {
        name: match getrlimit(Resource::Nproc).current {
            Some(limit) => format!("the limit of processes and threads (ulimit -u) of {limit}"),
            None => "the limit of processes and threads of its control group".to_owned(),
        },
        unit: "threads and processes",
        left,
        fixed,
        per_slot,
    })
}

/// Compares a limit of memory with what this process has, which is a field of its status, and with the
/// MiB that a worker needs at first and for each slot.
fn memory(
    wanted: u64,
    name: &str,
    resource: Resource,
    field: &str,
    (fixed, per_slot): (u64, u64),
) -> Option<Limit> {
    let limit = getrlimit(resource).current? / (1024 * 1024);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let used = status.lines().find_map(|line| line.strip_prefix(field));
    let used: Option<u64> = used.and_then(|used| used.trim().strip_suffix(" kB")?.parse().ok());
    let left = limit.saturating_sub(used.unwrap_or(0) / 1024);
    (left < fixed + wanted * per_slot).then(|| Limit {
        name: format!("the limit of {name} of {limit} MiB"),
        unit: "MiB",
        left,
        fixed,
        per_slot,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(left: u64, fixed: u64, per_slot: u64) -> Limit {
        Limit {
            name: "a limit of 36".to_owned(),
            unit: "threads",
            left,
            fixed,
            per_slot,
        }
    }

    #[test]
    fn the_tightest_limit_decides_how_many_slots_run() {
        for (left, slots) in [(100, 16), (89, 16), (64, 10), (28, 1), (24, 0), (3, 0)] {
            let limits = [limit(left, 24, 4), limit(1000, 0, 1)];
            let room = decide(16, limits.iter());
            match (slots, room) {
                (0, Err(error)) => assert_eq!(
                    error.one_line(),
                    format!(
                        "this host has no room for a worker: a limit of 36 leaves this worker {left} \
                         threads, and 1 slot needs 28"
                    )
                ),
                (16, Ok(room)) => assert_eq!((room.slots, room.why_fewer), (16, None)),
                (slots, room) => {
                    let room = room.expect("room");
                    assert_eq!(room.slots, slots);
                    let why = room.why_fewer.expect("a reason");
                    assert!(why.contains("16 slots need 88"), "{why}");
                }
            }
        }
    }
}
