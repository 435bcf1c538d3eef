//! The runbooks of the alerts and the panels of the dashboards: every command exists and every statement runs.

use redrive_tests::prelude::*;

const RUNBOOKS: &str = "alerts/runbooks.md";

/// A database in which the run 1, the failure group 1 and the policy `redrive-orders` exist, and in whose
/// queue `orders` nothing waits, so that no command has long to run.
fn furnished() -> TestDatabase {
    let test = TestDatabase::migrated();
    test.client().sql("SELECT redrive.capture('kafka:other', '1', 'other', 'k', '\\x7b7d', error_class => 'Timeout')");
    test.run("dlq redrive other --yes --detach");
    test.run("dlq runs pause 1");
    test.run("schedule redrive redrive-orders orders --every 6h --batch 50");
    test
}

#[test]
fn every_command_in_the_runbooks_exists() {
    let test = furnished();
    let mut commands = 0;
    let mut wrong = Vec::new();
    for text in code(&committed(RUNBOOKS)) {
        let Some(arguments) = text.strip_prefix("redrive ") else {
            continue;
        };
        let mut arguments = words(arguments);
        if arguments[0] == "work" {
            arguments.push("--drain".to_owned());
        }
        // The reader's own program.
        let typed = |word: &'_ String| match word.starts_with("./") {
            true => "true".to_owned(),
            false => word.clone(),
        };
        let arguments: Vec<String> = arguments.iter().map(typed).collect();
        let ran = ran(&test, &arguments);
        if ran.code == ExitCode::from(2) {
            wrong.push(format!("`{text}`: {}", ran.err));
        }
        commands += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands > 60, "only {commands} commands");
}

#[test]
fn every_statement_in_the_runbooks_runs() {
    let (_test, mut client) = TestDatabase::with_client();
    let mut blocks = 0;
    for block in committed(RUNBOOKS).split("```sql\n").skip(1) {
        let statements = block.split("```").next().unwrap_or_default();
        client.sql(statements);
        blocks += 1;
    }
    assert!(blocks > 10, "only {blocks} blocks");
}

/// What a placeholder of a panel stands for.
const PLACEHOLDERS: [(&str, &str); 12] = [
    ("DEPENDENCY", "gateway"),
    ("REASON", "timeout"),
    ("QUEUE", "orders"),
    ("CLASS", "Timeout"),
    ("GROUP", "1"),
    ("TABLE", "leases"),
    ("KIND", "order"),
    ("NAME", "ann"),
    ("TEXT", "fixed"),
    ("SLOT", "backup"),
    ("RUN", "1"),
    ("ID", "1"),
];

#[test]
fn what_panels_suggest_to_type_is_valid() {
    let (test, mut client) = TestDatabase::with_client();
    let typed = suggested();
    let mut wrong = Vec::new();
    for line in &typed {
        if line.starts_with("SELECT") {
            client.sql(&format!("EXPLAIN {}", line.replace("PID", "1")));
        }
        let fill = |line: String, (word, value): &(&str, &str)| line.replace(word, value);
        let line = PLACEHOLDERS.iter().fold(line.clone(), fill);
        if let Some(arguments) = line.strip_prefix("redrive ") {
            // It does nothing then.
            let ran = test.run(format!("{arguments} --help"));
            if ran.code != ExitCode::SUCCESS {
                wrong.push(format!("`{line}`: {}", ran.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(typed.len() > 40, "only {} lines", typed.len());
}

/// Returns what the descriptions of the panels suggest to type.
fn suggested() -> BTreeSet<String> {
    let mut typed = BTreeSet::new();
    for name in ["overview", "queue", "dead-letters", "postgres"] {
        let text = committed(&format!("grafana/{name}.json"));
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let nested = panels
            .iter()
            .flat_map(|row| row["panels"].as_array().into_iter().flatten());
        for panel in panels.iter().chain(nested) {
            let described = panel["description"].as_str().unwrap_or_default();
            if let Some((_, lines)) = described.split_once("**Type:** ") {
                typed.extend(lines.split('`').skip(1).step_by(2).map(str::to_owned));
            }
        }
    }
    typed
}

/// Returns the inline code of a text.
fn code(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("```"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}
