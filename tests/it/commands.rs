//! The commands of the command line, and examples of each, with which tests run all of them.

use redrive_tests::prelude::*;

use crate::cli::{letters, payloads};

/// The file of the examples.
pub(crate) const EXAMPLES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/redrive-cli/commands.txt"
);

/// A command line, the role that may run it, and the names in the lines that it prints.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) role: String,
    pub(crate) line: String,
    pub(crate) names: BTreeSet<String>,
}

/// Returns the examples of all commands, in the order in which they can run one after the other.
pub(crate) fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let text = fs::read_to_string(EXAMPLES).expect("the examples");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for text in lines.filter(|line| !line.is_empty()) {
        if text.starts_with(' ') {
            let example = examples.last_mut().expect("names are below an example");
            example
                .names
                .extend(text.split_whitespace().map(str::to_owned));
        } else {
            let (role, line) = text.split_once(' ').expect("a role and a command");
            examples.push(Example {
                role: role.to_owned(),
                line: line.trim().to_owned(),
                names: BTreeSet::new(),
            });
        }
    }
    examples
}

/// Returns the commands that have no subcommands.
fn commands(path: &str) -> Vec<String> {
    let arguments: Vec<&str> = path.split_whitespace().chain(["--help"]).collect();
    let help = ran_alone(&arguments).exits_with(0).out;
    let listed = help.split_once("\nCommands:\n").map(|(_, listed)| listed);
    let Some(listed) = listed else {
        return vec![path.to_owned()];
    };
    let lines = listed.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let is_name = |name: &&str| !name.is_empty() && *name != "help";
    let paths = names.filter(is_name).map(|name| format!("{path}{name} "));
    paths.flat_map(|path| commands(&path)).collect()
}

/// A database with one of everything that the examples need.
pub(crate) struct Stage {
    letter: JobId,
    archived: JobId,
    group: i64,
    job: Option<String>,
    file: TempFile,
}

impl Stage {
    pub(crate) fn new(db: &TestDatabase) -> Stage {
        let letter = letters(db, &db.queue("orders"), 6)[0];
        let archived = archived(db);
        let mut client = db.client();
        let capture = r#"SELECT redrive.capture('s', '1', 'mail', 'mail', '{"tenant": "acme"}', error_message => 'm')"#;
        client.sql(capture);
        let group = "SELECT group_id FROM redrive.dead_letters WHERE queue = 'mail'";
        let group = client.ask(group, &[]);
        unapproved_run(db);
        // Letters in the order of their jobs, whichever ran first.
        let set_up = "UPDATE redrive.dead_letters SET died_at = now() + id * interval '1 microsecond';
            INSERT INTO redrive.group_slots (queue, group_key, slot, job_id, held_at)
                SELECT 'orders', 'g', 1, min(l.id), now() FROM redrive.dead_letters l WHERE l.queue = 'orders';
            INSERT INTO redrive.unique_keys (queue, key, job_id) VALUES ('orders', 'left', -1)";
        client.sql(set_up);
        let file = payloads(2, None);
        Stage {
            letter,
            archived,
            group,
            job: None,
            file,
        }
    }

    /// Takes the id of the first job that a command enqueued, for those that follow.
    pub(crate) fn enqueued(&mut self, out: &str) {
        let id = out.split_once("\"id\":").map(|(_, id)| id);
        let id = id.and_then(|id| id.split([',', '}']).next());
        self.job = self.job.take().or(id.map(str::to_owned));
    }

    /// Returns the arguments of an example, which prints JSON.
    pub(crate) fn arguments(&self, example: &Example) -> Vec<String> {
        let word = |word: &str| match word {
            "LETTER" => self.letter.to_string(),
            "ARCHIVED" => self.archived.to_string(),
            "GROUP" => self.group.to_string(),
            "JOB" => self.job.clone().unwrap_or_else(|| "1".to_owned()),
            "FILE" => self.file.to_string(),
            word => word.to_owned(),
        };
        let words = example.line.split(' ').chain(["--json"]);
        words.map(word).collect()
    }
}

/// Archives the letters of the queue `old`, and returns one of them.
fn archived(db: &TestDatabase) -> JobId {
    let old = db.queue("old");
    let letters = letters(db, &old, 3);
    let operator = Operator::new("maria");
    let retention = old.database().dlq().retention();
    let rule = RetentionRule::archive(LetterState::Open, Duration::ZERO).queue("old");
    retention.set(&rule, &operator).expect("a rule");
    assert_eq!(retention.apply(&operator).expect("an archive"), 3);
    let removed = retention.remove(Some("old"), LetterState::Open, &operator);
    assert!(removed.expect("a rule"));
    letters[0]
}

/// Creates the run 1, which waits for the approval of a second operator.
fn unapproved_run(db: &TestDatabase) {
    let queue = db.queue("payments");
    letters(db, &queue, 1);
    let maria = Operator::new("maria");
    let dlq = queue.database().dlq();
    let protection = Protection::new("payments").approve_above(0);
    dlq.protect(&protection, &maria).expect("a protection");
    let filter = LetterFilter::new().queue("payments");
    let run = dlq.runs().create(&filter, &RunOptions::new(), &maria);
    assert_eq!(run.expect("a run").expect("a letter").id.get(), 1);
}

#[test]
fn every_command_has_an_example() {
    let (commands, examples) = (commands(""), examples());
    let is_shown = |command: &&String| {
        let starts = |example: &Example| format!("{} ", example.line).starts_with(command.as_str());
        examples.iter().any(starts)
    };
    assert!(commands.len() > 60, "{commands:?}");
    let missing: Vec<&String> = commands.iter().filter(|each| !is_shown(each)).collect();
    assert_eq!(missing, [""; 0], "add an example to {EXAMPLES}");
}
