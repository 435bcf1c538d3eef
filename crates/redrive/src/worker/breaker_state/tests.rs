//! Breaker state without a database. Time is passed in.

use super::*;

fn breakers() -> LocalBreakers {
    let dependencies = [("pay", "payments"), ("refund", "payments")];
    let dependencies = dependencies.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    LocalBreakers::new("orders", 3, dependencies.into())
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

fn gated(name: &str, kinds: &[&str], probe_in: Option<Duration>) -> BreakerStatus {
    BreakerStatus {
        name: name.to_owned(),
        cause: BreakerCause::Outage,
        kinds: kinds.iter().map(ToString::to_string).collect(),
        wait: Duration::from_secs(8),
        probe_in,
    }
}

#[test]
fn outages_in_a_row_open_the_breaker_of_the_dependency() {
    let now = Instant::now();
    for (kind, dependency, name, kinds) in [
        ("other", None, "queue:orders", vec![]),
        ("pay", None, "payments", vec!["pay", "refund"]),
        ("other", Some("mail"), "mail", vec!["other"]),
        ("pay", Some("mail"), "mail", vec!["pay"]),
    ] {
        let breakers = breakers();
        for _ in 0..2 {
            assert_eq!(breakers.note(lease(), kind, outage(dependency), now), []);
            assert!(!breakers.stops(lease(), kind));
        }
        let reports = breakers.note(lease(), kind, outage(dependency), now);
        let [BreakerReport::BreakerTrip(trip)] = &*reports else {
            panic!("{reports:?}")
        };
        assert_eq!(
            (&*trip.name, trip.outages, &trip.kinds),
            (name, 3, &kinds.iter().map(ToString::to_string).collect())
        );
        assert!(breakers.stops(lease(), kind));
        assert_eq!(
            breakers.stops(lease(), "unconcerned"),
            name == "queue:orders"
        );
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
    assert_eq!(breakers.plan(None, now), ClaimPlan::default());
    let second = Duration::from_secs(1);
    breakers.learn(
        vec![
            gated("payments", &["old"], Some(second)),
            gated("queue:other", &[], None),
        ],
        now,
    );
    let plan = breakers.plan(None, now);
    assert_eq!(
        (plan.is_shut, plan.except),
        (
            false,
            vec!["old".to_owned(), "pay".to_owned(), "refund".to_owned()]
        )
    );
    assert_eq!((plan.probe, plan.next), (None, Some(now + second)));
    let handled = ["pay".to_owned(), "other".to_owned()];
    let due = breakers
        .plan(Some(&handled), now + second)
        .probe
        .expect("a probe is due");
    assert_eq!(
        (&*due.name, due.kinds.clone()),
        ("payments", Some(vec!["pay".to_owned()]))
    );
    breakers.put_off(&due, now, second / 2);
    assert_eq!(breakers.plan(None, now).next, Some(now + second));
    breakers.put_off(&due, now + second, TRY_AGAIN);
    assert_eq!(
        breakers.plan(None, now + second).next,
        Some(now + 2 * second)
    );
    // A worker without an affected kind cannot probe.
    assert_eq!(
        breakers.plan(Some(&handled[1..]), now + 9 * second).probe,
        None
    );
    // The queue itself comes first.
    breakers.learn(
        vec![
            gated("payments", &[], Some(second)),
            gated("queue:orders", &[], None),
        ],
        now,
    );
    let plan = breakers.plan(None, now + 9 * second);
    assert_eq!((plan.is_shut, plan.probe, plan.next), (true, None, None));
    assert!(breakers.learn(Vec::new(), now), "there is more to claim");
    assert_eq!(breakers.plan(None, now), ClaimPlan::default());
}

#[test]
fn a_probe_runs_while_the_breaker_is_open_and_its_end_is_reported() {
    let now = Instant::now();
    for (attempt, ended) in [
        (AttemptEnd::Done, ProbeVerdict::Close),
        (AttemptEnd::Other, ProbeVerdict::Close),
        (outage(Some("mail")), ProbeVerdict::Close),
        (outage(None), ProbeVerdict::Reopen),
        (AttemptEnd::Unrun, ProbeVerdict::Release),
    ] {
        let (breakers, lease) = (breakers(), lease());
        breakers.learn(vec![gated("payments", &[], Some(Duration::ZERO))], now);
        let probe = Probe {
            name: "payments".to_owned(),
            cause: BreakerCause::Outage,
            number: 7,
        };
        let until = now + Duration::from_mins(1);
        breakers.probing(lease, probe.clone(), until);
        assert!(!breakers.stops(lease, "pay"));
        assert_eq!(breakers.plan(None, now).next, Some(until));
        assert_eq!(
            breakers.note(lease, "pay", attempt, now),
            [BreakerReport::Probed(probe, ended)]
        );
        assert!(
            breakers.stops(lease, "pay"),
            "until the database closes the breaker"
        );
    }
}

#[test]
fn a_breaker_not_yet_written_survives_an_update() {
    let (breakers, now) = (breakers(), Instant::now());
    assert!(breakers.flood("too many", now).is_some());
    assert!(breakers.flood("too many", now).is_none());
    assert!(!breakers.learn(Vec::new(), now));
    assert!(breakers.plan(None, now).is_shut);
    breakers.confirm(gated("queue:orders", &[], None), now);
    assert_eq!(breakers.park("other", None), Duration::from_secs(8));
    assert!(breakers.learn(Vec::new(), now));
    assert!(breakers.flood("again", now).is_some());
    breakers.abandon("queue:orders");
    assert!(!breakers.plan(None, now).is_shut);
}
