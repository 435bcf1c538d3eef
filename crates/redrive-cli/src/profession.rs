//! The role that a command needs.

/// A profession of `redrive.grant_role`, or the owner of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profession {
    /// Migrates the schema and protects queues.
    Owner,
    Enqueuer,
    Worker,
    Capturer,
    /// Changes letters, runs, policies, queues, breakers and jobs.
    Operator,
    /// Reads, and changes nothing.
    Reader,
}

impl Profession {
    /// Says which role a command needs, and how its role of the database gets it.
    pub(crate) fn needed(self, role: &str) -> String {
        let name = match self {
            Profession::Owner => return "only the owner of the schema may do this".to_owned(),
            Profession::Enqueuer => "enqueuer",
            Profession::Worker => "worker",
            Profession::Capturer => "capturer",
            Profession::Operator => "operator",
            Profession::Reader => "reader",
        };
        format!(
            "this command needs the role {name}, which the owner of the schema grants: \
             SELECT redrive.grant_role('{role}', '{name}')"
        )
    }
}
