//! Processes that are stopped for a while.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Processes that are stopped until this is dropped: their connections stay open, and they neither read nor write.
#[derive(Debug)]
pub struct Frozen(Vec<i32>);

impl Frozen {
    /// Stops these processes one by one, each before the next one is looked for.
    pub fn stop(processes: impl IntoIterator<Item = i32>) -> Frozen {
        let stop = |pid: &i32| signal(*pid, Signal::STOP);
        Frozen(processes.into_iter().inspect(stop).collect())
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
pub(crate) fn children(parent: i32) -> Vec<i32> {
    let of_parent = format!("PPid:\t{parent}");
    let entries = fs::read_dir("/proc").expect("read /proc").flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == of_parent)
    };
    processes.filter(is_child).collect()
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have ended.
        _ = kill_process(pid, signal);
    }
}
