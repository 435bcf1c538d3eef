//! The calls of clients: what each asked for, when, and which answer it got.

use std::collections::HashMap;

use crate::checker::Records;
use crate::history::{ClientEvent, JobSelection, Operation};

/// An operation of a client, with its result.
pub(super) struct Call<'a> {
    pub(super) process: &'a str,
    pub(super) operation: Operation,
    pub(super) at: i64,
    pub(super) keys: &'a [i64],
    pub(super) ids: &'a [i64],
    pub(super) selection: Option<&'a JobSelection>,
    pub(super) result: Option<(i64, &'a ClientEvent)>,
}

impl<'a> Call<'a> {
    /// When it was acknowledged, and for which jobs.
    pub(super) fn answer(&self) -> Option<(i64, &'a [i64])> {
        match self.result {
            Some((at, ClientEvent::Ok { ids })) => Some((at, ids)),
            _ => None,
        }
    }

    /// Whether it may have taken effect at this time. A call without an answer may do so later.
    pub(super) fn covers(&self, at: i64) -> bool {
        let until = self.answer().map_or(i64::MAX, |(at, _)| at);
        (self.at..=until).contains(&at)
    }
}

/// Returns the calls of all clients.
pub(super) fn calls(records: &Records) -> Vec<Call<'_>> {
    let mut open: HashMap<(&str, u64), usize> = HashMap::new();
    let mut calls: Vec<Call<'_>> = Vec::new();
    for line in &records.history {
        let (process, op) = (line.process.as_str(), line.op);
        let call = open.get(&(process, op)).map(|at| &mut calls[*at]);
        match (&line.event, call) {
            (
                ClientEvent::Invoked {
                    operation,
                    keys,
                    ids,
                },
                _,
            ) => {
                open.insert((process, op), calls.len());
                calls.push(Call {
                    process,
                    operation: *operation,
                    at: line.at,
                    keys,
                    ids,
                    selection: None,
                    result: None,
                });
            }
            (ClientEvent::Selects(selection), Some(call)) => call.selection = Some(selection),
            (
                ClientEvent::Ok { .. } | ClientEvent::Failed { .. } | ClientEvent::Unknown { .. },
                Some(call),
            ) => {
                call.result.get_or_insert((line.at, &line.event));
            }
            _ => {}
        }
    }
    calls
}

/// The times of the operations of all processes.
#[derive(Debug, Default)]
pub(super) struct Requests(HashMap<(String, Operation), Vec<(i64, i64)>>);

impl Requests {
    pub(super) fn of(records: &Records) -> Requests {
        let mut spans: HashMap<(String, Operation), Vec<(i64, i64)>> = HashMap::new();
        for call in calls(records) {
            let until = call.answer().map_or(i64::MAX, |(at, _)| at);
            let of_process = spans.entry((call.process.to_owned(), call.operation));
            of_process.or_default().push((call.at, until));
        }
        Requests(spans)
    }

    /// Whether a process was asking for an operation at this time.
    pub(super) fn covers(&self, process: &str, operation: Operation, at: i64) -> bool {
        let spans = self.0.get(&(process.to_owned(), operation));
        spans.is_some_and(|spans| spans.iter().any(|(from, to)| (*from..=*to).contains(&at)))
    }
}
