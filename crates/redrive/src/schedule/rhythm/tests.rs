//! Tests of the next tick, across transitions of the clock.

use super::*;

fn cron(line: &str, zone: &str) -> Rhythm {
    Rhythm::stored(Some(line), Some(zone), None).expect(line)
}

fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

#[test]
fn an_interval_counts_from_its_tick() {
    let every = Rhythm::every(Duration::from_secs(10)).expect("an interval");
    for (tick, after, next) in [
        ("01-01T00:00:00", "01-01T00:00:00", "01-01T00:00:10"),
        ("01-01T00:00:00", "01-01T00:00:09.999999", "01-01T00:00:10"),
        ("01-01T00:00:00", "01-01T00:00:10", "01-01T00:00:20"),
        ("01-01T00:00:03", "01-04T00:00:00", "01-04T00:00:03"),
        // Before its first tick.
        ("01-02T00:00:00", "01-01T23:59:51", "01-02T00:00:00"),
    ] {
        let [tick, after, next] = [tick, after, next].map(|time| at(&format!("2026-{time}Z")));
        assert_eq!(every.next_after(tick, after).expect("next"), next);
    }
}

#[test]
fn intervals_out_of_range_are_rejected() {
    for (interval, shown) in [
        (Duration::ZERO, "0s"),
        (Duration::from_millis(999), "999ms"),
        (Duration::from_hours(366 * 24 + 1), "366d1h"),
    ] {
        let error = Rhythm::every(interval).expect_err(shown);
        error.assert_invalid(shown);
    }
    assert!(Rhythm::every(MIN_INTERVAL).is_ok() && Rhythm::every(MAX_INTERVAL).is_ok());
}

#[test]
fn a_rhythm_without_a_next_time_is_rejected() {
    let start = at("2026-01-01T00:00:00Z");
    let never = cron("0 0 30 2 *", "UTC").next_after(Timestamp::UNIX_EPOCH, start);
    let error = never.expect_err("30 February").to_string();
    assert!(error.contains("no next time"), "{error}");
    let leap = cron("0 0 29 2 *", "UTC").next_after(start, start);
    assert_eq!(leap.expect("leap"), at("2028-02-29T00:00:00Z"));
}

/// The table in the documentation of `Schedule`: both transitions in three zones. Lord Howe changes by half an
/// hour. Each row is a line of cron, its zone, a time, and the ticks that follow it: day and local time.
const TICKS: &str = "\
# The clock goes forward: 02:30 does not exist and runs just after the gap.
30 2 * * *          Europe/Berlin        2026-03-27T12:00:00Z  28 02:30 +01:00  29 03:00 +02:00  30 02:30 +02:00
30 2 * * *          America/New_York     2026-03-06T12:00:00Z  07 02:30 -05:00  08 03:00 -04:00  09 02:30 -04:00
15 2 * * *          Australia/Lord_Howe  2026-10-02T12:00:00Z  03 02:15 +10:30  04 02:30 +11:00  05 02:15 +11:00
# The clock goes back: the time exists twice and runs the first time.
30 2 * * *          Europe/Berlin        2026-10-23T12:00:00Z  24 02:30 +02:00  25 02:30 +02:00  26 02:30 +01:00
30 1 * * *          America/New_York     2026-10-30T12:00:00Z  31 01:30 -04:00  01 01:30 -04:00  02 01:30 -05:00
45 1 * * *          Australia/Lord_Howe  2026-04-03T00:00:00Z  04 01:45 +11:00  05 01:45 +11:00  06 01:45 +10:30
# The clock goes forward: the times of one gap share its end.
0,30 2 28 3 *       Europe/Berlin        2026-03-28T01:10:00Z  28 02:30 +01:00  28 03:00 +02:00  28 02:00 +02:00
0 1-3 * * *         America/New_York     2026-03-08T05:30:00Z  08 01:00 -05:00  08 03:00 -04:00  09 01:00 -04:00
0,40 2 * * *        Australia/Lord_Howe  2026-10-03T12:00:00Z  04 02:30 +11:00  04 02:40 +11:00  05 02:00 +11:00
# Midnight does not exist.
@daily              America/Santiago     2026-09-05T12:00:00Z  06 01:00 -03:00  07 00:00 -03:00  08 00:00 -03:00
# The clock goes back: each time runs the first time.
0,30 2 31 10 *      Europe/Berlin        2027-10-30T12:00:00Z  31 02:00 +02:00  31 02:30 +02:00  31 02:00 +01:00
0 1,2 31 10 *       Europe/Berlin        2027-10-30T23:30:00Z  31 02:00 +02:00  31 01:00 +01:00  31 02:00 +01:00
0 2-3 * * *         Europe/Berlin        2027-10-30T12:00:00Z  31 02:00 +02:00  31 03:00 +01:00  01 02:00 +01:00
30 15,45 1 * * *    Australia/Lord_Howe  2026-04-04T12:00:00Z  05 01:15 +11:00  05 01:45 +11:00  06 01:15 +10:30
# The search begins in the repeated hour.
0-59 0-59 2 * * *   Europe/Berlin        2027-10-31T01:10:00Z  01 02:00 +01:00  01 02:00 +01:00  01 02:00 +01:00
# The hour from 02:00 is skipped.
*/30 * * * *        Europe/Berlin        2026-03-29T00:10:00Z  29 01:30 +01:00  29 03:00 +02:00  29 03:30 +02:00
*/30 * * * *        America/New_York     2026-03-08T06:10:00Z  08 01:30 -05:00  08 03:00 -04:00  08 03:30 -04:00
*/15 * * * *        Australia/Lord_Howe  2026-10-03T15:20:00Z  04 02:30 +11:00  04 02:45 +11:00  04 03:00 +11:00
# The repeated time runs both times.
0 * * * *           Europe/Berlin        2026-10-24T23:30:00Z  25 02:00 +02:00  25 02:00 +01:00  25 03:00 +01:00
0 * * * *           America/New_York     2026-11-01T04:30:00Z  01 01:00 -04:00  01 01:00 -05:00  01 02:00 -05:00
*/30 * * * *        Australia/Lord_Howe  2026-04-04T14:10:00Z  05 01:30 +11:00  05 01:30 +10:30  05 02:00 +10:30";

#[test]
fn ticks_follow_both_transitions_of_the_clock() {
    let rows = TICKS.lines();
    for row in rows.filter(|row| !row.starts_with('#')) {
        let cells = row.split("  ").map(str::trim);
        let mut cells = cells.filter(|cell| !cell.is_empty());
        let mut cell = || cells.next().expect(row);
        let (line, zone, mut last) = (cell(), cell(), at(cell()));
        let rhythm = cron(line, zone);
        for expected in cells {
            let next = rhythm.next_after(last, last).expect("a next tick");
            // Any worker continues from any moment, so the next tick must not depend on where the search starts.
            let (from, to) = (last.as_second(), next.as_second());
            let step = usize::try_from((to - from) / 97).expect("a later tick");
            for moment in (from..to).step_by(step.max(1)) {
                let moment = Timestamp::from_second(moment).expect("a time");
                let found = rhythm.next_after(moment, moment).expect("a next tick");
                assert_eq!(found, next, "{row} after {moment}");
            }
            last = next;
            let local = last.to_zoned(zone::named(zone).expect(zone));
            let local = local.strftime("%d %H:%M %:z").to_string();
            assert_eq!(local, expected, "{row}");
        }
    }
}
