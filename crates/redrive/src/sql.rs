//! The index of the SQL statements: one file each, in the order of the pipeline.
//!
//! There is no other SQL text in the library. [`ALL`] lets a test prepare every statement
//! against a migrated database.

mod signature;

use std::sync::OnceLock;

use postgres::types::{ToSql, Type};

/// A parameter of a statement.
pub(crate) type Parameter<'a> = &'a (dyn ToSql + Sync);

/// A statement: its name (the file's) and its text.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// What its header says, once it was asked for.
    signature: OnceLock<Vec<Type>>,
}

impl Sql {
    /// The types of its parameters, in their order.
    fn signature(&self) -> &[Type] {
        self.signature
            .get_or_init(|| signature::signature(self.text))
    }

    /// Its parameters with their types, as it takes them when it is not prepared.
    pub(crate) fn typed<'a>(&self, parameters: &[Parameter<'a>]) -> Vec<(Parameter<'a>, Type)> {
        let types = self.signature().iter().cloned();
        parameters.iter().copied().zip(types).collect()
    }
}

macro_rules! statements {
    ($($constant:ident = $name:literal;)*) => {
        $(pub(crate) static $constant: Sql = Sql {
            name: $name,
            text: include_str!(concat!("../sql/", $name, ".sql")),
            signature: OnceLock::new(),
        };)*

        /// Every statement, for the test that prepares them.
        static ALL: &[&Sql] = &[$(&$constant),*];
    };
}

statements! {
    ENQUEUE = "enqueue";
    ENQUEUE_ONE = "enqueue_one";
    ENQUEUE_UNIQUE = "enqueue_unique";
    RESERVE_IDS = "reserve_ids";
    COPY_JOBS = "copy_jobs";
    COPY_JOBS_DELAYED = "copy_jobs_delayed";
    WAKE = "wake";
    PROMOTE = "promote";
    CLAIM = "claim";
    CLAIM_ONE = "claim_one";
    UNSERVED = "unserved";
    TRIP_BREAKER = "trip_breaker";
    OPEN_BREAKERS = "open_breakers";
    TAKE_PROBE = "take_probe";
    END_PROBE = "end_probe";
    SETTLE_DONE = "settle_done";
    SETTLE = "settle";
    SETTLE_OWN = "settle_own";
    FREE_KEY = "free_key";
    RELEASE = "release";
    GIVE_BACK = "give_back";
    RENEW = "renew";
    WAIT = "wait";
    LEAVE = "leave";
    CHORES = "chores";
    REAP = "reap";
    TURN_RING = "turn_ring";
    FOLD_LETTERS = "fold_letters";
    FOLD_METRICS = "fold_metrics";
    CAPTURE = "capture";
    CAPTURE_LETTERS = "capture_letters";
    LETTERS = "letters";
    COUNT_LETTERS = "count_letters";
    REDRIVE = "redrive";
    REFUSED = "refused";
    UNSERVED_LETTERS = "unserved_letters";
    PREVIEW_REDRIVE = "preview_redrive";
    CREATE_RUN = "create_run";
    TAKE_RUN = "take_run";
    DRIVE_RUN = "drive_run";
    CHANGE_RUN = "change_run";
    RUNS = "runs";
    RUN_SKIPS = "run_skips";
    DISCARD = "discard";
    PRUNE = "prune";
    PAGE_LETTERS = "page_letters";
    MASK = "mask";
    PAGE_EDITABLE = "page_editable";
    EDIT_LETTERS = "edit_letters";
    VERSIONS = "versions";
    RESTORE_LETTER = "restore_letter";
    TAKE_LETTER = "take_letter";
    DELIVERED = "delivered";
    NOT_DELIVERED = "not_delivered";
    APPLY_RETENTION = "apply_retention";
    SET_RETENTION = "set_retention";
    REMOVE_RETENTION = "remove_retention";
    RETENTION = "retention";
    RETENTION_DUE = "retention_due";
    ARCHIVED_LETTERS = "archived_letters";
    ADD_REDACTION = "add_redaction";
    REMOVE_REDACTION = "remove_redaction";
    REDACTIONS = "redactions";
    SET_POLICY = "set_policy";
    SET_POLICY_MODE = "set_policy_mode";
    REMOVE_POLICY = "remove_policy";
    POLICIES = "policies";
    RUN_POLICIES = "run_policies";
    LIVE_JOB = "live_job";
    CANCEL = "cancel";
    SET_PRIORITY = "set_priority";
    GROUPS = "groups";
    MARK_GROUP = "mark_group";
    NOTE_GROUP = "note_group";
    OWN_GROUP = "own_group";
    AUDIT = "audit";
    AUDIT_COUNTERS = "audit_counters";
    DRAINED = "drained";
    BREAKERS = "breakers";
    OPEN_BREAKER = "open_breaker";
    CLOSE_BREAKER = "close_breaker";
    STATS = "stats";
    STATS_FAILURES = "stats_failures";
    SCHEMA_VERSION = "schema_version";
    IDENTIFY = "identify";
    DURABILITY = "durability";
    METRIC_TOTALS = "metric_totals";
    METRICS_QUEUES = "metrics_queues";
    METRICS_LETTERS = "metrics_letters";
    METRICS_OPERATIONS = "metrics_operations";
    METRICS_SERVER = "metrics_server";
    METRICS_TABLES = "metrics_tables";
    METRICS_BLOAT = "metrics_bloat";
}

/// Name and text of every statement, for tools and tests.
pub fn statements() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|sql| (sql.name, sql.text))
}

/// Name and types of the parameters of every statement, for tests.
#[doc(hidden)]
pub fn signatures() -> impl Iterator<Item = (&'static str, &'static [Type])> {
    ALL.iter().map(|sql| (sql.name, sql.signature()))
}
