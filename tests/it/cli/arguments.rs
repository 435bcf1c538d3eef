//! Arguments that cannot be right: exit code 2, an error that says why, and no change.

use redrive_tests::prelude::*;

use super::with_letters;

/// Command lines, and after ` => ` what the error says. A file of the kernel is shorter than its size.
const WRONG: &str = r#"
enqueue q k "\u0000" =>
enqueue q k {nope => not JSON
enqueue '' k 1 =>
enqueue q aESCb 1 =>
enqueue q k =>
enqueue q k --file /nowhere.ndjson =>
enqueue q k --file /sys/devices/system/cpu/kernel_max => became shorter
enqueue q k 1 --unique-window 1h =>
enqueue q k 1 --unique 7 --replace all =>
enqueue q k 1 --header trace => NAME=VALUE
enqueue q k 1 --at 9000-01-01T00:00:00Z => the limit is 3650 days
work q --drain => --exec COMMAND
work q --exec true --kind a --kind a =>
work q --exec true --flood-guard 100 =>
work q --exec true --backoff 5s => such as exponential:5s..1h
work q --exec true --backoff quadratic:5s => such as exponential:5s..1h
work q --exec true --backoff fixed: =>
work q --exec true --backoff fixed:1s..x =>
work q aESCb --exec true --drain => queue
job list class=Timeout => expected one of queue=
dlq list colour=red => unknown field
dlq list orders state=any state=open => repeats
dlq groups ack 12 class=Timeout => or group=12
dlq groups merge 1 =>
dlq groups split 1 =>
dlq discard 1 --reason ' ' =>
dlq discard 1 kind=order.placed --reason x => use the condition id=42,43
dlq discard 1 2 --limit 1 --reason x => use the condition id=42,43
dlq list 1 state=any => use the condition id=42,43
job cancel 1 kind=order.placed => use the condition id=42,43
job edit 1 2 --set 7 --limit 1 => use the condition id=42,43
job cancel 1 2 --limit 1 => use the condition id=42,43
dlq redrive =>
dlq redrive orders died>soon => expected a time
dlq redrive orders --force --yes => needs --reason TEXT
dlq redrive orders --rate 5 --unthrottled =>
dlq redrive 1 --canary 5 =>
dlq redrive 1 --max-wait 5m => cannot be used with ids
dlq redrive orders --detach --max-wait 5m => cannot be used with
dlq redrive orders --no-wait --max-wait 5m => cannot be used with
dlq runs resume 1 --detach --max-wait 5m => cannot be used with
dlq redrive orders --to ' ' --yes =>
dlq redrive orders --to ' ' =>
dlq redrive orders --validate =>
dlq validate orders => no validator
dlq redrive orders --deadline 5s => --exec
dlq redrive orders --validate --exec '' --yes => the command is empty
dlq deliver orders --exec '' --yes => the command is empty
dlq edit orders --exec '' --yes => the command is empty
dlq edit 1 =>
dlq edit 1 --set @/nowhere.json =>
dlq edit 1 --merge {} --set 1 =>
dlq deliver orders --exec ./nowhere --yes => `./nowhere` does not exist
dlq capture --file /dev/null --rate 0 =>
dlq capture --file /dev/null --error-class Timeout => cannot be used with
dlq capture --file /dev/null --error-message late => cannot be used with
dlq capture --file /dev/null --content-type text/plain => cannot be used with
dlq redrive orders --schema /dev/null =>
dlq runs show x =>
dlq runs show 2 --limit 1 =>
dlq protection set orders =>
breaker open queue: =>
breaker open x --for 0s =>
erase =>
erase orders --yes => needs a condition on the payload, or ids
erase payload.tenant=42 class=Timeout --yes => not by class
erase payload.tenant=42 state=open --yes => not by state
queue limit q --reason x --rate fast => such as 100/1s, 5/m or 1000/30m
queue limit q --reason x --rate 1/h --each-group --kind k => --each-group
queue groups set q --reason x limit => expected ordered, limit=N
queue groups set q --reason x limit=x => expected ordered, limit=N
queue groups set q --reason x fair --on-death hold => only an ordered group can be held
queue pause q =>
queue pause '' --reason x =>
queue pause q --reason x --until 2020-01-01 => in the past
queue pause q --reason x --for 1h --until 2030-01-01 => cannot be used with
schedule set s q k {} => --cron
schedule set s q k {} --every 1h --cron @daily => cannot be used with
schedule set s q k {} --cron '0 25 * * *' => at character 3: `25` is not a valid hour (0-23)
schedule set s q k {} --cron @daily --zone Europe/Berln => unknown from character 12 on
schedule set s q k {} --every 10x => such as 500ms, 90s, 1h30m or 7d
schedule set s q k {} --every 1h --missed twice => expected one of skip, once, all
schedule set s q k {} --every 1h --overlap both => expected one of allow, skip
schedule set s q k { --every 1h => the payload is not JSON
dlq deliver orders --sink x --deadline 5s => needs --exec
dlq edit orders --undo --deadline 5s => needs --exec
dlq validate orders --schema x --deadline 5s => --exec
dlq groups ack 1 --yes --dry-run => cannot be used with
prune --older-than 0s --yes --dry-run =>
prune --audit --older-than 7d => after 30 days, not after 7.0"#;

#[test]
fn arguments_that_cannot_be_right_exit_with_2_and_change_nothing() {
    let (db, queue, _) = with_letters(2);
    for row in WRONG.replace("ESC", "\u{1b}").lines().skip(1) {
        let (line, why) = row.split_once(" =>").expect("what the error says");
        let refused = db.fails(2, line);
        assert_eq!(refused.out, "", "{line}");
        let words: Vec<&str> = refused.err.split_whitespace().collect();
        let error = words.join(" ");
        has(&error, "error:");
        has(&error, why.trim());
    }
    let mut client = db.client();
    for table in [
        "audit",
        "live_jobs",
        "schedules",
        "breakers",
        "rate_limits",
        "queue_pauses",
    ] {
        assert_eq!(client.count(table), 0, "{table}");
    }
    assert_eq!(in_state(&queue, LetterState::Open), 2);
}
