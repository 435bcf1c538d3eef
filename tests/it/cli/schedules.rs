//! `redrive schedule`.

use redrive_tests::prelude::*;

const SET: &str = "schedule set nightly reports report {} --cron '0 8 * * MON-FRI'";

#[test]
fn setting_a_schedule_prints_its_next_five_ticks_first() {
    let test = TestDatabase::migrated();
    let set = |options: &str| test.run(format!("{SET} --zone Europe/Berlin{options}"));
    let dry = set(" --dry-run");
    let lines: Vec<&str> = dry.out.lines().collect();
    assert_eq!(lines.len(), 7, "{}", dry.out);
    assert_eq!(lines[0], "The next ticks:");
    assert_eq!(lines[6], "Nothing was changed.");
    for line in &lines[1..6] {
        has(line, " 08:00:00 +0");
        lacks(line, "Sat");
        lacks(line, "Sun");
    }
    test.fails(1, "schedule list");
    let created = set("");
    created.shows("schedule `nightly` is created\n");
    assert_eq!(created.out.lines().take(6).collect::<Vec<_>>(), lines[..6]);
    set("").shows("schedule `nightly` is unchanged\n");
    set(" --priority 5").shows("schedule `nightly` is changed\n");
}

#[test]
fn schedules_are_listed_shown_paused_triggered_and_removed() {
    let test = TestDatabase::migrated();
    for verb in ["show", "pause", "resume", "trigger", "remove", "history"] {
        test.fails(1, format!("schedule {verb} nightly"))
            .tells("schedule `nightly` does not exist");
    }
    test.run(format!(
        "{SET} --overlap skip --header trace=7 --missed all"
    ));
    test.fails(1, "schedule history nightly");
    test.run("schedule list").shows("0 8 * * MON-FRI UTC");
    test.run("schedule show nightly")
        .shows("schedule nightly: in ")
        .shows("  header    trace: 7\n")
        .shows("  missed    all\n")
        .shows("08:00:00 +00:00\n")
        .shows("Payload:\n{}\n");
    test.run("schedule pause nightly --reason stocktaking");
    test.run("schedule list").shows("paused");
    let job = test.run("schedule trigger nightly").out;
    test.fails(1, "schedule trigger nightly")
        .prints(&job)
        .tells("is still live");
    let history = test.run("schedule history nightly").out;
    let rows: Vec<&str> = history.lines().skip(1).collect();
    has(rows[0], "overlapped");
    has(rows[1], "triggered");
    has(rows[1], job.trim());
    assert!(rows[1].trim_end().ends_with('-'), "{history}");
    test.run("schedule resume nightly").shows("is resumed");
    test.run("schedule remove nightly").shows("is removed");
    test.run(format!("job show {}", job.trim()));
    let audit = test.run("audit");
    for verb in ["set", "pause", "trigger", "resume", "remove"] {
        audit.shows(format!("{verb}_schedule"));
    }
}
