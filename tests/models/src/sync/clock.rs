//! Simulated time, which passes only while every thread waits.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::sync::{Condvar, Mutex};

/// The start of every schedule, late enough to subtract durations from it.
const BEGINNING: Duration = Duration::from_hours(100);

thread_local! {
    // All threads of a schedule share one system thread.
    static CLOCK: RefCell<Option<Arc<Clock>>> = const { RefCell::new(None) };
}

/// The time of one schedule, and its waiting threads.
struct Clock {
    times: Mutex<Times>,
    changed: Condvar,
    /// The current time, readable without `times`.
    now: std::sync::Mutex<Duration>,
    threads: AtomicUsize,
}

#[derive(Default)]
struct Times {
    /// Threads that wait for a change.
    waiting: usize,
    /// The moments that threads wait for, and how many wait for each.
    timers: BTreeMap<Duration, usize>,
}

/// Runs a schedule with a new clock. The caller is its first thread.
pub(crate) fn with_clock(scenario: impl FnOnce()) {
    let clock = Clock {
        times: Mutex::default(),
        changed: Condvar::new(),
        now: std::sync::Mutex::new(BEGINNING),
        threads: AtomicUsize::new(1),
    };
    CLOCK.set(Some(Arc::new(clock)));
    scenario();
    // Wait for every thread. The scheduler reports those that never end.
    wait(None, || (threads() == 1).then_some(()));
    CLOCK.set(None);
}

fn threads() -> usize {
    clock().map_or(1, |clock| clock.threads.load(Ordering::Relaxed))
}

/// Returns `None` when the schedule is over or has failed.
fn clock() -> Option<Arc<Clock>> {
    if std::thread::panicking() {
        return None;
    }
    let clock = CLOCK.try_with(|clock| clock.borrow().clone());
    clock.ok().flatten()
}

/// Waits until `ready` returns a value. Returns `None` at the deadline.
///
/// No other thread runs during `ready`, which must change nothing that others wait for.
pub(crate) fn wait<T>(until: Option<Instant>, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    wait_and_change(until, || ready().map(|found| (found, false)))
}

/// Like [`wait`], but `ready` may change what others wait for, and says whether it did.
pub(crate) fn wait_and_change<T>(
    until: Option<Instant>,
    mut ready: impl FnMut() -> Option<(T, bool)>,
) -> Option<T> {
    let clock = clock()?;
    let mut times = clock.times.lock().ok()?;
    loop {
        if let Some((found, changed)) = ready() {
            if changed {
                clock.wake(&mut times);
            }
            return Some(found);
        }
        let Some(until) = until else {
            times = clock.rest(times, None)?;
            continue;
        };
        if until.0 <= clock.now() {
            return None;
        }
        times = clock.rest(times, Some(until.0))?;
    }
}

/// Changes something that others may wait for.
pub(crate) fn change<T>(change: impl FnOnce() -> T) -> T {
    change_perhaps(|| (change(), true))
}

/// Like [`change`], but `change` says whether others may continue.
pub(crate) fn change_perhaps<T>(change: impl FnOnce() -> (T, bool)) -> T {
    let Some(clock) = clock() else {
        return change().0;
    };
    let Ok(mut times) = clock.times.lock() else {
        return change().0;
    };
    let (answer, changed) = change();
    if changed {
        clock.wake(&mut times);
    }
    answer
}

/// Lets this much time pass.
pub(crate) fn sleep(time: Duration) {
    let until = Instant::now() + time;
    wait(Some(until), || None::<()>);
}

/// Registers a new thread.
pub(crate) fn begins() {
    if let Some(clock) = clock() {
        clock.threads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Unregisters a thread that ended.
pub(crate) fn ends() {
    if let Some(clock) = clock()
        && let Ok(mut times) = clock.times.lock()
    {
        clock.threads.fetch_sub(1, Ordering::Relaxed);
        clock.wake(&mut times);
    }
}

type Locked<'a> = shuttle::sync::MutexGuard<'a, Times>;

impl Clock {
    fn now(&self) -> Duration {
        self.now.lock().map_or(BEGINNING, |now| *now)
    }

    fn wake(&self, times: &mut Times) {
        times.waiting = 0;
        self.changed.notify_all();
    }

    /// Waits for a change. If all threads wait, the last one advances the time.
    fn rest<'a>(&self, mut times: Locked<'a>, until: Option<Duration>) -> Option<Locked<'a>> {
        if let Some(until) = until {
            *times.timers.entry(until).or_default() += 1;
        }
        times.waiting += 1;
        let next = times.timers.keys().next().copied();
        times = match next {
            Some(next) if times.waiting >= self.threads.load(Ordering::Relaxed) => {
                if let Ok(mut now) = self.now.lock() {
                    *now = next.max(*now);
                }
                self.wake(&mut times);
                times
            }
            // If no thread waits for a moment, this is a deadlock, which the scheduler reports.
            _ => self.changed.wait(times).ok()?,
        };
        if let Some(until) = until
            && let Some(waiters) = times.timers.get_mut(&until)
        {
            *waiters -= 1;
            if *waiters == 0 {
                times.timers.remove(&until);
            }
        }
        Some(times)
    }
}

/// A moment of simulated time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Instant {
        Instant(clock().map_or(BEGINNING, |clock| clock.now()))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Instant::now().saturating_duration_since(self)
    }

    pub(crate) fn duration_since(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }

    pub(crate) fn saturating_duration_since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn checked_sub(self, time: Duration) -> Option<Instant> {
        self.0.checked_sub(time).map(Instant)
    }

    pub(crate) fn checked_add(self, time: Duration) -> Option<Instant> {
        self.0.checked_add(time).map(Instant)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Since the start of the schedule.
        write!(f, "{:?}", self.0.saturating_sub(BEGINNING))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, time: Duration) -> Instant {
        Instant(self.0.saturating_add(time))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, time: Duration) -> Instant {
        Instant(self.0.saturating_sub(time))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}
