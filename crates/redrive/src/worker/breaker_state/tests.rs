//! Breaker state without a database. Time is passed in.

use std::time::Duration;

use super::*;

fn breakers() -> LocalBreakers {
    let dependencies = [("pay", "payments"), ("refund", "payments")];
    let dependencies = dependencies.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    let flood = FloodGuard::new(1, Duration::from_mins(1));
    LocalBreakers::new("orders", 3, dependencies.into(), Some(flood))
}

/// Counts one letter more than the flood guard allows. Returns whether it opened the breaker.
fn flood(breakers: &LocalBreakers, now: Instant) -> bool {
    breakers.note_letter(now).is_some() || breakers.note_letter(now).is_some()
}

/// What a fetcher of all kinds may claim.
fn planned(breakers: &LocalBreakers, now: Instant) -> ClaimPlan {
    breakers.plan(None, now)
}

fn lease() -> LeaseId {
    LeaseId(uuid::Uuid::new_v4())
}

fn outage(dependency: Option<&str>) -> AttemptEnd<'_> {
    AttemptEnd::Outage {
        dependency,
        message: "down",
    }
}

fn gated(name: &str, kinds: &[&str], probe_in: Option<Duration>) -> Gate {
    Gate {
        name: name.to_owned(),
        cause: "outage".to_owned(),
        kinds: kinds.iter().map(ToString::to_string).collect(),
        probe_in,
        set_at: None,
    }
}

#[test]
fn outages_in_a_row_open_the_breaker_of_the_dependency() {
    let now = Instant::now();
    for (kind, dependency, name, kinds) in [
        ("other", None, "queue:orders", &[][..]),
        ("pay", None, "payments", &["pay", "refund"]),
        ("other", Some("mail"), "mail", &["other"]),
        ("pay", Some("mail"), "mail", &["pay"]),
    ] {
        let breakers = breakers();
        for _ in 0..2 {
            assert_eq!(breakers.note(lease(), kind, outage(dependency), now), []);
            assert!(!breakers.stops(lease(), kind, now));
        }
        let reports = breakers.note(lease(), kind, outage(dependency), now);
        let [BreakerReport::BreakerTrip(trip)] = &*reports else {
            panic!("{reports:?}")
        };
        assert_eq!((&*trip.name, trip.outages), (name, 3));
        assert!(trip.kinds.iter().eq(kinds), "{trip:?}");
        assert!(breakers.stops(lease(), kind, now));
        let stops_all = breakers.stops(lease(), "unconcerned", now);
        assert_eq!(stops_all, name == "queue:orders");
        // Jobs that were already running change nothing.
        assert_eq!(breakers.note(lease(), kind, outage(dependency), now), []);
    }
}

#[test]
fn any_other_end_resets_the_streak() {
    let (breakers, now) = (breakers(), Instant::now());
    for end in [AttemptEnd::Done, AttemptEnd::Other] {
        for attempt in [outage(None), outage(None), end] {
            assert_eq!(breakers.note(lease(), "pay", attempt, now), []);
        }
    }
    // A kind with another dependency does not end the streak.
    for (kind, attempt) in [
        ("pay", outage(None)),
        ("other", AttemptEnd::Done),
        ("refund", outage(None)),
    ] {
        assert_eq!(breakers.note(lease(), kind, attempt, now), []);
    }
    assert_eq!(breakers.note(lease(), "pay", outage(None), now).len(), 1);
}

#[test]
fn the_plan_excludes_affected_kinds_and_names_the_next_probe() {
    let (breakers, now) = (breakers(), Instant::now());
    assert_eq!(planned(&breakers, now), ClaimPlan::default());
    let second = Duration::from_secs(1);
    let payments = |kinds: &[&str]| gated("payments", kinds, Some(second));
    let other = gated("queue:other", &[], None);
    breakers.learn(&[payments(&["old"]), other], now);
    let plan = planned(&breakers, now);
    assert!(!plan.is_shut);
    assert_eq!(plan.except, ["old", "pay", "refund"]);
    assert_eq!((plan.probe, plan.next), (None, Some(now + second)));
    let handled = ["pay".to_owned(), "other".to_owned()];
    let due = breakers.plan(Some(&handled), now + second);
    assert_eq!(due.probe.as_deref(), Some("payments"));
    assert_eq!(due.kinds.as_deref(), Some(&handled[..1]));
    // A worker without an affected kind cannot probe.
    let cannot = breakers.plan(Some(&handled[1..]), now + second);
    assert_eq!(cannot.probe, None);
    // Another worker may have a job for it meanwhile.
    breakers.put_off("payments", now + 2 * second);
    let late = planned(&breakers, now + second);
    assert_eq!((late.probe, late.next), (None, Some(now + 2 * second)));
    assert!(planned(&breakers, now + 2 * second).probe.is_some());
    // The queue itself comes first.
    let ours = gated("queue:orders", &[], None);
    breakers.learn(&[payments(&[]), ours], now);
    let plan = planned(&breakers, now + 9 * second);
    assert_eq!((plan.is_shut, plan.probe, plan.next), (true, None, None));
    assert!(breakers.learn(&[], now), "there is more to claim");
    assert_eq!(planned(&breakers, now), ClaimPlan::default());
}

#[test]
fn a_worker_claims_only_for_the_limits_of_kinds_that_it_may_claim() {
    let limits = ["a", "b"].map(|kind| LimitStatus {
        kind: Some(kind.to_owned()),
        set_at: None,
    });
    let b = ["b".to_owned()];
    for (handled, except, claimed) in [
        (None, &[][..], &["a", "b"][..]),
        (Some(&b[..]), &[], &["b"]),
        // Its breaker is open. A claim that waits for its tokens would keep the worker awake.
        (None, &b[..], &["a"]),
        (Some(&b[..]), &b[..], &[]),
    ] {
        let plan = ClaimPlan {
            limits: Arc::new(limits.clone()),
            except: except.to_vec(),
            ..ClaimPlan::default()
        };
        let kinds = plan.targets(handled).filter_map(|it| it.kind.as_deref());
        let kinds: Vec<&str> = kinds.collect();
        assert_eq!(kinds, claimed, "{handled:?} {except:?}");
    }
}

#[test]
fn a_probe_runs_while_the_breaker_is_open_and_its_end_is_reported() {
    use BreakerCause::{Flood, Operator, Outage};
    let now = Instant::now();
    for (cause, attempt, ended) in [
        (Outage, AttemptEnd::Done, ProbeVerdict::Close),
        (Outage, AttemptEnd::Other, ProbeVerdict::Close),
        (Outage, outage(Some("mail")), ProbeVerdict::Close),
        (Outage, outage(None), ProbeVerdict::Reopen),
        (Outage, AttemptEnd::Unrun, ProbeVerdict::Release),
        (Flood, AttemptEnd::Done, ProbeVerdict::Close),
        (Flood, AttemptEnd::Other, ProbeVerdict::Reopen),
        (Flood, outage(None), ProbeVerdict::Reopen),
        (Operator, AttemptEnd::Other, ProbeVerdict::Close),
        (Operator, outage(None), ProbeVerdict::Reopen),
    ] {
        let (breakers, lease) = (breakers(), lease());
        let due = gated("payments", &[], Some(Duration::ZERO));
        let opened_for = cause.as_str().to_owned();
        let due = Gate {
            cause: opened_for,
            ..due
        };
        breakers.learn(&[due], now);
        let probe = Probe {
            name: "payments".to_owned(),
            number: 7,
        };
        let until = now + Duration::from_mins(1);
        breakers.probing(lease, probe.clone(), until);
        assert!(!breakers.stops(lease, "pay", now));
        assert_eq!(planned(&breakers, now).next, Some(until));
        let reports = breakers.note(lease, "pay", attempt, now);
        assert_eq!(reports, [BreakerReport::Probed(probe, ended)], "{cause}");
        let stops = breakers.stops(lease, "pay", now);
        assert!(stops, "until the database closes the breaker");
    }
}

#[test]
fn a_breaker_not_yet_written_survives_an_update() {
    let (breakers, now) = (breakers(), Instant::now());
    assert!(flood(&breakers, now));
    assert!(!flood(&breakers, now), "it is open");
    assert!(!breakers.learn(&[], now));
    assert!(planned(&breakers, now).is_shut);
    breakers.written("queue:orders");
    assert!(planned(&breakers, now).is_shut);
    assert!(!breakers.learn(&[gated("queue:orders", &[], None)], now));
    assert!(breakers.learn(&[], now));
    assert!(!planned(&breakers, now).is_shut);
}

#[test]
fn an_open_breaker_takes_another_kind_and_keeps_its_own() {
    let (breakers, now) = (breakers(), Instant::now());
    // Only an operator closes it.
    breakers.learn(&[gated("mail", &["other"], None)], now);
    for reports in [0, 0, 1] {
        let reported = breakers.note(lease(), "pay", outage(Some("mail")), now);
        assert_eq!(reported.len(), reports);
    }
    // An answer from before that.
    breakers.learn(&[gated("mail", &["other"], None)], now);
    for kind in ["other", "pay"] {
        assert!(breakers.stops(lease(), kind, now), "{kind}");
    }
    let later = now + Duration::from_mins(1);
    assert_eq!(planned(&breakers, later).probe, None);
}
