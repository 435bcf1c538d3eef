//! The gates by themselves: no database, and time is passed in.

use super::*;

fn gates() -> Gates {
    let dependencies = [("pay", "payments"), ("refund", "payments")];
    let dependencies = dependencies.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    Gates::new("orders", 3, dependencies.into())
}

fn lease() -> LeaseId {
    LeaseId(uuid::Uuid::new_v4())
}

fn outage(dependency: Option<&str>) -> Attempt<'_> {
    Attempt::Outage {
        dependency,
        message: "down",
    }
}

fn gated(name: &str, kinds: &[&str], probe_in: Option<Duration>) -> Gated {
    Gated {
        name: name.to_owned(),
        cause: BreakerCause::Outage,
        kinds: kinds.iter().map(ToString::to_string).collect(),
        wait: Duration::from_secs(8),
        probe_in,
    }
}

#[test]
fn outages_in_a_row_open_the_breaker_of_what_is_down() {
    let now = Instant::now();
    for (kind, dependency, name, kinds) in [
        ("other", None, "queue:orders", vec![]),
        ("pay", None, "payments", vec!["pay", "refund"]),
        ("other", Some("mail"), "mail", vec!["other"]),
        ("pay", Some("mail"), "mail", vec!["pay"]),
    ] {
        let gates = gates();
        for _ in 0..2 {
            assert_eq!(gates.note(lease(), kind, outage(dependency), now), []);
            assert!(!gates.stops(lease(), kind));
        }
        let reports = gates.note(lease(), kind, outage(dependency), now);
        let [Report::Trip(trip)] = &*reports else {
            panic!("{reports:?}")
        };
        assert_eq!(
            (&*trip.name, trip.outages, &trip.kinds),
            (name, 3, &kinds.iter().map(ToString::to_string).collect())
        );
        assert!(gates.stops(lease(), kind));
        assert_eq!(gates.stops(lease(), "unconcerned"), name == "queue:orders");
        // What ran already when it opened changes nothing.
        assert_eq!(gates.note(lease(), kind, outage(dependency), now), []);
    }
}

#[test]
fn any_other_end_breaks_the_row() {
    let (gates, now) = (gates(), Instant::now());
    for end in [Attempt::Done, Attempt::Other] {
        for attempt in [outage(None), outage(None), end] {
            assert_eq!(gates.note(lease(), "pay", attempt, now), []);
        }
    }
    // But not that of a kind that needs something else.
    for (kind, attempt) in [
        ("pay", outage(None)),
        ("other", Attempt::Done),
        ("refund", outage(None)),
    ] {
        assert_eq!(gates.note(lease(), kind, attempt, now), []);
    }
    assert_eq!(gates.note(lease(), "pay", outage(None), now).len(), 1);
}

#[test]
fn the_plan_leaves_out_what_waits_and_tells_the_next_probe() {
    let (gates, now) = (gates(), Instant::now());
    assert_eq!(gates.plan(None, now), Plan::default());
    let second = Duration::from_secs(1);
    gates.learn(
        vec![
            gated("payments", &["old"], Some(second)),
            gated("queue:other", &[], None),
        ],
        now,
    );
    let plan = gates.plan(None, now);
    assert_eq!(
        (plan.is_shut, plan.except),
        (
            false,
            vec!["old".to_owned(), "pay".to_owned(), "refund".to_owned()]
        )
    );
    assert_eq!((plan.probe, plan.next), (None, Some(now + second)));
    let handled = ["pay".to_owned(), "other".to_owned()];
    let due = gates
        .plan(Some(&handled), now + second)
        .probe
        .expect("a probe is due");
    assert_eq!(
        (&*due.name, due.kinds.clone()),
        ("payments", Some(vec!["pay".to_owned()]))
    );
    gates.put_off(&due, now + second);
    assert_eq!(gates.plan(None, now + second).next, Some(now + 2 * second));
    // A worker without a kind that is concerned cannot try.
    assert_eq!(
        gates.plan(Some(&handled[1..]), now + 9 * second).probe,
        None
    );
    // The queue itself goes first.
    gates.learn(
        vec![
            gated("payments", &[], Some(second)),
            gated("queue:orders", &[], None),
        ],
        now,
    );
    let plan = gates.plan(None, now + 9 * second);
    assert_eq!((plan.is_shut, plan.probe, plan.next), (true, None, None));
    assert!(gates.learn(Vec::new(), now), "there is more to claim");
    assert_eq!(gates.plan(None, now), Plan::default());
}

#[test]
fn a_probe_runs_while_the_gate_is_shut_and_its_end_is_reported() {
    let now = Instant::now();
    for (attempt, ended) in [
        (Attempt::Done, Ended::Close),
        (Attempt::Other, Ended::Close),
        (outage(Some("mail")), Ended::Close),
        (outage(None), Ended::Reopen),
        (Attempt::Unrun, Ended::GiveBack),
    ] {
        let (gates, lease) = (gates(), lease());
        gates.learn(vec![gated("payments", &[], Some(Duration::ZERO))], now);
        let probe = Probe {
            name: "payments".to_owned(),
            cause: BreakerCause::Outage,
            number: 7,
        };
        let until = now + Duration::from_mins(1);
        gates.probing(lease, probe.clone(), until);
        assert!(!gates.stops(lease, "pay"));
        assert_eq!(gates.plan(None, now).next, Some(until));
        assert_eq!(
            gates.note(lease, "pay", attempt, now),
            [Report::Probed(probe, ended)]
        );
        assert!(
            gates.stops(lease, "pay"),
            "until the database says otherwise"
        );
    }
}

#[test]
fn what_the_database_does_not_know_yet_survives_what_it_says() {
    let (gates, now) = (gates(), Instant::now());
    assert!(gates.flood("too many", now).is_some());
    assert!(gates.flood("too many", now).is_none());
    assert!(!gates.learn(Vec::new(), now));
    assert!(gates.plan(None, now).is_shut);
    gates.confirm(gated("queue:orders", &[], None), now);
    assert_eq!(gates.park("other", None), Duration::from_secs(8));
    assert!(gates.learn(Vec::new(), now));
    assert!(gates.flood("again", now).is_some());
    gates.abandon("queue:orders");
    assert!(!gates.plan(None, now).is_shut);
}
