//! The way of the person on call from the screen to closed groups, in a window of 80 columns.

use redrive_tests::prelude::*;

/// The width of the window.
const COLUMNS: usize = 80;

/// Types a command as in a shell. Fails unless it exits with 0 and fits into the window.
fn types(test: &TestDatabase, command: &str) -> String {
    // A function, so that the shell splits the arguments.
    let program = env!("CARGO_BIN_EXE_test_cli");
    let script = format!("redrive() {{ '{program}' \"$@\"; }}\n{command}");
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &script]).env("LC_ALL", "C.UTF-8");
    shell.env("DATABASE_URL", test.url());
    shell.env_remove("CLICOLOR_FORCE");
    let done = shell.env("COLUMNS", COLUMNS.to_string()).output();
    let done = done.expect("a shell");
    let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    assert!(done.status.success(), "{command}: {out}{err}");
    let is_wide = |line: &&str| line.chars().count() > COLUMNS;
    assert_eq!(out.lines().find(is_wide), None, "{command}");
    out
}

/// Returns the commands that a screen suggests.
fn suggested(out: &str) -> Vec<String> {
    let lines = out.lines().filter_map(|line| {
        let (before, command) = line.split_once("redrive ")?;
        let is_alone = before.trim().is_empty();
        let words: Vec<&str> = command.split_whitespace().collect();
        (is_alone || before.trim().ends_with("more:"))
            .then(|| format!("redrive {}", words.join(" ")))
    });
    lines.collect()
}

/// Makes 600 letters of each of five error classes, over 30 kinds.
const LETTERS: &str = "INSERT INTO redrive.dead_letters
        (queue, kind, cause, error_class, error_message, error_detail, payload, version, enqueued_at, died_at)
    SELECT 'orders', format('shop.step_%s', lpad((n % 30)::text, 2, '0')), 'exhausted', class,
           format('no answer from payments.internal:8443 after 30 s (request %s)', 10000 + n),
           E'no answer\\n   0: std::panicking::begin_panic\\n   1: shop::pay\\n   2: shop::main',
           jsonb_build_object('order', n, 'tenant', 'tenant-' || n % 7), '1.4.' || n % 2, now(),
           now() - interval '1 minute' * n
    FROM generate_series(1, 600) n, unnest('{Timeout,HttpStatus,InvalidCurrency,Deadlock,MissingField}'::text[]) class";

#[test]
fn the_way_from_the_screen_to_closed_groups_fits_into_80_columns() {
    let (test, queue) = TestDatabase::with_orders();
    test.sql(LETTERS);
    let worker = worker(&queue).handle_any(|_| Ok(())).started();
    let types = |command: &str| types(&test, command);

    let screen = types("redrive dlq");
    has(&screen, "600 waiting in 30 kinds");
    // The message has the window for itself.
    has(&screen, "Timeout: no answer from payments.");
    let next = suggested(&screen);
    let of_class = "redrive dlq groups queue=orders class=Timeout".to_owned();
    assert!(next.len() >= 6 && next.contains(&of_class), "{next:?}");
    for command in next {
        types(&command);
    }
    let groups = types("redrive dlq groups orders class=Timeout 'age<24h' --limit 3");
    let row = groups.lines().find(|line| line.contains("shop.step_"));
    let group = row.and_then(|line| line.split_whitespace().next());
    let group = group.expect("a group");
    let shown = types(&format!("redrive dlq groups show {group}"));
    for command in suggested(&shown) {
        let counted = types(&command);
        let is_right = !command.contains("--by") || counted.contains("1.4.");
        assert!(is_right, "{counted}");
    }
    types("redrive dlq groups ack class=Timeout --reason INC-42 --yes");

    // One letter is looked at and redriven, and another one discarded.
    let ids = queue.listed_ids(&LetterFilter::new().error_class("Timeout").limit(2));
    let shown = types(&format!("redrive dlq show {}", ids[0]));
    has(&shown, "1: shop::pay");
    let next = suggested(&shown);
    let [list, redrive, discard] = &*next else {
        panic!("{next:?}")
    };
    types(list);
    types(redrive);
    let discard = discard.replace(&ids[0].to_string(), &ids[1].to_string());
    types(&discard.replace("TEXT", "'paid by hand'"));

    // The cause is fixed: redrive a few, then the others.
    let redrive = "redrive dlq redrive class=Timeout";
    has(types(redrive), "To act, add --yes.");
    let run = types(&format!(
        "{redrive} --yes --canary 10 --unthrottled --reason fixed"
    ));
    has(&run, "598 sent, 598 recovered, 0 died again");
    types("redrive dlq runs list");
    types("redrive dlq runs show 1");
    types("redrive dlq groups resolve class=Timeout --reason fixed --yes");
    lacks(types("redrive dlq"), "Timeout");
    stop(worker);
    assert_eq!(in_state(&queue, LetterState::Recovered), 599);
}

#[test]
fn the_screen_keeps_failures_apart_whose_titles_were_erased() {
    let (test, queue) = TestDatabase::with_orders();
    for message in ["no funds", "no such card"] {
        let event = ForeignFailure::new("kafka", message, "orders", "order", "{}");
        queue.captures(&event.error("Declined", message));
    }
    test.sql("UPDATE redrive.groups SET title = '[erased]'");
    let screen = test.run("dlq --json").json();
    assert_eq!(screen["failures"].as_array().map(Vec::len), Some(2));
    assert_eq!(screen["others"][0]["part"], "Oldest letter");
}
