//! `work --exec` on a host with little left, and what it inherits from its parent.

use std::path::PathBuf;

use redrive_tests::prelude::*;

const CLI: &str = env!("CARGO_BIN_EXE_test_cli");

/// A folder for the files of commands, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(db: &TestDatabase) -> Folder {
        let folder = std::env::temp_dir().join(db.name());
        fs::create_dir(&folder).expect("a new folder");
        Folder(folder)
    }

    /// Waits until a command has made this file.
    #[track_caller]
    fn reaches(&self, name: &str) {
        wait_until(name, SOON, || self.0.join(name).exists());
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A shell line in which `"$@"` is `redrive work w` with these arguments.
fn under(db: &TestDatabase, folder: &Folder, line: &str, work: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", line, "sh", CLI, "work", "w"])
        .args(work)
        .env("DATABASE_URL", db.url())
        .current_dir(&folder.0)
        .stdin(Stdio::null());
    command
}

/// Runs it, and returns how it ended and what it said.
fn worked(db: &TestDatabase, folder: &Folder, line: &str, work: &[&str]) -> (ExitStatus, String) {
    let output = under(db, folder, line, work).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status, said)
}

fn is_leased(db: &TestDatabase) -> bool {
    stats(&db.open(), "w").is_some_and(|stats| stats.leased == 1)
}

#[test]
fn a_signal_stops_a_worker_whatever_its_parent_blocked_or_ignored() {
    for (signal, ignored) in [
        ("TERM", "TERM"),
        ("INT", "INT"),
        ("QUIT", "QUIT"),
        // Ignored by `nohup`, so only blocked here.
        ("HUP", "CHLD"),
    ] {
        let db = TestDatabase::migrated();
        let (queue, folder) = (db.queue("w"), Folder::new(&db));
        queue.enqueue(&Order { number: 1 }).unwrap();
        let line = format!(
            "exec env --ignore-signal={ignored} --block-signal=TERM,INT,QUIT,HUP,USR1 \"$@\""
        );
        let command = "touch begun; while ! test -e end; do sleep 0.05; done; touch done";
        let mut worker = Process::start(&mut under(&db, &folder, &line, &["--exec", command]));
        folder.reaches("begun");
        // None of these ends it by accident.
        for stray in ["USR1", "USR2", "PIPE", "ALRM"] {
            worker.signal(stray);
        }
        worker.signal(signal);
        fs::write(folder.0.join("end"), "").unwrap();
        assert_eq!(worker.ends().code(), Some(0), "{ignored}");
        assert!(folder.0.join("done").exists(), "{ignored}");
        assert!(queue.is_drained().unwrap(), "{ignored}");
    }
}

#[test]
fn nohup_keeps_its_meaning_and_a_second_signal_stops_at_once() {
    let db = TestDatabase::migrated();
    let (queue, folder) = (db.queue("w"), Folder::new(&db));
    queue.enqueue(&Order { number: 1 }).unwrap();
    let stubborn = [
        "--exec",
        "trap '' TERM; touch begun; sleep 300",
        "--grace",
        "1h",
    ];
    let line = "exec env --ignore-signal=HUP \"$@\"";
    let mut worker = Process::start(&mut under(&db, &folder, line, &stubborn));
    folder.reaches("begun");
    worker.signal("HUP");
    assert!(is_leased(&db), "a hangup stops nothing under nohup");
    worker.signal("TERM");
    worker.signal("INT");
    worker.ends();
    assert_eq!(letters_in(&db.open(), "w", LetterState::Open), 0);
}

#[test]
fn a_command_starts_with_the_default_action_of_every_signal() {
    let db = TestDatabase::migrated();
    let (queue, folder) = (db.queue("w"), Folder::new(&db));
    queue.enqueue(&Order { number: 1 }).unwrap();
    let line = "exec env --ignore-signal=HUP,INT,QUIT,TERM,USR1,CHLD,PIPE,TSTP \
                --block-signal=TERM,USR2,CHLD \"$@\"";
    let work = [
        "--exec",
        "grep -E '^Sig(Blk|Ign)' /proc/self/status > masks",
        "--drain",
    ];
    let (status, error) = worked(&db, &folder, line, &work);
    assert!(status.success(), "{error}");
    let masks = folder.file("masks");
    assert_eq!(masks.lines().count(), 2, "{masks}");
    for line in masks.lines() {
        let (_, mask) = line.split_once(":\t").expect("a mask");
        let mask = u64::from_str_radix(mask, 16).expect("a number");
        // The C library keeps the signals above 31 to itself.
        assert_eq!(mask & 0x7fff_ffff, 0, "{masks}");
    }
}

#[test]
fn commands_wait_for_the_descriptors_of_a_host_and_each_gets_its_input() {
    let db = TestDatabase::migrated();
    let (queue, folder) = (db.queue("w"), Folder::new(&db));
    queue.enqueue_many(&Order::up_to(60)).unwrap();
    let work = [
        "--exec",
        "cat >> $REDRIVE_JOB_ID",
        "--slots",
        "40",
        "--drain",
    ];
    let limits = "ulimit -n 60; exec \"$@\"";
    let (status, error) = worked(&db, &folder, limits, &work);
    assert!(status.success(), "{error}");
    let inputs: Vec<String> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert_eq!(inputs.len(), 60);
    assert!(
        inputs
            .iter()
            .all(|input| input.starts_with("{\"number\":") && input.ends_with("}\n")),
        "{inputs:?}"
    );
    assert_eq!(db.open().listed(&LetterFilter::new()).len(), 0);
}

#[test]
fn a_worker_that_cannot_run_its_commands_says_why_and_starts_nothing() {
    let db = TestDatabase::migrated();
    let (queue, folder) = (db.queue("w"), Folder::new(&db));
    fs::write(folder.0.join("plain"), "").unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let work = |line: &str, command: &str| {
        let line = format!("{line} exec \"$@\"");
        let work = ["--exec", command, "--slots", "1", "--drain"];
        worked(&db, &folder, &line, &work)
    };
    let (missing, gone) = ("does not exist", "mkdir gone; cd gone; rmdir ../gone;");
    let no_file = "does not exist or is not executable";
    for (line, command, why) in [
        ("", "./missing", &*format!("`./missing` {no_file}")),
        ("", "./plain --now", &*format!("`./plain` {no_file}")),
        ("", "no-such | cat", &*format!("`no-such` {missing}")),
        (gone, "true", "the working directory is gone"),
    ] {
        let (status, error) = work(line, command);
        assert_eq!(status.code(), Some(2), "{line} {command}: {error}");
        has(&error, why);
    }
    for command in [
        "if true; then true; fi",
        "X=1 true",
        "cd . && true",
        "'true'",
    ] {
        queue.enqueue(&Order { number: 2 }).unwrap();
        let (status, error) = work("", command);
        assert!(status.success(), "{command}: {error}");
    }
    assert_eq!(letters_in(&db.open(), "w", LetterState::Open), 0);
}

#[test]
fn a_worker_runs_without_its_standard_descriptors() {
    let db = TestDatabase::migrated();
    let (queue, folder) = (db.queue("w"), Folder::new(&db));
    for line in [
        "exec \"$@\" <&- >&- 2>&-",
        "exec \"$@\" >/dev/full 2>/dev/full",
        "exec \"$@\" 2>&-",
    ] {
        queue.enqueue(&Order { number: 1 }).unwrap();
        let work = ["--exec", "cat > input", "--drain"];
        let (status, _) = worked(&db, &folder, line, &work);
        assert!(status.success(), "{line}: {status}");
        assert_eq!(folder.file("input"), "{\"number\":1}\n", "{line}");
    }
}
