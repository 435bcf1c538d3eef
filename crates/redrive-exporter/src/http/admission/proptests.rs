//! Properties of every sequence of events.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A client connects.
    Arrive(u8),
    /// One of the silent clients sends something.
    Send(usize),
    /// One of the served connections enters a phase.
    Enter(usize, Phase),
    /// One of the connections ends.
    End(usize),
    /// Time passes.
    Pass(u64),
    /// Descriptors run out.
    MakeRoom,
}

fn event() -> impl Strategy<Value = Event> {
    let phase = prop_oneof![
        Just(Phase::Closing),
        Just(Phase::WritingResponse),
        Just(Phase::Handling),
    ];
    prop_oneof![
        6 => prop_oneof![3 => Just(0), 1 => 0..5_u8].prop_map(Event::Arrive),
        5 => (0..20_usize).prop_map(Event::Send),
        3 => (0..20_usize, phase).prop_map(|(index, phase)| Event::Enter(index, phase)),
        2 => (0..20_usize).prop_map(Event::End),
        2 => (0..300_u64).prop_map(Event::Pass),
        1 => Just(Event::MakeRoom),
    ]
}

impl Admission {
    /// Returns one of the connections in some stages.
    fn pick(&self, index: usize, is_wanted: impl Fn(Stage) -> bool) -> Option<ConnectionId> {
        let wanted = self
            .connections
            .iter()
            .filter(|(_, one)| is_wanted(one.stage));
        let ids: Vec<ConnectionId> = wanted.map(|(id, _)| *id).collect();
        (!ids.is_empty()).then(|| ids[index % ids.len()])
    }

    fn count_waiting(&self, client: IpAddr) -> usize {
        self.waiting()
            .filter(|(_, one)| one.client == client)
            .count()
    }
}

/// Takes all steps and checks each one.
fn settle(admission: &mut Admission, now: Instant) -> Result<(), TestCaseError> {
    loop {
        let before = admission.clone();
        let held = before.places_by_client();
        let free = before.capacity.places - held.values().sum::<usize>();
        match admission.next(now) {
            Step::Serve(id) => {
                let served = before.connections[&id];
                prop_assert_eq!(served.stage, Stage::Waiting);
                prop_assert!(places(&held, served.client) < free, "more than its share");
            }
            Step::Close(id) => {
                prop_assert_eq!(before.connections[&id].stage, Stage::Silent);
                prop_assert!(before.age(id, now) >= SILENCE_TIMEOUT);
            }
            Step::Evict(id) => {
                let evicted = before.connections[&id];
                prop_assert!(
                    matches!(evicted.stage, Stage::Served(phase) if phase != Phase::Handling)
                );
                prop_assert!(before.age(id, now) >= EVICTION_GRACE);
                let mut waiting = before
                    .connections
                    .values()
                    .filter(|one| one.stage == Stage::Waiting);
                let its = places(&held, evicted.client);
                prop_assert!(
                    waiting
                        .any(|one| one.client == evicted.client || places(&held, one.client) < its)
                );
            }
            Step::Wait(_) => {
                let mut waiting = before
                    .connections
                    .values()
                    .filter(|one| one.stage == Stage::Waiting);
                prop_assert!(
                    waiting.all(|one| places(&held, one.client) >= free),
                    "a free place is left"
                );
                return Ok(());
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn limits_and_shares_hold_after_every_event(
        places in 1..9_usize,
        waiting in 1..9_usize,
        events in vec(event(), 0..120),
    ) {
        let mut admission = Admission::new(Capacity { places, waiting });
        let mut now = Instant::now();
        for event in events {
            match event {
                Event::Arrive(number) => {
                    let (id, closed) = admission.arrive(IpAddr::from([192, 0, 2, number]), now);
                    prop_assert!(closed == Some(id) || admission.connections.contains_key(&id));
                }
                Event::Send(index) => {
                    if let Some(id) = admission.pick(index, |stage| stage == Stage::Silent) {
                        admission.received(id, now);
                    }
                }
                Event::Enter(index, phase) => {
                    if let Some(id) = admission.pick(index, |stage| matches!(stage, Stage::Served(_) | Stage::Evicted)) {
                        admission.enter(id, phase, now);
                    }
                }
                Event::End(index) => {
                    if let Some(id) = admission.pick(index, |_| true) {
                        admission.end(id);
                    }
                }
                Event::Pass(milliseconds) => now += Duration::from_millis(milliseconds),
                Event::MakeRoom => {
                    let handling = |stage| stage == Stage::Served(Phase::Handling) || stage == Stage::Evicted;
                    let is_busy = admission.connections.values().all(|one| handling(one.stage));
                    prop_assert_eq!(admission.make_room().is_none(), is_busy);
                }
            }
            settle(&mut admission, now)?;
            prop_assert!(admission.waiting().count() <= waiting);
            prop_assert!(admission.places_by_client().values().sum::<usize>() <= places);
        }
    }

    #[test]
    fn a_connection_is_closed_only_if_its_address_has_the_most(
        waiting in 1..9_usize,
        numbers in vec(0..5_u8, 0..60),
        sending in vec(any::<bool>(), 60),
    ) {
        // No place, so that all wait.
        let mut admission = Admission::new(Capacity { places: 0, waiting });
        let now = Instant::now();
        for (number, sends) in numbers.into_iter().zip(sending) {
            let mut before = admission.clone();
            let (id, closed) = admission.arrive(IpAddr::from([192, 0, 2, number]), now);
            if let Some(closed) = closed {
                before.capacity.waiting += 1;
                before.arrive(IpAddr::from([192, 0, 2, number]), now);
                let counts = before.waiting().map(|(_, one)| before.count_waiting(one.client));
                let its = before.count_waiting(before.connections[&closed].client);
                prop_assert_eq!(Some(its), counts.max());
            }
            if sends {
                admission.received(id, now);
            }
        }
    }

    #[test]
    fn one_other_address_cannot_delay_a_scrape(
        places in 2..17_usize,
        events in vec(event(), 0..80),
    ) {
        let mut admission = Admission::new(Capacity { places, waiting: 16 });
        let now = Instant::now();
        for event in events {
            match event {
                Event::Arrive(_) => {
                    admission.arrive(IpAddr::from([192, 0, 2, 1]), now);
                }
                Event::Send(index) => {
                    if let Some(id) = admission.pick(index, |stage| stage == Stage::Silent) {
                        admission.received(id, now);
                    }
                }
                Event::Enter(index, phase) => {
                    if let Some(id) = admission.pick(index, |stage| matches!(stage, Stage::Served(_))) {
                        admission.enter(id, phase, now);
                    }
                }
                Event::End(_) | Event::Pass(_) | Event::MakeRoom => {}
            }
            settle(&mut admission, now)?;
        }
        let (scrape, closed) = admission.arrive(IpAddr::from([192, 0, 2, 2]), now);
        prop_assert_ne!(closed, Some(scrape));
        admission.received(scrape, now);
        prop_assert_eq!(admission.next(now), Step::Serve(scrape));
    }
}
