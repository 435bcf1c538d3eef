//! The calls on dead letters.

use std::ops::ControlFlow;
use std::time::Duration;

use redrive::dlq::runs::{RunId, RunOptions};
use redrive::dlq::{
    Edit, ForeignFailure, Letter, LetterFilter, LetterProperty, LetterState, Policy, PolicyMode,
    Redaction, RedactionId, RedriveOptions, RetentionRule, Validators,
};
use redrive::{Error, Failure, JobId};
use redrive_tests::Order;

use super::{Call, Limit, bulk, operator, staged, usual};

/// Continues a call that works in batches.
const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

fn orders() -> LetterFilter {
    LetterFilter::new().queue("orders")
}

fn captured() -> ForeignFailure {
    ForeignFailure::new("kafka:orders", "0/1", "orders", "order", *b"{}")
}

pub(super) const CALLS: &[Call] = &[
    bulk("Dlq::list", |scene| {
        scene.db.dlq().list(&orders()).map(drop)
    }),
    usual("Dlq::held_group", |scene| {
        scene.db.dlq().held_group(JobId::new(1)).map(drop)
    }),
    bulk("Dlq::get", |scene| {
        scene.db.dlq().get(scene.letter).map(drop)
    }),
    bulk("Dlq::count", |scene| {
        scene.db.dlq().count(&orders()).map(drop)
    }),
    bulk("Dlq::count_by", |scene| {
        let class = LetterProperty::CLASS;
        scene.db.dlq().count_by(&orders(), &class).map(drop)
    }),
    bulk("Dlq::for_each", |scene| {
        let seen = scene.db.dlq().for_each(&orders(), |_| Ok::<(), Error>(()));
        seen.map(drop)
    }),
    bulk("Dlq::capture", |scene| {
        scene.db.dlq().capture(&captured()).map(drop)
    }),
    bulk("Dlq::capture_many", |scene| {
        scene
            .db
            .dlq()
            .capture_many([&captured(), &captured()])
            .map(drop)
    }),
    bulk("Dlq::discard", |scene| {
        let none = LetterFilter::new().ids([JobId::new(1 << 40)]);
        scene.db.dlq().discard(&none, &operator()).map(drop)
    }),
    bulk("Dlq::discard_while", |scene| {
        let none = LetterFilter::new().ids([JobId::new(1 << 40)]);
        let dlq = scene.db.dlq();
        dlq.discard_while(&none, &operator(), |_| GO_ON).map(drop)
    }),
    bulk("Dlq::reopen_while", |scene| {
        let none = LetterFilter::new().ids([JobId::new(1 << 40)]);
        let dlq = scene.db.dlq();
        dlq.reopen_while(&none, &operator(), |_| GO_ON).map(drop)
    }),
    bulk("Dlq::prune_while", |scene| {
        let (dlq, age) = (scene.db.dlq(), Duration::from_hours(24));
        dlq.prune_while(age, &operator(), |_| GO_ON).map(drop)
    }),
    bulk("Dlq::edit_while", |scene| {
        let (dlq, edit) = (scene.db.dlq(), Edit::merge(r#"{"number": 7}"#)?);
        let edited = dlq.edit_while(&orders(), &edit, &operator(), |_| GO_ON);
        edited.map(drop)
    }),
    bulk("Dlq::restore_versions_while", |scene| {
        let dlq = scene.db.dlq();
        let restored = dlq.restore_versions_while(&orders(), None, &operator(), |_| GO_ON);
        restored.map(drop)
    }),
    bulk("Dlq::deliver_forced", |scene| {
        let sink = |_: &Letter| Err(Failure::retry("not today"));
        let dlq = scene.db.dlq();
        dlq.deliver_forced(&orders(), &sink, &operator()).map(drop)
    }),
    bulk("RetentionRules::apply_while", |scene| {
        let retention = scene.db.dlq().retention();
        retention.apply_while(&operator(), |_| GO_ON).map(drop)
    }),
    bulk("Redactions::apply_while", |scene| {
        let redactions = scene.db.dlq().redactions();
        let applied = redactions.apply_while(&orders(), &operator(), |_| GO_ON);
        applied.map(drop)
    }),
    bulk("Dlq::reopen", |scene| {
        let none = LetterFilter::new().ids([JobId::new(1 << 40)]);
        scene.db.dlq().reopen(&none, &operator()).map(drop)
    }),
    bulk("Dlq::count_prunable", |scene| {
        let age = Duration::from_hours(24);
        scene.db.dlq().count_prunable(age).map(drop)
    }),
    bulk("Dlq::prune", |scene| {
        scene
            .db
            .dlq()
            .prune(Duration::from_hours(24), &operator())
            .map(drop)
    }),
    bulk("Dlq::edit", |scene| {
        let edit = Edit::merge(r#"{"number": 7}"#)?;
        scene.db.dlq().edit(&orders(), &edit, &operator()).map(drop)
    }),
    bulk("Dlq::preview_edit", |scene| {
        let edit = Edit::merge(r#"{"number": 8}"#)?;
        scene
            .db
            .dlq()
            .preview_edit(&orders(), &edit, |_| Ok::<(), Error>(()))
    }),
    bulk("Dlq::versions", |scene| {
        scene.db.dlq().versions(scene.letter).map(drop)
    }),
    bulk("Dlq::restore_version", |scene| {
        scene
            .db
            .dlq()
            .restore_version(scene.letter, None, &operator())
            .map(drop)
    }),
    bulk("Dlq::redrive", |scene| {
        scene
            .db
            .dlq()
            .redrive(&orders().limit(1), &operator())
            .map(drop)
    }),
    bulk("Dlq::redrive_with", |scene| {
        let options = RedriveOptions::new().priority(-1);
        scene
            .db
            .dlq()
            .redrive_with(&orders().limit(1), &options, &operator())
            .map(drop)
    }),
    bulk("Dlq::preview_redrive", |scene| {
        let options = RedriveOptions::new();
        scene
            .db
            .dlq()
            .preview_redrive(&orders(), &options)
            .map(drop)
    }),
    bulk("Runs::create", |scene| {
        let options = RunOptions::new();
        scene
            .db
            .dlq()
            .runs()
            .create(&orders(), &options, &operator())
            .map(drop)
    }),
    bulk("Runs::start", |scene| {
        let options = RunOptions::new();
        scene
            .db
            .dlq()
            .runs()
            .start(&orders(), &options, &operator())
            .map(drop)
    }),
    usual("Runs::drive", |scene| {
        scene.db.dlq().runs().drive(RunId::new(1)).map(drop)
    }),
    staged("RunDriver::step", Limit::Bulk, |scene| {
        // A new letter for each preparation: one that missed its deadline may have sent the last one.
        scene.db.dlq().capture(&ForeignFailure::new(
            "a test",
            uuid::Uuid::new_v4().to_string(),
            "steps",
            "order",
            *b"{}",
        ))?;
        let (steps, options) = (LetterFilter::new().queue("steps"), RunOptions::new());
        let run = scene.db.dlq().runs().start(&steps, &options, &operator())?;
        let (_, mut driver) = run.expect("a letter to drive");
        scene.hush();
        loop {
            driver.step()?;
        }
    }),
    usual("Runs::list", |scene| {
        scene.db.dlq().runs().list(5).map(drop)
    }),
    usual("Runs::get", |scene| {
        scene.db.dlq().runs().get(RunId::new(1)).map(drop)
    }),
    bulk("Runs::skips", |scene| {
        scene.db.dlq().runs().skips(RunId::new(1)).map(drop)
    }),
    bulk("Runs::letters", |scene| {
        let runs = scene.db.dlq().runs();
        runs.letters(RunId::new(1), 0, 5).map(drop)
    }),
    usual("Runs::of_letter", |scene| {
        let runs = scene.db.dlq().runs();
        runs.of_letter(JobId::new(1), 5).map(drop)
    }),
    bulk("Runs::blocked", |scene| {
        scene.db.dlq().runs().blocked(RunId::new(1)).map(drop)
    }),
    usual("Runs::pause", |scene| {
        scene
            .db
            .dlq()
            .runs()
            .pause(RunId::new(1), &operator())
            .map(drop)
    }),
    usual("Runs::resume", |scene| {
        scene
            .db
            .dlq()
            .runs()
            .resume(RunId::new(1), &operator())
            .map(drop)
    }),
    usual("Runs::cancel", |scene| {
        scene
            .db
            .dlq()
            .runs()
            .cancel(RunId::new(1 << 40), &operator())
            .map(drop)
    }),
    bulk("Dlq::deliver", |scene| {
        let sink = |_: &Letter| Err(Failure::retry("not today"));
        scene
            .db
            .dlq()
            .deliver(&orders(), &sink, &operator())
            .map(drop)
    }),
    bulk("Dlq::validate_each", |scene| {
        let validators = Validators::new().decodes::<Order>();
        let dlq = scene.db.dlq();
        dlq.validate_each(&orders(), &validators, |_, _| Ok(()))
            .map(drop)
    }),
    bulk("Dlq::validate", |scene| {
        let validators = Validators::new().check(|_: &Order| Err("never good"));
        scene.db.dlq().validate(&orders(), &validators).map(drop)
    }),
    usual("Policies::set", |scene| {
        scene
            .db
            .dlq()
            .policies()
            .set(&Policy::new("daily", orders()), &operator())
    }),
    usual("Policies::set_mode", |scene| {
        let mode = PolicyMode::DryRun;
        scene
            .db
            .dlq()
            .policies()
            .set_mode("nightly", mode, &operator())
            .map(drop)
    }),
    usual("Policies::remove", |scene| {
        scene
            .db
            .dlq()
            .policies()
            .remove("none", &operator())
            .map(drop)
    }),
    usual("Policies::list", |scene| {
        scene.db.dlq().policies().list().map(drop)
    }),
    usual("Redactions::add", |scene| {
        let secret = Redaction::new().queue("never").path("/secret");
        scene
            .db
            .dlq()
            .redactions()
            .add(&secret, &operator())
            .map(drop)
    }),
    usual("Redactions::remove", |scene| {
        scene
            .db
            .dlq()
            .redactions()
            .remove(RedactionId::new(1 << 40), &operator())
            .map(drop)
    }),
    bulk("Redactions::preview", |scene| {
        let redactions = scene.db.dlq().redactions();
        redactions.preview(&orders()).map(drop)
    }),
    bulk("Redactions::apply", |scene| {
        let redactions = scene.db.dlq().redactions();
        redactions.apply(&orders(), &operator()).map(drop)
    }),
    usual("Redactions::list", |scene| {
        scene.db.dlq().redactions().list().map(drop)
    }),
    usual("RetentionRules::set", |scene| {
        let month = Duration::from_hours(720);
        let rule = RetentionRule::archive(LetterState::Discarded, month).queue("never");
        scene.db.dlq().retention().set(&rule, &operator())
    }),
    usual("RetentionRules::remove", |scene| {
        let state = LetterState::Discarded;
        scene
            .db
            .dlq()
            .retention()
            .remove(Some("never"), state, &operator())
            .map(drop)
    }),
    usual("RetentionRules::list", |scene| {
        scene.db.dlq().retention().list().map(drop)
    }),
    bulk("RetentionRules::due", |scene| {
        scene.db.dlq().retention().due().map(drop)
    }),
    bulk("RetentionRules::apply", |scene| {
        scene.db.dlq().retention().apply(&operator()).map(drop)
    }),
];
