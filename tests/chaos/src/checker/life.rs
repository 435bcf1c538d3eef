//! The life of one job, as the trail has it: where it was, from when to when, and how it left.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use crate::checker::{Findings, Rule, Terms};
use crate::trail::{Event, Place, Renewal, Step};

/// How long after it was written a renewal may be committed, and after its commit anything be seen,
/// in microseconds.
const IN_FLIGHT: i64 = 250_000;

/// What a job went through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) job: i64,
    /// What its enqueuer called it, and who that was.
    pub(crate) key: Option<i64>,
    pub(crate) enqueuer: Option<Arc<str>>,
    pub(crate) leases: Vec<Stay>,
    /// Spans in which it was live and held a unique key, by the numbers of the trail and by time.
    pub(crate) held: Vec<Held>,
    /// When it was redriven, and by whom.
    pub(crate) redriven: Vec<(i64, Arc<str>)>,
    /// Where it ended.
    pub(crate) end: Option<Place>,
    pub(crate) is_letter: bool,
    pub(crate) done: Vec<i32>,
    pub(crate) deaths: i64,
    /// When it died as somebody's wish.
    pub(crate) manual: Option<i64>,
}

/// A unique key that a job held.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) key: Arc<str>,
    pub(crate) from: (i64, i64),
    pub(crate) to: (i64, i64),
    /// Until when others may have seen it live: until the commit of what ended it.
    pub(crate) seen_to: i64,
}

/// A stay in a lease.
#[derive(Clone, Debug)]
pub(crate) struct Stay {
    pub(crate) actor: Arc<str>,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) attempt: i32,
    pub(crate) generation: i32,
    pub(crate) refunds: i32,
    pub(crate) crashes: i32,
    pub(crate) was: Was,
}

/// How a lease of a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    /// It had not.
    Held,
    Done,
    /// Back, with its attempt charged; how many refunds it has.
    Charged {
        refunds: i32,
    },
    /// Back, with its attempt given back.
    Refunded {
        refunds: i32,
    },
    /// A letter, by its own worker; one that was cancelled may have been given back unrun.
    Dead {
        reason: Arc<str>,
        is_refunded: bool,
    },
    /// Taken back, because its worker was gone.
    Reaped,
    /// Taken back, and a letter.
    ReapedDead,
}

/// Where a job is, with what it has.
struct Now<'a> {
    place: Option<&'a Event>,
    /// The state and generation of its letter.
    letter: Option<(Arc<str>, i32)>,
    done: Option<i32>,
    was_seen: bool,
}

pub(super) fn of(
    events: &[Event],
    terms: &Terms,
    renewed: &HashMap<Uuid, Vec<&Renewal>>,
    mates: &HashMap<Uuid, u32>,
    findings: &mut Findings,
) -> Life {
    let mut teller = Teller {
        life: Life {
            job: events[0].job,
            manual: events
                .iter()
                .find(|event| event.reason.as_deref() == Some("manual"))
                .map(|event| event.at),
            ..Life::default()
        },
        now: Now {
            place: None,
            letter: None,
            done: None,
            was_seen: false,
        },
        granted: HashSet::new(),
        terms,
        renewed,
        mates,
        findings,
    };
    for step in events.chunk_by(|one, other| one.tx == other.tx) {
        teller.step(step);
    }
    if let Some(held) = teller.life.held.last_mut()
        && teller.now.place.is_some()
    {
        held.to = (i64::MAX, i64::MAX);
        held.seen_to = i64::MAX;
    }
    teller.life.end = match (&teller.now.place, &teller.now.letter) {
        (Some(event), _) => Some(event.place),
        (None, Some(_)) => Some(Place::Letter),
        (None, None) => None,
    };
    teller.life.is_letter = teller.now.letter.is_some();
    teller.life
}

struct Teller<'a, 'f> {
    life: Life,
    now: Now<'a>,
    granted: HashSet<Uuid>,
    terms: &'a Terms,
    renewed: &'a HashMap<Uuid, Vec<&'a Renewal>>,
    mates: &'a HashMap<Uuid, u32>,
    findings: &'f mut Findings,
}

impl<'a> Teller<'a, '_> {
    fn found(&mut self, rule: Rule, at: i64, what: impl Into<String>) {
        let job = Some(self.life.job);
        self.findings.found(rule, job, at, what);
    }

    /// What one transaction did to the job.
    fn step(&mut self, events: &'a [Event]) {
        let at = events[0].at;
        for event in events.iter().filter(|event| event.step == Step::Truncated) {
            self.found(
                Rule::Kept,
                event.at,
                "it was in a segment that was truncated",
            );
        }
        let of = |place: fn(Place) -> bool, step: Step| {
            events
                .iter()
                .filter(move |event| place(event.place) && event.step == step)
        };
        let live = |place: Place| place != Place::Letter;
        let outs: Vec<&Event> = of(live, Step::Out).collect();
        let mut ins: Vec<&Event> = of(live, Step::In).collect();
        // What came and went in the same transaction is not seen by anybody.
        let left = match (outs.as_slice(), self.now.place) {
            ([], _) => None,
            ([out], Some(here)) if out.place == here.place && out.lease == here.lease => Some(here),
            _ => {
                let places: Vec<Place> = outs.iter().map(|out| out.place).collect();
                let here = self.now.place.map(|event| event.place);
                self.found(
                    Rule::OnePlace,
                    at,
                    format!("it left {places:?} and was in {here:?}"),
                );
                self.now.place
            }
        };
        if ins.len() > 1 {
            let places: Vec<Place> = ins.iter().map(|event| event.place).collect();
            self.found(Rule::OnePlace, at, format!("it came to {places:?} at once"));
            ins.truncate(1);
        }
        let come = ins.first().copied();
        if let (Some(come), None, Some(here)) = (come, left, self.now.place) {
            let text = format!(
                "it came to {:?} and had not left {:?}",
                come.place, here.place
            );
            self.found(Rule::OnePlace, at, text);
        }
        let letter = events.iter().rfind(|event| event.place == Place::Letter);
        match (left, come) {
            (None, None) => self.letter_alone(letter, at),
            (None, Some(come)) if self.now.place.is_none() => self.enters(come, letter),
            (None, Some(_)) => {}
            (Some(left), come) => self.moves(left, come, letter, events),
        }
        if left.is_some() || come.is_some() {
            self.hold(come, left, events);
            self.now.place = come;
        }
        if let Some(letter) = letter {
            self.now.letter = match letter.step {
                Step::Out => None,
                _ => letter.state.clone().map(|state| (state, letter.generation)),
            };
        }
    }

    /// From nowhere: an enqueue, or a redrive.
    fn enters(&mut self, come: &'a Event, letter: Option<&Event>) {
        let at = come.at;
        if come.attempt != 0 || come.crashes != 0 || come.refunds != 0 {
            self.found(
                Rule::Attempts,
                at,
                "it began with attempts, crashes or refunds",
            );
        }
        if come.place == Place::Leased {
            self.found(Rule::NotInvented, at, "it came into a lease from nowhere");
        }
        let redriving = letter.filter(|letter| letter.state.as_deref() == Some("redriving"));
        match (self.now.letter.clone(), redriving) {
            (None, None) if !self.now.was_seen => {
                self.life.key = come.key;
                self.life.enqueuer = Some(Arc::clone(&come.actor));
            }
            (Some((state, generation)), Some(_)) => {
                if !["open", "quarantined"].contains(&&*state) {
                    let text = format!("it was redriven from a letter that was {state}");
                    self.found(Rule::RedriveOnce, at, text);
                }
                if come.generation != generation + 1 {
                    let text = format!("generation {} follows {generation}", come.generation);
                    self.found(Rule::Lineage, at, text);
                }
                self.findings.tally.redriven += 1;
                self.life.redriven.push((at, Arc::clone(&come.actor)));
            }
            (Some((state, _)), None) => {
                let text = format!("it came from a letter that stayed {state}");
                self.found(Rule::RedriveOnce, at, text);
            }
            (None, _) => self.found(Rule::NotInvented, at, "it came back from nowhere"),
        }
        self.now.was_seen = true;
    }

    /// From one place to another, or out.
    fn moves(
        &mut self,
        left: &'a Event,
        come: Option<&'a Event>,
        letter: Option<&Event>,
        events: &[Event],
    ) {
        let at = events[0].at;
        let died = letter.filter(|letter| {
            letter.step != Step::Out
                && ["open", "quarantined"].contains(&letter.state.as_deref().unwrap_or_default())
        });
        match (left.place, come.map(|come| come.place)) {
            (Place::Ready, Some(Place::Leased)) => {
                if let Some(come) = come {
                    self.claimed(left, come);
                }
            }
            (Place::Ready | Place::Delayed, Some(Place::Ready | Place::Delayed)) => {
                if let Some(come) = come {
                    self.same(left, come);
                    let is_promoted = left.place == Place::Delayed && come.place == Place::Ready;
                    if let Some(due) = left.due.filter(|due| is_promoted && at < *due) {
                        self.found(
                            Rule::NotEarly,
                            at,
                            format!("it was ready {} µs before its time", due - at),
                        );
                    }
                }
            }
            (Place::Ready | Place::Delayed, None) => match died {
                Some(letter) if letter.reason.as_deref() == Some("manual") => {
                    self.dies(letter, left.generation);
                }
                Some(letter) => {
                    let text = format!("{:?} of a job that nobody ran", letter.reason);
                    self.found(Rule::Reason, at, text);
                }
                None => self.found(Rule::Kept, at, format!("it vanished from {:?}", left.place)),
            },
            (Place::Leased, _) => {
                let was = self.settled(left, come, died, letter, &events[0]);
                if let Some(stay) = self.life.leases.last_mut() {
                    stay.to = at;
                    stay.was = was;
                }
            }
            (_, place) => {
                let text = format!("from {:?} to {place:?}", left.place);
                self.found(Rule::OnePlace, at, text);
            }
        }
    }

    fn claimed(&mut self, left: &Event, come: &'a Event) {
        let at = come.at;
        self.findings.tally.claims += 1;
        if come.attempt != left.attempt + 1 {
            let text = format!("a claim made attempt {} of {}", come.attempt, left.attempt);
            self.found(Rule::Attempts, at, text);
        }
        if come.attempt > come.most {
            self.found(
                Rule::Attempts,
                at,
                format!("attempt {} of {}", come.attempt, come.most),
            );
        }
        if (come.generation, come.crashes, come.refunds)
            != (left.generation, left.crashes, left.refunds)
        {
            self.found(
                Rule::Attempts,
                at,
                "a claim changed its generation, crashes or refunds",
            );
        }
        if come.crashes >= self.terms.crashes {
            let text = format!("it was handed out after {} crashes", come.crashes);
            self.found(Rule::Attempts, at, text);
        }
        let Some(lease) = come.lease else { return };
        if !self.granted.insert(lease) {
            self.found(Rule::Fenced, at, format!("lease {lease} was granted twice"));
        }
        let mates = self.mates.get(&lease).copied().unwrap_or_default();
        if come.crashes > 0 && mates > 1 {
            let text = format!("a suspect shares its lease with {} others", mates - 1);
            self.found(Rule::SuspectsAlone, at, text);
        }
        self.life.leases.push(Stay {
            actor: Arc::clone(&come.actor),
            from: at,
            to: i64::MAX,
            attempt: come.attempt,
            generation: come.generation,
            refunds: come.refunds,
            crashes: come.crashes,
            was: Was::Held,
        });
    }

    /// A move that is none of the job's doing.
    fn same(&mut self, left: &Event, come: &Event) {
        let of = |event: &Event| {
            (
                event.attempt,
                event.most,
                event.generation,
                event.crashes,
                event.refunds,
            )
        };
        if of(left) != of(come) {
            self.found(
                Rule::Attempts,
                come.at,
                "a move changed its attempts, generation, crashes or refunds",
            );
        }
    }

    /// Out of a lease.
    fn settled(
        &mut self,
        left: &Event,
        come: Option<&Event>,
        died: Option<&Event>,
        letter: Option<&Event>,
        first: &Event,
    ) -> Was {
        let crashes = come.or(died).map_or(left.crashes, |event| event.crashes);
        // Only a reap counts a crash, and only it is another's to do.
        let is_reap = crashes == left.crashes + 1;
        if is_reap {
            self.check_reap(left, first.began);
        } else if first.actor != left.actor {
            let text = format!("{} settled a lease of {}", first.actor, left.actor);
            self.found(Rule::Fenced, first.at, text);
        }
        match (come, died) {
            (Some(come), None) => self.back(left, come, is_reap),
            (None, Some(letter)) => self.dead(left, letter, is_reap),
            (None, None) => self.done(left, letter, first.at),
            (Some(_), Some(_)) => {
                self.found(Rule::OnePlace, first.at, "it came back and died at once");
                Was::Held
            }
        }
    }

    fn back(&mut self, left: &Event, come: &Event, is_reap: bool) -> Was {
        let at = come.at;
        if (come.most, come.generation) != (left.most, left.generation) {
            self.found(
                Rule::Attempts,
                at,
                "it came back with another generation or number of attempts",
            );
        }
        if come.attempt >= come.most {
            self.found(
                Rule::Attempts,
                at,
                format!(
                    "it came back after attempt {} of {}",
                    come.attempt, come.most
                ),
            );
        }
        if !(come.refunds == left.refunds || !is_reap && come.refunds == left.refunds + 1)
            || come.refunds > self.terms.refunds
        {
            let text = format!("{} refunds follow {}", come.refunds, left.refunds);
            self.found(Rule::Attempts, at, text);
        }
        let refunds = come.refunds;
        match (is_reap, left.attempt - come.attempt) {
            (true, 1) => {
                self.findings.tally.reaped += 1;
                Was::Reaped
            }
            (false, 0) => Was::Charged { refunds },
            (false, 1) => {
                self.findings.tally.released += 1;
                Was::Refunded { refunds }
            }
            (_, given) => {
                self.found(
                    Rule::Attempts,
                    at,
                    format!("{given} attempts were given back"),
                );
                Was::Charged { refunds }
            }
        }
    }

    fn dead(&mut self, left: &Event, letter: &Event, is_reap: bool) -> Was {
        let at = letter.at;
        self.dies(letter, left.generation);
        let reason = letter.reason.clone().unwrap_or_else(|| Arc::from(""));
        let is_proven = match &*reason {
            "exhausted" => !is_reap && left.attempt >= left.most,
            "worker_lost" => is_reap && left.crashes + 1 >= self.terms.crashes,
            "rejected" | "undecodable" | "unhandled" | "timeout" => !is_reap,
            "manual" => true,
            _ => false,
        };
        if !is_proven {
            let text = format!(
                "{reason} after attempt {} of {} and {} crashes",
                left.attempt, left.most, letter.crashes
            );
            self.found(Rule::Reason, at, text);
        }
        let given = left.attempt - letter.attempt;
        let is_refunded = given == 1 && !is_reap && &*reason == "manual";
        if given != 0 && !is_refunded {
            let text = format!(
                "its letter has {} attempts, and it had {}",
                letter.attempt, left.attempt
            );
            self.found(Rule::Attempts, at, text);
        }
        if is_reap {
            Was::ReapedDead
        } else {
            Was::Dead {
                reason,
                is_refunded,
            }
        }
    }

    fn done(&mut self, left: &Event, letter: Option<&Event>, at: i64) -> Was {
        self.findings.tally.done += 1;
        if self.now.done == Some(left.generation) {
            let text = format!("generation {} was done before", left.generation);
            self.found(Rule::OneSuccess, at, text);
        }
        self.now.done = Some(left.generation);
        self.life.done.push(left.generation);
        let is_recovered =
            letter.is_some_and(|letter| letter.state.as_deref() == Some("recovered"));
        // The letter may have been discarded meanwhile, or never have been one's business.
        let is_awaited = matches!(&self.now.letter, Some((state, _)) if &**state == "redriving");
        if is_awaited != is_recovered {
            let text = if is_awaited {
                "its letter is still redriving"
            } else {
                "a letter recovered that did not wait"
            };
            self.found(Rule::Lineage, at, text);
        }
        Was::Done
    }

    fn dies(&mut self, letter: &Event, generation: i32) {
        self.findings.tally.deaths += 1;
        self.life.deaths += 1;
        if letter.generation != generation {
            let text = format!(
                "its letter is of generation {}, and it was of {generation}",
                letter.generation
            );
            self.found(Rule::Lineage, letter.at, text);
        }
    }

    /// Nothing happened but to the letter.
    fn letter_alone(&mut self, letter: Option<&Event>, at: i64) {
        let Some(letter) = letter else { return };
        let before = self.now.letter.as_ref().map(|(state, _)| &**state);
        let after = match letter.step {
            Step::Out => None,
            _ => letter.state.as_deref(),
        };
        match (before, after) {
            (Some("open" | "quarantined"), Some("discarded" | "open" | "quarantined")) => {}
            (Some("recovered" | "discarded"), None) => {}
            (Some(state), None) => {
                let text = format!("a letter that was {state} was deleted");
                self.found(Rule::LawfulPrune, at, text);
            }
            (before, after) => {
                let text = format!("its letter went from {before:?} to {after:?} by itself");
                self.found(Rule::Lineage, at, text);
            }
        }
    }

    /// Whether its worker has been gone for long enough.
    fn check_reap(&mut self, left: &Event, at: i64) {
        let worker = left.worker.unwrap_or_default();
        let renewed = self.renewed.get(&worker).map_or(&[][..], Vec::as_slice);
        // One that was not committed when the statement began, it could not see.
        let seen = renewed.partition_point(|renewal| renewal.at <= at - IN_FLIGHT);
        let last = renewed[..seen]
            .last()
            .map_or(left.at, |renewal| renewal.began);
        let early = last + self.terms.lease - at;
        if early > 0 {
            self.found(
                Rule::LawfulReap,
                at,
                format!("its worker had {early} µs left"),
            );
        }
        let started = self.terms.starts.iter().rfind(|start| **start <= at);
        let early = started.map_or(0, |start| start + self.terms.lease - at);
        if early > 0 {
            let text =
                format!("workers had {early} µs left to renew after the start of the server");
            self.found(Rule::LawfulReap, at, text);
        }
    }

    /// Keeps the span in which it holds a unique key.
    fn hold(&mut self, come: Option<&Event>, left: Option<&Event>, events: &[Event]) {
        let last = &events[events.len() - 1];
        match (left, come) {
            (None, Some(come)) => {
                if let Some(key) = &come.held_key {
                    let from = (come.seq, come.at);
                    self.life.held.push(Held {
                        key: Arc::clone(key),
                        from,
                        to: (i64::MAX, i64::MAX),
                        seen_to: i64::MAX,
                    });
                }
            }
            (Some(_), None) => {
                if let Some(held) = self.life.held.last_mut() {
                    held.to = (last.seq, last.at);
                    held.seen_to = last.committed + IN_FLIGHT;
                }
            }
            _ => {}
        }
    }
}
