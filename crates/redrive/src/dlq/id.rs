//! The ids of what belongs to dead letters: groups and their rules, runs, redactions.

use crate::db::column::id_columns;
use crate::job::id::ids;

id_columns! { GroupId GroupRuleId RunId RedactionId }

ids! {
    /// The id of a failure group.
    GroupId = "failure group";
    /// The id of a rule that merges or splits a failure group.
    GroupRuleId = "group rule";
    /// The id of a redrive run.
    RunId = "redrive run";
    /// The id of a redaction.
    RedactionId = "redaction";
}
