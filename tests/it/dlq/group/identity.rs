//! The parts of a failure besides its message that decide on its group: stack traces and keys.

use redrive_tests::prelude::*;

#[test]
fn the_top_frame_of_the_application_is_found_in_every_format() {
    let (_test, mut client) = TestDatabase::with_client();
    for (trace, frame) in [
        (
            "caused by: closed\n   0: std::backtrace_rs::backtrace::trace\n             at /rustc/9fc6/library/std/src/lib.rs:116:5\n   \
             1: <redrive::job::failure::Failure as core::convert::From<E>>::from\n   2: <core::result::Result<T,F> as core::ops::FromResidual>::from_residual\n   \
             3: shop::pay::charge::h0123456789abcdef\n             at ./src/pay.rs:41:9\n   4: shop::main\n",
            Some("shop::pay::charge"),
        ),
        (
            "caused by: payload 7\n  12: payload::deliver::attempt at src/deliver.rs:118\n",
            Some("payload::deliver::attempt"),
        ),
        (
            "   0: __rustc::rust_begin_unwind\n   1: core::panicking::panic_fmt\n   2: <shop::Order as shop::Charge>::charge\n",
            Some("<shop::Order as shop::Charge>::charge"),
        ),
        (
            "java.lang.IllegalStateException: closed\n\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)\n\t\
             at org.springframework.web.Dispatcher.run(Dispatcher.java:9)\n\tat com.acme.pay.Till.charge(Till.java:42)\n\t\
             at com.acme.Main.main(Main.java:7)\n",
            Some("com.acme.pay.Till.charge"),
        ),
        (
            "Traceback (most recent call last):\n  File \"/srv/app/main.py\", line 7, in <module>\n    charge()\n  \
             File \"/srv/app/pay/till.py\", line 42, in charge\n    post()\n  \
             File \"/usr/lib/python3/dist-packages/requests/api.py\", line 9, in post\n    raise Timeout\nTimeout: 5 s\n",
            Some("till.py in charge"),
        ),
        (
            "TypeError: no id\n    at JSON.parse (<anonymous>)\n    at Client.post (/app/node_modules/axios/index.js:3:9)\n    \
             at async Till.charge (/app/src/till.js:41:7)\n    at process.processTicksAndRejections (node:internal/process:95:5)\n",
            Some("Till.charge"),
        ),
        (
            "Error: closed\n    at /app/src/till.js:41:7\n",
            Some("till.js"),
        ),
        (
            "panic: closed\n\ngoroutine 17 [running]:\nruntime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:24 +0x5e\n\
             net/http.(*Client).do(0xc000012345)\n\t/usr/local/go/src/net/http/client.go:725 +0x8f\n\
             shop/pay.(*Till).Charge(0xc000098765, 0x2a)\n\t/build/pay/till.go:42 +0x1d\nmain.main()\n\t/build/main.go:7 +0x2b\n",
            Some("shop/pay.(*Till).Charge"),
        ),
        (
            "caused by: the carrier is closed\ncaused by: 12: no order at all",
            None,
        ),
        ("{\"error\": \"closed\"}", None),
    ] {
        let found: Option<String> = client.ask("SELECT redrive.top_frame($1)", &[&trace]);
        assert_eq!(found.as_deref(), frame, "{trace}");
    }
}

#[test]
fn one_message_from_two_places_is_two_groups() {
    let (test, mut client) = TestDatabase::with_client();
    let mut die = |number: i32, place: &str| -> i64 {
        let detail = format!(
            "caused by: order {number}\n   0: std::panicking::begin_panic\n   1: shop::{place}\n             at ./src/lib.rs:{number}:5\n"
        );
        client.ask("INSERT INTO redrive.dead_letters
                     (queue, kind, cause, error_class, error_message, error_detail, payload, enqueued_at)
                 VALUES ('orders', 'order', 'exhausted', 'E', 'closed', $1, '{}', now()) RETURNING group_id", &[&detail])
    };
    assert_eq!(die(1, "pay"), die(2, "pay"));
    assert_ne!(die(3, "pay"), die(4, "refund"));
    let groups = test.open().groups(&GroupFilter::new());
    let mut titles: Vec<&str> = groups.iter().map(|group| &*group.title).collect();
    titles.sort_unstable();
    assert_eq!(titles, ["closed at shop::pay", "closed at shop::refund"]);
}

#[test]
fn a_key_of_the_handler_replaces_the_message() {
    let (_test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    work_off(&queue, |job: &Job<Order>| -> Result<(), Failure> {
        let text = ["closed until noon", "no driver today", "closed", "strike"];
        let number = job.payload().number;
        let failure = Failure::reject(text[usize::try_from(number)? - 1]);
        Err(match number {
            1..4 => failure.failure_key("carrier closed"),
            _ => failure,
        })
    });
    let groups = queue.groups(&GroupFilter::new());
    let found: Vec<_> = groups.iter().map(|it| (&*it.title, it.open)).collect();
    assert_eq!(found, [("carrier closed", 3), ("strike", 1)]);
    // The next death decides again.
    queue.redrives(&LetterFilter::new());
    work_off(&queue, |_: &Job<Order>| Err(Failure::reject("lost")));
    let waiting = queue.groups(&GroupFilter::new().waiting());
    assert_eq!((&*waiting[0].title, waiting[0].open), ("lost", 4));
}
