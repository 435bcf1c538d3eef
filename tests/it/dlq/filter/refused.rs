//! A filter that selects nothing selects nothing, and one that is no filter is an error that names the key, in
//! every operation.

use redrive_tests::prelude::*;

/// Operations on letters that take a filter.
const ON_LETTERS: [&str; 14] = [
    "SELECT redrive.discard($1::text::jsonb, reason => 'x')",
    "SELECT redrive.redrive($1::text::jsonb)",
    "SELECT redrive.redrive($1::text::jsonb, force => true, reason => 'x')",
    "SELECT redrive.reopen_discarded($1::text::jsonb)",
    "SELECT redrive.create_run($1::text::jsonb)",
    "SELECT redrive.set_policy('p', $1::text::jsonb, '1 hour')",
    "SELECT redrive.preview_redrive($1::text::jsonb)",
    "SELECT redrive.blocked_letters($1::text::jsonb)",
    "SELECT redrive.list_letters($1::text::jsonb)",
    "SELECT redrive.count_letters($1::text::jsonb)",
    "SELECT redrive.count_letters_by($1::text::jsonb, 'kind')",
    "SELECT redrive.page_letters($1::text::jsonb, 0, 10)",
    "SELECT redrive.count_letters($1::text::jsonb, true)",
    "SELECT redrive.delete_archived($1::text::jsonb, 10, NULL, 'x')",
];

/// Operations on live jobs that take a filter.
const ON_JOBS: [&str; 7] = [
    "SELECT redrive.list_jobs($1::text::jsonb)",
    "SELECT redrive.count_jobs($1::text::jsonb)",
    "SELECT redrive.page_waiting($1::text::jsonb, NULL, 10)",
    "SELECT redrive.change_jobs('cancel', $1::text::jsonb, NULL, NULL, 10, 'x', 'me', NULL)",
    "SELECT redrive.change_jobs('run_now', $1::text::jsonb, NULL, NULL, 10, 'x', 'me', NULL)",
    "SELECT redrive.change_jobs('set_priority', $1::text::jsonb, NULL, NULL, 10, 'x', 'me', NULL, 5)",
    "SELECT redrive.change_jobs('edit', $1::text::jsonb, NULL, NULL, 10, 'x', 'me', NULL, NULL, '{2}', '{2}', '{3}')",
];

/// Operations with a null limit, a null flag, or an argument that a constraint of a table would reject, and what they
/// say.
const WRONG: &str = r#"
    discard('{}', ' ')                               -- needs a reason
    discard('{}', NULL)                              -- needs a reason
    redrive('{}', force => true)                     -- needs a reason
    redrive('{}', priority => 1001)                  -- priority is 1001
    redrive('{}', max_attempts => 0)                 -- max_attempts is 0
    redrive('{}', to_queue => ' x')                  -- queue name
    redrive(NULL)                                    -- a filter must be a JSON object
    create_run('{}', rate => 0)                      -- the rate is 0
    create_run('{}', canary => -1)                   -- the canary is -1
    create_run('{}', canary => 4294967296)           -- the canary is 4294967296
    change_run(1, 'stop')                            -- unknown verb stop
    discard('{}', 'x', max_letters => NULL) -- is null
    redrive('{}', max_letters => (SELECT 5 WHERE false)) -- is null
    reopen_discarded('{}', max_letters => NULL) -- is null
    create_run('{}', max_letters => NULL) -- is null
    prune_letters('0', max_letters => NULL) -- is null
    apply_retention(max_letters => NULL) -- is null
    prune_audit('30 days', max_records => NULL) -- is null
    restore_archived('{}', 0, NULL, NULL, 'x') -- is null
    delete_archived('{}', NULL, NULL, 'x') -- is null
    erase_batch('{"payload": "$.number == 1"}', NULL, NULL, 'x') -- is null
    change_jobs('cancel', '{}', NULL, NULL, NULL, 'x', 'me', NULL) -- is null
    regroup_letters(1, NULL, NULL) -- is null
    redact_letters('{1}', '{}', NULL, NULL, 'x') -- must be true or false
    discard_letters('{}', 10, NULL, 'x', NULL, NULL) -- must be true or false
    set_rate_limit('orders', 1, each_group => NULL) -- must be true or false
    pause_schedule('hourly', NULL) -- must be true or false
    set_protection(' orders', 1)                     -- invalid queue name
    set_protection('orders')                         -- a number of letters, not nothing
    set_protection('orders', -1)                     -- a number of letters, not -1
    set_protection('orders', roles => '{no_such_role}') -- a number of letters, not no_such_role
    set_protection('orders', roles => '{NULL}')      -- a number of letters, not NULL
    remove_rate_limit('orders', each_group => NULL) -- must be true or false
    repair(NULL) -- must be true or false
    add_group_rule(1, NULL, NULL)                    -- either a group that it merges into or a pattern
    add_group_rule(1, 2, 'x')                        -- either a group that it merges into or a pattern
    add_group_rule(1, NULL, '')                      -- the regular expression '' is empty
    add_group_rule(1, NULL, repeat('x', 1025))       -- is longer than 1024 bytes
    edit_letters('{1}', ARRAY[to_json(repeat('x', 1048576))], NULL, 'x', 'me', '{}', 'set') -- of 1048578 bytes
    change_jobs(NULL, '{}', NULL, NULL, 10, 'x', 'me', NULL) -- unknown change NULL
    change_jobs('pause', '{}', NULL, NULL, 10, 'x', 'me', NULL) -- unknown change 'pause'
    change_jobs('set_priority', '{}', NULL, NULL, 10, 'x', 'me', NULL) -- the priority is NULL
    change_jobs('set_priority', '{}', NULL, NULL, 10, 'x', 'me', NULL, 1001) -- the priority is 1001
    change_jobs('edit', '{}', NULL, NULL, 10, 'x', 'me', NULL, NULL, '{4,4}', '{1,1}', '{2,3}') -- a job is given twice
    prune_letters('-1 s')                            -- prune needs an age, which is not negative
    prune_audit('29 days')                           -- can be pruned after 30 days
    set_policy('p', '{}', '1 hour', batch => 10001) -- needs a batch of 1 to 10000
    set_policy('p', '{}', '1 hour', generations => NULL) -- needs a limit of 1 to 100000 generations
    set_policy('p', '{}', '1 hour', growth => 'NaN') -- needs a growth of 1 to 100
    capture('s', '1', 'q', 'k', '{}', group_key => '') -- the group is 0 bytes
    capture('s', '1', 'q', 'k', '{}', headers => '[]') -- the headers must be a JSON object
    capture_letters(ARRAY['{"source": "s", "position": "1", "queue": " q", "kind": "k"}'::jsonb], '{x}') -- invalid queue name
"#;

const ERASE: &str = "SELECT redrive.erase_batch($1::text::jsonb, 10, 'me', 'x')";

/// Expects an error that names this.
#[track_caller]
fn refused(client: &mut Client, operation: &str, filter: &str, named: &str) {
    let error = match client.query(operation, &[&filter]) {
        Ok(rows) => panic!("{operation} takes {filter}: {} rows", rows.len()),
        Err(error) => error,
    };
    let code = error.code().map(SqlState::code);
    let is_right = code == Some("22023") && refusal(&error).contains(named);
    assert!(is_right, "{operation} {filter}: {error:?}");
}

fn setup() -> (TestDatabase, Client) {
    let test = TestDatabase::migrated();
    let queue = test.queue("q");
    letters(&queue, 3);
    queue.enqueue_many(&Order::up_to(3)).unwrap();
    let client = test.client();
    (test, client)
}

#[test]
fn a_null_an_unknown_key_and_a_wrong_value_are_refused_in_every_operation() {
    let (_test, mut client) = setup();
    let keys = |client: &mut Client, list: &str| -> Vec<String> {
        let odd = format!("SELECT redrive.{list}('{{\"odd\": 1}}')");
        let error = client.query(&odd, &[]).expect_err("an unknown key");
        let hint = error.as_db_error().and_then(|error| error.hint());
        let listed = hint.and_then(|hint| hint.strip_prefix("Expected one of "));
        let listed = listed.expect("the keys").trim_end_matches('.');
        listed.split(", ").map(str::to_owned).collect()
    };
    let of_letters = keys(&mut client, "list_letters");
    let of_jobs = keys(&mut client, "list_jobs");
    assert!(of_letters.len() > 20 && of_jobs.len() > 15);
    for (operations, keys) in [(&ON_LETTERS[..], of_letters), (&ON_JOBS[..], of_jobs)] {
        for operation in operations {
            for key in &keys {
                for value in ["null", "[null]", "{}", "true"] {
                    let filter = format!("{{\"{key}\": {value}}}");
                    refused(&mut client, operation, &filter, key);
                }
            }
            refused(&mut client, operation, "{\"odd\": null}", "odd");
            refused(&mut client, operation, "{\"ids\": [1], \"odd\": 1}", "odd");
            for filter in ["null", "[]", "[{}]", "1", "\"queue=q\""] {
                refused(&mut client, operation, filter, "JSON object");
            }
        }
    }
    for key in ["ids", "queue", "kind", "payload"] {
        let filter = format!("{{\"payload\": \"$ == 1\", \"{key}\": null}}");
        refused(&mut client, ERASE, &filter, key);
    }
    refused(&mut client, ERASE, "{\"ids\": null}", "ids");
    refused(&mut client, ERASE, "{\"ids\": [1], \"odd\": 1}", "odd");
    assert_eq!(client.count("dead_letters WHERE state = 'open'"), 3);
    assert_eq!(client.count("jobs"), 3);
    assert_eq!(client.count("audit"), 0);
}

#[test]
fn a_value_that_its_key_does_not_take_is_an_error_that_names_the_key() {
    let (_test, mut client) = setup();
    client.refuses_each(
        &ON_LETTERS[0].replace("$1", "'@'"),
        r#"{"ids": ["1"]}                 -- ids takes values of type number, not string
           {"ids": [[1]]}                 -- ids takes values of type number, not array
           {"ids": [1.5]}                 -- ids takes whole numbers
           {"ids": [9223372036854775808]} -- ids takes whole numbers
           {"ids": [1e9999]}              -- ids takes whole numbers
           {"group": -1e131071}           -- group takes whole numbers
           {"class": 5}                   -- class takes values of type string, not number
           {"queue": ["a"]}               -- queue takes one value
           {"queue": 5}                   -- queue takes values of type string
           {"audit": []}                  -- audit takes one value
           {"generation_not": [null]}     -- generation_not takes values of type number
           {"older_than_ms": -1}          -- older_than_ms takes whole numbers
           {"newer_than_ms": 1e18}        -- newer_than_ms takes whole numbers
           {"died_from": "some day"}      -- died_from is refused: invalid input syntax
           {"died_to": ""}                -- died_to is refused
           {"payload": "$.a = 1"}         -- payload is refused
           {"payload": ""}                -- payload is refused
           {"queue": ""}                  -- queue is empty
           {"job_group": ""}              -- job_group is empty
           {"message": ""}                -- message is empty"#,
    );
}

#[test]
fn an_empty_list_selects_nothing_in_every_operation() {
    let (_test, mut client) = setup();
    for (operations, lists) in [
        (
            &ON_LETTERS[..],
            &["ids", "class", "group", "cause", "state", "generation_not"][..],
        ),
        (&ON_JOBS[..], &["ids", "state", "priority_not"]),
    ] {
        for operation in operations {
            for key in lists {
                let filter = format!("{{\"{key}\": []}}");
                if !operation.contains("set_policy") || *key != "state" {
                    client.change(operation, &[&filter]);
                }
            }
        }
    }
    let none = "{\"ids\": [], \"payload\": \"$.number == 1\"}";
    client.change(ERASE, &[&none]);
    client.sql("SELECT redrive.trigger_schedule('p')");
    assert_eq!(client.count("dead_letters WHERE state = 'open'"), 3);
    assert_eq!(client.count("live_jobs WHERE priority = 0"), 3);
    assert_eq!(client.count("audit WHERE letters > 0"), 0);
    assert_eq!(client.count("run_letters"), 0);
}

/// A filter that another program stored is checked again when it is used.
#[test]
fn a_stored_filter_that_is_none_redrives_nothing_and_says_why() {
    let (_test, mut client) = setup();
    let call = "SELECT redrive.set_policy('p', '{}', '1 hour');
                UPDATE redrive.schedules SET policy = jsonb_set(policy, '{letters}', '{\"ids\": null}')";
    client.sql(call);
    let trigger = "SELECT redrive.trigger_schedule('p')";
    client.refuses(trigger, &[], "filter key ids is null");
    assert_eq!(client.count("dead_letters WHERE state = 'open'"), 3);
}

#[test]
fn a_wrong_argument_is_named_in_every_operation() {
    let (_test, mut client) = setup();
    let script = "SELECT redrive.set_retention('q', 'open', '0', 'archive');
                  SELECT redrive.schedule('hourly', 'orders', 'order', '{}', every => '1 hour')";
    client.sql(script);
    for line in WRONG.lines().filter(|line| !line.is_empty()) {
        let (call, says) = line.split_once(" -- ").expect("what it says");
        let call = format!("SELECT redrive.{}", call.trim());
        client.refuses(&call, &[], "22023 redrive: ");
        client.refuses(&call, &[], says.trim());
    }
    let null = r#"SELECT redrive.capture_letters(ARRAY['{"source": "s", "position": "1"}'::jsonb], '{NULL}')"#;
    client.refuses(null, &[], "the raw bytes");
    assert_eq!(client.count("dead_letters WHERE edits = 0"), 3);
    assert_eq!(client.count("jobs"), 3);
    // As long as the name of a kind may be.
    client.sql("SELECT redrive.set_rate_limit('q', 1, kind => repeat('k', 255))");
}
