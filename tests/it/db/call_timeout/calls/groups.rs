//! The calls on failure groups, protections and approvals.

use redrive::dlq::runs::RunId;
use redrive::dlq::{GroupFilter, GroupId, GroupRuleId, GroupState, Protection, SplitBy};

use super::{Call, bulk, operator, usual};

pub(super) const CALLS: &[Call] = &[
    bulk("Groups::list", |scene| {
        scene.db.dlq().groups().list(&GroupFilter::new()).map(drop)
    }),
    bulk("Groups::get", |scene| {
        scene.db.dlq().groups().get(GroupId::new(1)).map(drop)
    }),
    usual("Groups::set_state", |scene| {
        let (group, state) = (GroupId::new(1), GroupState::Acknowledged);
        scene
            .db
            .dlq()
            .groups()
            .set_state(group, state, &operator())
            .map(drop)
    }),
    usual("Groups::set_note", |scene| {
        let note = Some("seen");
        scene
            .db
            .dlq()
            .groups()
            .set_note(GroupId::new(1), note, &operator())
            .map(drop)
    }),
    usual("Groups::assign", |scene| {
        let owner = Some("me");
        scene
            .db
            .dlq()
            .groups()
            .assign(GroupId::new(1), owner, &operator())
            .map(drop)
    }),
    usual("Groups::merge", |scene| {
        let (group, into) = (GroupId::new(1), GroupId::new(2));
        scene
            .db
            .dlq()
            .groups()
            .merge(group, into, &operator())
            .map(drop)
    }),
    usual("Groups::split", |scene| {
        let (group, by) = (GroupId::new(1), SplitBy::Kind);
        scene
            .db
            .dlq()
            .groups()
            .split(group, &by, &operator())
            .map(drop)
    }),
    bulk("Groups::preview_split", |scene| {
        let (group, by) = (GroupId::new(1), SplitBy::Kind);
        scene.db.dlq().groups().preview_split(group, &by).map(drop)
    }),
    usual("Groups::rules", |scene| {
        scene.db.dlq().groups().rules().map(drop)
    }),
    usual("Groups::remove_rule", |scene| {
        let rule = GroupRuleId::new(1);
        scene
            .db
            .dlq()
            .groups()
            .remove_rule(rule, &operator())
            .map(drop)
    }),
    bulk("Groups::apply_rule", |scene| {
        scene
            .db
            .dlq()
            .groups()
            .apply_rule(GroupRuleId::new(1))
            .map(drop)
    }),
    usual("Dlq::protections", |scene| {
        scene.db.dlq().protections().map(drop)
    }),
    usual("Dlq::protect", |scene| {
        let protection = Protection::new("orders").approve_above(1);
        scene.db.dlq().protect(&protection, &operator())
    }),
    usual("Dlq::unprotect", |scene| {
        scene.db.dlq().unprotect("orders", &operator()).map(drop)
    }),
    usual("Runs::approve", |scene| {
        let run = RunId::new(1);
        scene.db.dlq().runs().approve(run, &operator()).map(drop)
    }),
];
