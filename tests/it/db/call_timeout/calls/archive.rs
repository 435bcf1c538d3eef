//! The calls on the archive, and those that remove stored data.

use std::ops::ControlFlow;
use std::time::Duration;

use redrive::JobId;
use redrive::dlq::{Comparison, LetterFilter};

use super::{Call, bulk, operator, usual};

const MONTH: Duration = Duration::from_hours(30 * 24);

fn orders() -> LetterFilter {
    LetterFilter::new().queue("orders")
}

fn tenant() -> LetterFilter {
    let filter = LetterFilter::new().payload("tenant", Comparison::Equal, 42);
    filter.expect("a filter")
}

pub(super) const CALLS: &[Call] = &[
    bulk("Dlq::archived", |scene| {
        scene.db.dlq().archived(&orders()).map(drop)
    }),
    bulk("Dlq::archived_letter", |scene| {
        scene.db.dlq().archived_letter(JobId::new(1)).map(drop)
    }),
    bulk("Dlq::count_archived", |scene| {
        scene.db.dlq().count_archived(&orders()).map(drop)
    }),
    bulk("Dlq::preview_restore", |scene| {
        scene.db.dlq().preview_restore(&orders()).map(drop)
    }),
    bulk("Dlq::restore", |scene| {
        scene.db.dlq().restore(&orders(), &operator()).map(drop)
    }),
    bulk("Dlq::restore_while", |scene| {
        let dlq = scene.db.dlq();
        dlq.restore_while(&orders(), &operator(), |_| ControlFlow::Continue(()))
            .map(drop)
    }),
    bulk("Dlq::delete_archived_while", |scene| {
        let dlq = scene.db.dlq();
        dlq.delete_archived_while(&orders(), &operator(), |_| ControlFlow::Continue(()))
            .map(drop)
    }),
    bulk("Dlq::erase_while", |scene| {
        let dlq = scene.db.dlq();
        dlq.erase_while(&tenant(), &operator(), |_| ControlFlow::Continue(()))
            .map(drop)
    }),
    bulk("Dlq::delete_archived", |scene| {
        scene
            .db
            .dlq()
            .delete_archived(&orders(), &operator())
            .map(drop)
    }),
    bulk("Dlq::captured_bytes", |scene| {
        scene.db.dlq().captured_bytes(JobId::new(1)).map(drop)
    }),
    bulk("Dlq::archived_bytes", |scene| {
        scene.db.dlq().archived_bytes(JobId::new(1)).map(drop)
    }),
    usual("Dlq::captured_sources", |scene| {
        scene.db.dlq().captured_sources().map(drop)
    }),
    bulk("Dlq::erasable", |scene| {
        scene.db.dlq().erasable(&tenant()).map(drop)
    }),
    bulk("Dlq::erase", |scene| {
        scene.db.dlq().erase(&tenant(), &operator()).map(drop)
    }),
    bulk("Admin::count_prunable_audit", |scene| {
        scene.db.admin().count_prunable_audit(MONTH).map(drop)
    }),
    bulk("Admin::prune_audit", |scene| {
        let admin = scene.db.admin();
        let go_on = |_| ControlFlow::Continue(());
        admin.prune_audit(MONTH, &operator(), go_on).map(drop)
    }),
];
