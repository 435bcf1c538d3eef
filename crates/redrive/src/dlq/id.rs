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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_positive_number() {
        assert_eq!("12".parse::<GroupId>().expect("an id"), GroupId::new(12));
        for text in ["0", "-1", "x", ""] {
            let error = text.parse::<RunId>().expect_err(text);
            assert!(error.is_invalid(), "{error}");
        }
    }
}
