//! When each process asked for which operation.

use std::collections::HashMap;

use crate::checker::Records;
use crate::history::{ClientEvent, Operation};

/// The times of the operations of all processes.
#[derive(Debug, Default)]
pub(super) struct Requests(HashMap<(String, Operation), Vec<(i64, i64)>>);

impl Requests {
    pub(super) fn of(records: &Records) -> Requests {
        let mut spans: HashMap<(String, Operation), Vec<(i64, i64)>> = HashMap::new();
        let mut open = HashMap::new();
        for line in &records.history {
            match &line.event {
                ClientEvent::Invoked { operation, .. } => {
                    let of_process = spans.entry((line.process.clone(), *operation)).or_default();
                    open.insert((&line.process, line.op), (*operation, of_process.len()));
                    // An operation without an answer may take effect later.
                    of_process.push((line.at, i64::MAX));
                }
                ClientEvent::Ok { .. } => {
                    if let Some((operation, at)) = open.remove(&(&line.process, line.op))
                        && let Some(of_process) = spans.get_mut(&(line.process.clone(), operation))
                    {
                        of_process[at].1 = line.at;
                    }
                }
                _ => {}
            }
        }
        Requests(spans)
    }

    /// Whether a process was asking for an operation at this time.
    pub(super) fn covers(&self, process: &str, operation: Operation, at: i64) -> bool {
        let spans = self.0.get(&(process.to_owned(), operation));
        spans.is_some_and(|spans| spans.iter().any(|(from, to)| (*from..=*to).contains(&at)))
    }
}
