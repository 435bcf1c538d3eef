//! The calls of clients: what each asked for, when, and which answer it got.

use std::collections::HashMap;

use crate::checker::{Findings, Records, Rule, Run};
use crate::history::{ClientEvent, Operation};

/// An operation of a client, with its result.
pub(super) struct Call<'a> {
    pub(super) process: &'a str,
    pub(super) operation: Operation,
    pub(super) at: i64,
    pub(super) keys: &'a [i64],
    pub(super) ids: &'a [i64],
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
        let until = match self.result {
            Some((until, ClientEvent::Ok { .. } | ClientEvent::Failed { .. })) => until,
            _ => i64::MAX,
        };
        (self.at..=until).contains(&at)
    }
}

/// The calls of all clients.
pub(super) struct Calls<'a> {
    pub(super) all: Vec<Call<'a>>,
    places: HashMap<(&'a str, Operation), Vec<usize>>,
}

impl<'a> Calls<'a> {
    pub(super) fn of(records: &'a Records) -> Calls<'a> {
        let mut open: HashMap<(&str, u64), usize> = HashMap::new();
        let mut all: Vec<Call<'a>> = Vec::new();
        for line in &records.history {
            let (process, op) = (line.process.as_str(), line.op);
            let call = open.get(&(process, op)).map(|at| &mut all[*at]);
            match (&line.event, call) {
                (
                    ClientEvent::Invoked {
                        operation,
                        keys,
                        ids,
                    },
                    _,
                ) => {
                    open.insert((process, op), all.len());
                    all.push(Call {
                        process,
                        operation: *operation,
                        at: line.at,
                        keys,
                        ids,
                        result: None,
                    });
                }
                (
                    ClientEvent::Ok { .. }
                    | ClientEvent::Failed { .. }
                    | ClientEvent::Unknown { .. },
                    Some(call),
                ) => {
                    call.result = Some((line.at, &line.event));
                }
                _ => {}
            }
        }
        let places = (0..).zip(&all);
        let places = super::grouped(places.map(|(at, call)| ((call.process, call.operation), at)));
        Calls { all, places }
    }

    /// Whether a process was asking for an operation at this time.
    pub(super) fn covers(&self, process: &str, operation: Operation, at: i64) -> bool {
        let places = self.places.get(&(process, operation));
        let mut calls = places.into_iter().flatten().map(|place| &self.all[*place]);
        calls.any(|call| call.covers(at))
    }

    /// Returns the calls for an operation that were acknowledged, with the time and the ids of the answer.
    pub(super) fn answered(
        &self,
        operation: Operation,
    ) -> impl Iterator<Item = (&Call<'a>, i64, &'a [i64])> {
        let calls = self
            .all
            .iter()
            .filter(move |call| call.operation == operation);
        calls.filter_map(|call| call.answer().map(|(at, ids)| (call, at, ids)))
    }
}

impl<'a> Run<'a> {
    /// Checks that each id in the answers to an operation has an effect.
    pub(super) fn check_answers(
        &self,
        (operation, rule, what): (Operation, Rule, &str),
        has_effect: impl Fn(&Call<'a>, i64) -> bool,
        findings: &mut Findings,
    ) {
        for (call, at, ids) in self.calls.answered(operation) {
            for id in ids {
                if !has_effect(call, *id) {
                    findings.add_lack(rule, *id, at, format!("{} {what}", call.process));
                }
            }
        }
    }
}
