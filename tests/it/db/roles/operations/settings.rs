//! The operations on redrive runs, groups, policies, retention, redactions, breakers and the audit.

use redrive_tests::prelude::*;

use super::super::Profession::{self, App};
use super::{BOTH, NOBODY, READERS, VIEWERS, Verb, verb};

// One entry per operation.
#[rustfmt::skip]
pub(super) const VERBS: &[Verb] = &[
    // Redrive runs.
    verb("start and drive a run", &[Profession::Operator], |on| {
        let (_, mut driver) = on.db.dlq().runs().start(&on.letter(), &RunOptions::new(), &maria())?.expect("a letter");
        driver.step()?;
        Ok(())
    }),
    verb("pause, resume and cancel a run", &[Profession::Operator], |on| {
        let run = on.run();
        on.db.dlq().runs().pause(run, &maria())?;
        on.db.dlq().runs().resume(run, &maria())?;
        on.db.dlq().runs().cancel(run, &maria())?;
        Ok(())
    }),
    verb("list runs", READERS, |on| { on.db.dlq().runs().list(10)?; Ok(()) }),
    verb("count what a run skipped", READERS, |on| { on.db.dlq().runs().skips(on.run())?; Ok(()) }),
    verb("list the letters of a run and the runs of a letter", READERS, |on| {
        let letters = on.db.dlq().runs().letters(on.run(), 0, 10)?;
        on.db.dlq().runs().of_letter(letters[0].letter, 10)?;
        Ok(())
    }),
    verb("see what a run waits for", VIEWERS, |on| { on.db.dlq().runs().blocked(on.run())?; Ok(()) }),

    verb("set the policy of job groups", &[App, Profession::Operator], |on| {
        let queue = Queue::new(&on.db, "grouped")?;
        queue.set_group_policy(GroupPolicy::Ordered(GroupDeath::Hold), &maria())?;
        queue.set_group_policy(GroupPolicy::None, &maria())?;
        Ok(())
    }),
    verb("sync schedules", &[App, Profession::Operator], |on| {
        let nightly = Schedule::every("nightly", DAY)?.job("orders", new_order(1));
        on.db.schedules().sync(&[nightly], &maria())?;
        Ok(())
    }),

    // Groups, policies, retention, redactions, breakers, audit.
    verb("list groups", READERS, |on| { on.db.dlq().groups().list(&GroupFilter::new())?; Ok(()) }),
    verb("acknowledge a group", &[Profession::Operator], |on| { on.db.dlq().groups().set_state(on.group(), GroupState::Acknowledged, &maria())?; Ok(()) }),
    verb("describe a group", &[Profession::Operator], |on| { on.db.dlq().groups().describe(on.group(), Some("known"), Some("payments"), &maria())?; Ok(()) }),
    verb("split a group", &[Profession::Operator], |on| {
        let group = on.group();
        let done = on.db.dlq().groups().split(group, &SplitBy::Kind, &maria())?;
        on.owner.dlq().groups().remove_rule(done.rule, &maria())?;
        Ok(())
    }),
    verb("list the rules of groups", READERS, |on| { on.db.dlq().groups().rules()?; Ok(()) }),
    verb("remove a rule of groups", &[Profession::Operator], |on| {
        on.db.dlq().groups().remove_rule(GroupRuleId::new(1), &maria())?;
        Ok(())
    }),
    verb("set a policy", &[Profession::Operator], |on| { on.db.schedules().set(&policy(), &maria())?; Ok(()) }),
    verb("set a policy by hand", &[Profession::Operator], |on| on.sql("UPDATE redrive.schedules SET policy = policy")),
    verb("redrive by a policy", &[Profession::Operator], |on| {
        on.owner.schedules().set(&policy(), &maria())?;
        on.db.schedules().trigger("never", &maria())?;
        Ok(())
    }),
    verb("list rules of retention", READERS, |on| { on.db.dlq().retention().list()?; Ok(()) }),
    verb("set a rule of retention", &[Profession::Operator], |on| {
        on.db.dlq().retention().set(&RetentionRule::archive(LetterState::Recovered, DAY), &maria())?;
        Ok(())
    }),
    verb("count what is due", VIEWERS, |on| { on.db.dlq().retention().due()?; Ok(()) }),
    verb("apply retention", BOTH, |on| { on.db.dlq().retention().apply(&maria())?; Ok(()) }),
    verb("remove a rule of retention", &[Profession::Operator], |on| { on.db.dlq().retention().remove(None, LetterState::Recovered, &maria())?; Ok(()) }),
    verb("read the archive", VIEWERS, |on| { on.db.dlq().archived(&LetterFilter::new())?; Ok(()) }),
    verb("restore from the archive", &[Profession::Operator], |on| { on.db.dlq().restore(&LetterFilter::new(), &maria())?; Ok(()) }),
    verb("delete from the archive", &[Profession::Operator], |on| { on.db.dlq().delete_archived(&LetterFilter::new(), &maria())?; Ok(()) }),
    verb("count what to erase", &[Profession::Operator], |on| { on.db.dlq().erasable(&nobody())?; Ok(()) }),
    verb("erase a tenant", &[Profession::Operator], |on| { on.db.dlq().erase(&nobody(), &maria())?; Ok(()) }),
    verb("erase from SQL", &[Profession::Operator], |on| on.sql(r#"SELECT * FROM redrive.erase('{"payload": "$.tenant == -1"}')"#)),
    verb("prune the audit", &[Profession::Operator], |on| { on.db.admin().prune_audit(30 * DAY, &maria(), |_| ControlFlow::Continue(()))?; Ok(()) }),
    verb("erase from the audit by hand", NOBODY, |on| on.sql("SELECT redrive.erase_from_audit('$.a == 1')")),
    verb("list redactions", READERS, |on| { on.db.dlq().redactions().list()?; Ok(()) }),
    verb("add a redaction", &[Profession::Operator], |on| { on.db.dlq().redactions().add(&Redaction::new().path("/card"), &maria())?; Ok(()) }),
    verb("remove a redaction", &[Profession::Operator], |on| {
        let id = on.owner.dlq().redactions().add(&Redaction::new().path("/card"), &maria())?;
        on.db.dlq().redactions().remove(id, &maria())?;
        Ok(())
    }),
    verb("list protections", READERS, |on| { on.db.dlq().protections()?; Ok(()) }),
    verb("protect a queue", NOBODY, |on| on.sql("SELECT redrive.set_protection('others', 1)")),
    verb("pause a queue", &[Profession::Operator], |on| { on.queue().pause(PauseEnd::Resumed, &maria())?; Ok(()) }),
    verb("resume a queue", &[Profession::Operator], |on| { on.queue().resume(&maria())?; Ok(()) }),
    verb("read why a queue is paused", READERS, |on| on.sql("SELECT reason FROM redrive.paused_queues")),
    verb("pause a queue by hand", &[Profession::Operator], |on| on.sql("UPDATE redrive.queue_pauses SET ends_at = ends_at")),
    verb("list breakers", READERS, |on| { on.db.admin().breakers()?; Ok(()) }),
    verb("open a breaker", &[Profession::Operator], |on| { on.db.admin().open_breaker("gateway", None, &maria())?; Ok(()) }),
    verb("close a breaker", &[Profession::Operator], |on| { on.db.admin().close_breaker("gateway", &maria())?; Ok(()) }),
    verb("read the audit", VIEWERS, |on| { on.db.admin().audit(&AuditFilter::new())?; Ok(()) }),
    verb("compare the counters", &[Profession::Operator], |on| { on.db.admin().audit_counters()?; Ok(()) }),
];

/// A tenant without a job or letter.
fn nobody() -> LetterFilter {
    let filter = LetterFilter::new().payload("tenant", Comparison::Equal, -1);
    filter.expect("a filter")
}

/// Returns a policy that has no tick during the test.
fn policy() -> Schedule {
    let schedule = Schedule::every("never", 365 * DAY).expect("an interval");
    schedule.redrive(Policy::new(LetterFilter::new().queue("nobody")))
}
