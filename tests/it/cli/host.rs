//! `work --exec` on a host with little left, and what it inherits from its parent.

use std::path::PathBuf;

use redrive_tests::prelude::*;

/// A queue `w`, and a folder for the files of its commands, which is removed at the end of the test.
struct Host {
    queue: Queue,
    folder: PathBuf,
    db: TestDatabase,
}

impl Host {
    /// A host with this many jobs to run.
    fn with_jobs(count: i64) -> Host {
        let db = TestDatabase::migrated();
        let queue = db.queue("w");
        queue.enqueue_many(&Order::up_to(count)).unwrap();
        let folder = std::env::temp_dir().join(db.name());
        fs::create_dir(&folder).expect("a new folder");
        Host { queue, folder, db }
    }

    /// A shell line in which `"$@"` is `redrive work w` with this command and these options.
    fn line(&self, line: &str, exec: &str, options: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh", env!("CARGO_BIN_EXE_test_cli")]);
        command.args(["work", "w", "--exec", exec]);
        command.args(options.split_whitespace());
        command.env("DATABASE_URL", self.db.url());
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Drains the queue in this way, and returns the exit code and the errors.
    fn drains(&self, line: &str, exec: &str, options: &str) -> (Option<i32>, String) {
        let mut command = self.line(line, exec, &format!("{options} --drain"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    }

    /// Starts a worker, whose command makes the file `begun`.
    #[track_caller]
    fn starts(&self, line: &str, exec: &str, options: &str) -> Process {
        let worker = Process::start(&mut self.line(line, exec, options));
        wait_until("the command to begin", SOON, || {
            self.folder.join("begun").exists()
        });
        worker
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
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
        let host = Host::with_jobs(1);
        let line = format!(
            "exec env --ignore-signal={ignored} --block-signal=TERM,INT,QUIT,HUP,USR1 \"$@\""
        );
        let command = "touch begun; while ! test -e end; do sleep 0.05; done; touch done";
        let mut worker = host.starts(&line, command, "");
        // None of these ends it by accident.
        for stray in ["USR1", "USR2", "PIPE", "ALRM"] {
            worker.signal(stray);
        }
        worker.signal(signal);
        fs::write(host.folder.join("end"), "").unwrap();
        assert_eq!(worker.ends().code(), Some(0), "{ignored}");
        assert!(host.folder.join("done").exists(), "{ignored}");
        assert!(host.queue.is_drained().unwrap(), "{ignored}");
    }
}

#[test]
fn nohup_keeps_its_meaning_and_a_second_signal_kills_the_command() {
    let host = Host::with_jobs(1);
    let line = "exec env --ignore-signal=HUP \"$@\"";
    let stubborn = "trap '' TERM; touch begun; sleep 300";
    let worker = host.starts(line, stubborn, "--grace 1h --json");
    worker.signal("HUP");
    let leased = stats(host.queue.database(), "w").map(|stats| stats.leased);
    assert_eq!(leased, Some(1), "a hangup stops nothing under nohup");
    worker.signal("TERM");
    worker.signal("INT");
    worker.exits_with(0).holds(&json!({"killed": 1}));
    assert_eq!(in_state(&host.queue, LetterState::Open), 0);
}

#[test]
fn a_command_starts_with_the_default_action_of_every_signal() {
    let host = Host::with_jobs(1);
    let line = "exec env --ignore-signal=HUP,INT,QUIT,TERM,USR1,CHLD,PIPE,TSTP \
                --block-signal=TERM,USR2,CHLD \"$@\"";
    let command = "grep -E '^Sig(Blk|Ign)' /proc/self/status > masks";
    let (code, error) = host.drains(line, command, "");
    assert_eq!(code, Some(0), "{error}");
    let masks = host.file("masks");
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
    let host = Host::with_jobs(60);
    let limited = "ulimit -n 60; exec \"$@\"";
    let (code, error) = host.drains(limited, "cat >> $REDRIVE_JOB_ID", "--slots 40");
    assert_eq!(code, Some(0), "{error}");
    let files = fs::read_dir(&host.folder).unwrap();
    let inputs = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let inputs: BTreeSet<String> = inputs.collect();
    let expected = (1..=60).map(|number| format!("{{\"number\":{number}}}\n"));
    assert_eq!(inputs, expected.collect::<BTreeSet<_>>());
    assert_eq!(in_state(&host.queue, LetterState::Open), 0);
}

#[test]
fn a_worker_that_cannot_run_its_commands_says_why_and_starts_nothing() {
    let host = Host::with_jobs(1);
    fs::write(host.folder.join("plain"), "").unwrap();
    let gone = "mkdir gone; cd gone; rmdir ../gone; exec \"$@\"";
    let (here, missing) = ("exec \"$@\"", "does not exist");
    let no_file = "does not exist or is not executable";
    for (line, command, why) in [
        (here, "./missing", &*format!("`./missing` {no_file}")),
        (here, "./plain --now", &*format!("`./plain` {no_file}")),
        (here, "no-such | cat", &*format!("`no-such` {missing}")),
        (gone, "true", "the working directory is gone"),
    ] {
        let (code, error) = host.drains(line, command, "");
        assert_eq!(code, Some(2), "{line} {command}: {error}");
        has(&error, why);
    }
    for command in [
        "if true; then true; fi",
        "X=1 true",
        "cd . && true",
        "'true'",
    ] {
        host.queue.enqueue(&Order { number: 2 }).unwrap();
        let (code, error) = host.drains(here, command, "");
        assert_eq!(code, Some(0), "{command}: {error}");
    }
    assert_eq!(in_state(&host.queue, LetterState::Open), 0);
}

#[test]
fn a_worker_runs_without_its_standard_descriptors() {
    let host = Host::with_jobs(1);
    for line in [
        "exec \"$@\" <&- >&- 2>&-",
        "exec \"$@\" >/dev/full 2>/dev/full",
        "exec \"$@\" 2>&-",
    ] {
        let (code, _) = host.drains(line, "cat > input", "");
        assert_eq!(code, Some(0), "{line}");
        assert_eq!(host.file("input"), "{\"number\":1}\n", "{line}");
        host.queue.enqueue(&Order { number: 1 }).unwrap();
    }
}
