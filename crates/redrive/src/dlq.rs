//! Dead letters: list, redrive, edit, discard, capture and deliver them.
//!
//! Start at [`Database::dlq`](crate::Database::dlq). A [`LetterFilter`] selects letters; the same
//! filter lists, counts, redrives, edits and discards. Every change names an
//! [`Operator`](crate::Operator) for the audit log.

pub(crate) mod id;
pub(crate) mod state;
pub(crate) mod history;
pub(crate) mod event;
pub(crate) mod filter;
pub(crate) mod handle;
pub(crate) mod batches;
pub(crate) mod prelude;
pub(crate) mod letter;
pub(crate) mod breakdown;
pub(crate) mod past;
pub(crate) mod pages;
pub(crate) mod group;
pub(crate) mod group_rule;
pub(crate) mod redrive;
pub mod runs;
pub(crate) mod discard;
pub(crate) mod capture;
pub(crate) mod captured_bytes;
pub(crate) mod deliver;
pub(crate) mod validation_error;
pub(crate) mod validate;
pub(crate) mod json_number;
pub(crate) mod edit;
pub(crate) mod version;
pub(crate) mod protection;
pub(crate) mod policy;
pub(crate) mod retention;
pub(crate) mod archive;
pub(crate) mod erase;
pub(crate) mod redaction;

pub use archive::Restored;
pub use breakdown::PropertyCount;
pub use capture::{CaptureOutcome, CapturePace, ForeignFailure};
pub use deliver::{Deliveries, Sink, Undelivered};
pub use discard::Changed;
pub use edit::{Edit, EditPreview, Edited};
pub use erase::Erasure;
pub use event::LetterEvent;
pub use filter::{
    Comparison, Fields, Filter, JobFields, LetterFields, LetterFilter, stored_conditions,
};
pub use group::{FailureGroup, GroupFilter, GroupState};
pub use group_rule::{GroupRule, Regrouped};
pub use handle::{Dlq, Groups, Redactions, RetentionRules};
pub use history::AttemptRecord;
pub use id::{GroupId, GroupRuleId, RedactionId};
pub use letter::Letter;
pub use past::LetterPast;
pub use policy::{Policy, PolicyStatus};
pub use protection::Protection;
pub use redaction::Redaction;
pub use redrive::{Blocked, LeftOut, RedriveOptions, RedrivePreview, Redriven, Skip};
pub use retention::{RetentionAction, RetentionRule};
pub use state::LetterState;
pub use validate::{Validation, ValidationResult, Validators};
pub use validation_error::ValidationError;
pub use version::PayloadVersion;

pub use crate::job::death_cause::DeathCause;
