//! The processes of a server: finds, freezes and kills them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Processes that are stopped until this is dropped.
#[derive(Debug)]
pub(crate) struct Frozen(Vec<i32>);

impl Frozen {
    /// Stops these processes, in this order.
    pub(super) fn stop(processes: Vec<i32>) -> Frozen {
        for pid in &processes {
            signal(*pid, Signal::STOP);
        }
        Frozen(processes)
    }

    /// Freezes one more process.
    pub(super) fn and(mut self, pid: i32) -> Frozen {
        signal(pid, Signal::STOP);
        self.0.push(pid);
        self
    }

    /// Terminates the processes as soon as they continue, so that they process no pending input.
    pub(crate) fn terminate(self) {
        for pid in &self.0 {
            signal(*pid, Signal::TERM);
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            signal(*pid, Signal::CONT);
        }
    }
}

/// Returns the children of a process.
pub(super) fn children(parent: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("read /proc").flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    processes
        .filter(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status
                .lines()
                .any(|line| line == format!("PPid:\t{parent}"))
        })
        .collect()
}

pub(super) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have exited.
        _ = kill_process(pid, signal);
    }
}
