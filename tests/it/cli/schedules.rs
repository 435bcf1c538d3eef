//! `redrive schedule`.

use redrive_tests::{Ran, TestDatabase, ran};

const SET: [&str; 8] = [
    "schedule",
    "set",
    "nightly",
    "reports",
    "report",
    "{}",
    "--cron",
    "0 8 * * MON-FRI",
];

#[track_caller]
fn run(test: &TestDatabase, code: u8, arguments: &[&str]) -> Ran {
    ran(test, arguments).exits_with(code)
}

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SET.iter().chain(more).copied().collect()
}

#[test]
fn setting_a_schedule_prints_its_next_five_ticks_first() {
    let test = TestDatabase::migrated();
    let dry = run(&test, 0, &with(&["--zone", "Europe/Berlin", "--dry-run"]));
    let lines: Vec<&str> = dry.out.lines().collect();
    assert_eq!(lines.len(), 7, "{}", dry.out);
    assert_eq!(
        (lines[0], lines[6]),
        ("The next ticks:", "Nothing was changed.")
    );
    for line in &lines[1..6] {
        assert!(
            line.contains(" 08:00:00 +0") && !line.contains("Sat") && !line.contains("Sun"),
            "{line}"
        );
    }
    run(&test, 1, &["schedule", "list"]);
    let set = run(&test, 0, &with(&["--zone", "Europe/Berlin"]));
    assert_eq!(set.out.lines().take(6).collect::<Vec<_>>(), lines[..6]);
    assert!(
        set.out.ends_with("schedule `nightly` is created\n"),
        "{}",
        set.out
    );
    let again = run(&test, 0, &with(&["--zone", "Europe/Berlin"]));
    assert!(
        again.out.ends_with("schedule `nightly` is unchanged\n"),
        "{}",
        again.out
    );
    let urgent = run(
        &test,
        0,
        &with(&["--zone", "Europe/Berlin", "--priority", "5"]),
    );
    assert!(
        urgent.out.ends_with("schedule `nightly` is changed\n"),
        "{}",
        urgent.out
    );
}

#[test]
fn an_invalid_schedule_is_rejected_with_the_position_of_the_mistake() {
    let test = TestDatabase::migrated();
    let base = ["schedule", "set", "s", "q", "k"];
    for (more, why) in [
        (
            &["{}", "--cron", "0 25 * * *"][..],
            "at character 3: `25` is not a valid hour (0-23)",
        ),
        (
            &["{}", "--cron", "0 8 * *"],
            "at character 8: the line ends after 4 fields",
        ),
        (
            &["{}", "--cron", "@daily", "--zone", "Europe/Berln"],
            "unknown from character 12 on",
        ),
        (&["{}", "--every", "10x"], "such as 500ms, 90s, 1h30m or 7d"),
        (&["{}", "--every", "100ms"], "1 second to 366 days"),
        (&["{", "--every", "1h"], "the payload is not JSON"),
        (
            &["{}", "--every", "1h", "--missed", "twice"],
            "skip, once or all",
        ),
        (
            &["{}", "--every", "1h", "--overlap", "both"],
            "allow or skip",
        ),
        (
            &["{}", "--every", "1h", "--header", "redrive-x=1"],
            "is reserved",
        ),
        (&["{}"], "--cron"),
        (
            &["{}", "--every", "1h", "--cron", "@daily"],
            "cannot be used with",
        ),
    ] {
        let arguments: Vec<&str> = base.iter().chain(more).copied().collect();
        let refused = run(&test, 2, &arguments);
        assert!(refused.err.contains(why), "{more:?}: {}", refused.err);
    }
}

#[test]
fn schedules_are_listed_shown_paused_triggered_and_removed() {
    let test = TestDatabase::migrated();
    for verb in ["show", "pause", "resume", "trigger", "remove", "history"] {
        let missing = run(&test, 1, &["schedule", verb, "nightly"]);
        assert!(
            missing.err.contains("schedule `nightly` does not exist"),
            "{verb}: {}",
            missing.err
        );
    }
    run(
        &test,
        0,
        &with(&[
            "--overlap",
            "skip",
            "--header",
            "trace=7",
            "--missed",
            "all",
        ]),
    );
    run(&test, 1, &["schedule", "history", "nightly"]);
    let listed = run(&test, 0, &["schedule", "list"]);
    for text in ["nightly", "0 8 * * MON-FRI UTC", "reports", "in "] {
        assert!(listed.out.contains(text), "{}", listed.out);
    }
    let shown = run(&test, 0, &["schedule", "show", "nightly"]);
    for text in [
        "schedule nightly: in ",
        "  header    trace: 7\n",
        "  missed    all, at most 100 of at most 7d\n",
        "08:00:00 +00:00\n",
        "Payload:\n{}\n",
    ] {
        assert!(shown.out.contains(text), "{text}: {}", shown.out);
    }
    run(
        &test,
        0,
        &["schedule", "pause", "nightly", "--reason", "stocktaking"],
    );
    assert!(run(&test, 0, &["schedule", "list"]).out.contains("paused"));
    let job = run(&test, 0, &["schedule", "trigger", "nightly"]).out;
    let live = run(&test, 1, &["schedule", "trigger", "nightly"]);
    assert_eq!(live.out, job);
    assert!(live.err.contains("is still live"), "{}", live.err);
    let history = run(&test, 0, &["schedule", "history", "nightly"]).out;
    let rows: Vec<&str> = history.lines().skip(1).collect();
    assert!(
        rows[0].contains("overlapped") && rows[1].contains("triggered"),
        "{history}"
    );
    assert!(
        rows[1].contains(job.trim()) && rows[1].ends_with("ready"),
        "{history}"
    );
    assert!(
        run(&test, 0, &["schedule", "resume", "nightly"])
            .out
            .contains("is resumed")
    );
    assert!(
        run(&test, 0, &["schedule", "remove", "nightly"])
            .out
            .contains("is removed")
    );
    let audit = run(&test, 0, &["audit"]).out;
    for verb in [
        "set_schedule",
        "pause_schedule",
        "trigger_schedule",
        "resume_schedule",
        "remove_schedule",
    ] {
        assert!(audit.contains(verb), "{audit}");
    }
}
