//! The way of the person on call from the screen to closed groups: 3,000 letters of 5 causes in 30
//! kinds, in a window of 80 columns.

use redrive_tests::prelude::*;

/// The causes: error class, message and first line of the detail.
const CAUSES: [(&str, &str); 5] = [
    (
        "Timeout",
        "no answer from payments.internal:8443 after 30 s (request %s)",
    ),
    (
        "HttpStatus",
        "HTTP 503 from https://ledger.internal/v1/orders/%s",
    ),
    (
        "InvalidCurrency",
        "currency `EURO` of order %s is not an ISO code",
    ),
    ("Deadlock", "deadlock detected while updating account %s"),
    ("MissingField", "order %s: missing field `customer`"),
];

/// The width of the window.
const COLUMNS: usize = 80;

/// A terminal.
struct Terminal<'a> {
    test: &'a TestDatabase,
}

impl Terminal<'_> {
    /// Types a command as in a shell. Fails unless it exits with 0 and fits into the window.
    fn types(&self, command: &str) -> String {
        // A function, so that the shell splits the arguments.
        let program = env!("CARGO_BIN_EXE_test_cli");
        let script = format!("redrive() {{ '{program}' \"$@\"; }}\n{command}");
        let done = Command::new("sh")
            .args(["-c", &script])
            .env("DATABASE_URL", self.test.url())
            .env("COLUMNS", COLUMNS.to_string())
            .env("LC_ALL", "C.UTF-8")
            .env_remove("CLICOLOR_FORCE")
            .output()
            .expect("a shell");
        let out = String::from_utf8(done.stdout).expect("UTF-8");
        let err = String::from_utf8(done.stderr).expect("UTF-8");
        assert!(
            done.status.success(),
            "{command}: {}\n{out}{err}",
            done.status
        );
        for line in out.lines() {
            let width = line.chars().count();
            assert!(width <= COLUMNS, "{width} columns: {line}\n{command}");
        }
        out
    }
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

/// Makes 3,000 letters: 600 of each cause, over 30 kinds, in the last day.
fn furnish(test: &TestDatabase) {
    let mut client = test.client();
    for (place, (class, message)) in CAUSES.iter().enumerate() {
        client.change("INSERT INTO redrive.dead_letters
                     (queue, kind, cause, error_class, error_message, error_detail, payload, host, version,
                      enqueued_at, died_at)
                 SELECT 'orders', format('shop.step_%s', lpad((n % 30)::text, 2, '0')), 'exhausted', $1,
                        format($2, 10000 + n),
                        E'no answer\\n   0: std::panicking::begin_panic\\n   1: core::result::unwrap_failed\\n'
                        '   2: shop::pay\\n   3: shop::main\\n   4: main',
                        jsonb_build_object('order', 10000 + n, 'tenant', 'tenant-' || n % 7), 'web-' || n % 3,
                        '1.4.' || n % 2, now() - interval '1 day',
                        now() - interval '1 minute' * (n + $3::integer)
                 FROM generate_series(1, 600) n", &[class, message, &i32::try_from(place).expect("a small number")]);
    }
}

/// Looks at two letters, redrives one and discards the other, as suggested.
fn look_at_letters(terminal: &Terminal<'_>) {
    let letters = terminal.types("redrive dlq list class=Timeout --limit 2");
    let ids: Vec<&str> = letters
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.parse::<i64>().is_ok())
        .collect();
    assert_eq!(ids.len(), 2, "{letters}");
    let shown = terminal.types(&format!("redrive dlq show {}", ids[0]));
    has(&shown, "2: shop::pay");
    let next = suggested(&shown);
    let [list, redrive, discard] = &*next else {
        panic!("{next:?}")
    };
    terminal.types(list);
    terminal.types(redrive);
    let discard = discard
        .replace(ids[0], ids[1])
        .replace("TEXT", "'paid by hand'");
    terminal.types(&discard);
}

#[test]
fn the_way_from_the_screen_to_closed_groups_fits_into_80_columns() {
    let test = TestDatabase::migrated();
    furnish(&test);
    let queue = test.queue("orders");
    let worker = worker(&queue).handle_any(|_| Ok(())).started();
    let terminal = Terminal { test: &test };

    let screen = terminal.types("redrive dlq");
    has(&screen, "600 waiting in 30 kinds");
    // At least half of the window is for the message.
    let message = "no answer from payments.internal:8443 after 30 s (request 10030)";
    let shown = &message[..message.len().min(COLUMNS / 2 - "Timeout: ".len() - 1)];
    has(&screen, format!("Timeout: {shown}"));
    let next = suggested(&screen);
    assert!(
        next.contains(&"redrive dlq groups queue=orders class=Timeout".to_owned()),
        "{next:?}"
    );
    assert!(next.len() >= 6, "{next:?}");
    for command in next {
        terminal.types(&command);
    }
    let groups = terminal.types("redrive dlq groups orders class=Timeout 'age<24h' --limit 3");
    has(&groups, "KIND");
    has(&groups, "shop.step_");
    let row = groups.lines().find(|line| line.contains("shop.step_"));
    let group = row.and_then(|line| line.split_whitespace().next());
    let group = group.expect("a group").to_owned();
    let shown = terminal.types(&format!("redrive dlq groups show {group}"));
    for command in suggested(&shown) {
        let counted = terminal.types(&command);
        assert!(
            !command.contains("--by") || counted.contains("1.4."),
            "{counted}"
        );
    }
    terminal.types(&format!(
        "redrive dlq groups show {group} --by payload.tenant"
    ));
    terminal.types("redrive dlq groups ack class=Timeout");
    terminal.types("redrive dlq groups ack class=Timeout --reason INC-42 --yes");

    look_at_letters(&terminal);

    // The cause is fixed: validate, redrive a few, then the others.
    let json = json!({"type": "object", "required": ["order"]});
    let schema = TempFile::of(json.to_string());
    let passed = terminal.types(&format!(
        "redrive dlq validate class=Timeout --schema {schema}"
    ));
    has(&passed, "598 would pass, 0 fail");
    let redrive = "redrive dlq redrive class=Timeout";
    has(terminal.types(redrive), "To act, add --yes.");
    let run = terminal.types(&format!(
        "{redrive} --yes --canary 10 --unthrottled --reason 'gateway fixed'"
    ));
    has(&run, "598 sent, 598 recovered, 0 died again");
    terminal.types("redrive dlq runs list");
    terminal.types("redrive dlq runs show 1");
    let close = "redrive dlq groups resolve class=Timeout --reason 'gateway fixed'";
    has(terminal.types(close), "To act, add --yes.");
    terminal.types(&format!("{close} --yes"));
    let screen = terminal.types("redrive dlq");
    lacks(&screen, "Timeout");
    stop(worker);
    assert_eq!(in_state(&queue, LetterState::Recovered), 599);
}

#[test]
fn a_long_queue_and_kind_leave_the_message_its_own_line() {
    let (test, db) = TestDatabase::opened();
    let kind = "shop.invoice.for.every.customer.abroad";
    let message = "no answer from payments.internal:8443 after 30 s";
    let failure = ForeignFailure::new("s", "1", "orders.northern", kind, *b"{}");
    db.captures(&failure.error("Timeout", message));
    let screen = Terminal { test: &test }.types("redrive dlq");
    let lines = format!("  orders.northern {kind}\n        Timeout: {message}\n");
    has(&screen, lines);
}
