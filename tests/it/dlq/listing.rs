//! The list of letters: its order, pages and filters.

use redrive::dlq::{DeathCause, LetterFilter};
use redrive::{Failure, Job};
use redrive_tests::{Order, TestDatabase, drained, stop, worker};

#[test]
fn letters_are_listed_newest_first_page_by_page() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| {
            Err(
                Failure::reject("no").class(if job.payload().number % 2 == 0 {
                    "Even"
                } else {
                    "Odd"
                }),
            )
        })
        .start()
        .unwrap();
    let ids = queue.enqueue_many(&Order::up_to(25)).unwrap();
    drained(&queue);
    stop(worker);
    let db = queue.database();
    let mut listed = Vec::new();
    let mut page = LetterFilter::new().queue("orders").limit(10);
    loop {
        let letters = db.dlq().list(&page).unwrap();
        let Some(last) = letters.last() else { break };
        assert!(letters.len() <= 10);
        page = page.after(last.id);
        listed.extend(letters.iter().map(|letter| (letter.died_at, letter.id)));
    }
    assert_eq!(listed.len(), 25);
    assert!(
        listed.is_sorted_by(|newer, older| newer > older),
        "the newest death first"
    );
    assert!(
        ids.iter()
            .all(|id| listed.iter().any(|(_, listed)| listed == id))
    );

    let count = |filter: &LetterFilter| db.dlq().list(filter).unwrap().len();
    assert_eq!(count(&LetterFilter::new().error_class("Even")), 12);
    assert_eq!(
        count(
            &LetterFilter::new()
                .kind("order")
                .cause(DeathCause::Rejected)
        ),
        25
    );
    assert_eq!(count(&LetterFilter::new().cause(DeathCause::Exhausted)), 0);
    assert_eq!(count(&LetterFilter::new().queue("other")), 0);
    assert_eq!(count(&LetterFilter::new().ids([ids[3], ids[4]])), 2);
}
