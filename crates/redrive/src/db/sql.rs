//! The index of the SQL statements: one file each, in the folder of the stage that runs it, unless it only calls a
//! function.
//!
//! There is no other SQL text in the library. [`ALL`] lets a test prepare every statement
//! against a migrated database.

mod signature;

use std::sync::OnceLock;

use postgres::types::{ToSql, Type};

/// A parameter of a statement.
pub(crate) type Parameter<'a> = &'a (dyn ToSql + Sync);

/// A statement: its name (the file's, without the folder) and its text.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// The types of its parameters, parsed on first use.
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

/// The text of a statement that only calls a function.
macro_rules! call {
    ($name:ident $types:tt) => {
        call!(@ $name [] $types "$1" ", $2" ", $3" ", $4" ", $5" ", $6" ", $7" ", $8" ", $9" ", $10" ", $11" ", $12"
            ", $13" ", $14" ", $15" ", $16" ", $17")
    };
    (@ $name:ident [$($text:tt)*] () $($more:literal)*) => {
        concat!("SELECT * FROM redrive.", stringify!($name), "(", $($text)* ")")
    };
    (@ $name:ident [$($text:tt)*] ([$type:ident] $(, $types:tt)*) $next:literal $($more:literal)*) => {
        call!(@ $name [$($text)* $next, "::", stringify!($type), "[]",] ($($types),*) $($more)*)
    };
    (@ $name:ident [$($text:tt)*] ($type:ident $(, $types:tt)*) $next:literal $($more:literal)*) => {
        call!(@ $name [$($text)* $next, "::", stringify!($type),] ($($types),*) $($more)*)
    };
}

/// Declares the statements: files with their stage and name, and functions that are called as they are, with the
/// types of their parameters. Such a function has the header.
macro_rules! statements {
    (
        files { $($constant:ident = $stage:literal / $name:literal;)* }
        functions { $($called:ident = $function:ident($($type:tt),*);)* }
    ) => {
        $(pub(crate) static $constant: Sql = Sql {
            name: $name,
            text: include_str!(concat!("../../sql/", $stage, "/", $name, ".sql")),
            signature: OnceLock::new(),
        };)*

        $(pub(crate) static $called: Sql = Sql {
            name: stringify!($function),
            text: call!($function($($type),*)),
            signature: OnceLock::new(),
        };)*

        /// Every statement, for the test that prepares them.
        static ALL: &[&Sql] = &[$(&$constant,)* $(&$called),*];
    };
}

statements! {
files {
    SCHEMA_VERSION = "db" / "schema_version";
    SCHEMA_DRIFT = "db" / "schema_drift";
    DURABILITY = "db" / "durability";
    OBSTACLES = "db" / "obstacles";
    ENQUEUE = "pipeline" / "enqueue";
    ENQUEUE_ONE = "pipeline" / "enqueue_one";
    RESERVE_IDS = "pipeline" / "reserve_ids";
    COPY_JOBS = "pipeline" / "copy_jobs";
    COPY_JOBS_DELAYED = "pipeline" / "copy_jobs_delayed";
    CLAIM = "pipeline" / "claim";
    CLAIM_WINDOW = "pipeline" / "claim_window";
    CLAIM_ONE = "pipeline" / "claim_one";
    CLAIM_GROUPS = "pipeline" / "claim_groups";
    MEASURE_QUEUE = "pipeline" / "measure_queue";
    TRIP_BREAKER = "pipeline" / "trip_breaker";
    OPEN_BREAKERS = "pipeline" / "open_breakers";
    TAKE_PROBE = "pipeline" / "take_probe";
    END_PROBE = "pipeline" / "end_probe";
    SETTLE_DONE = "pipeline" / "settle_done";
    SETTLE = "pipeline" / "settle";
    CHECKPOINT = "pipeline" / "checkpoint";
    KEEP_DONE = "pipeline" / "keep_done";
    RELEASE = "pipeline" / "release";
    REAP = "pipeline" / "reap";
    BREAKERS = "pipeline" / "breakers";
    GROUP_POLICY = "pipeline" / "group_policy";
    HELD_GROUPS = "pipeline" / "held_groups";
    QUEUES_WITH_HELD_GROUPS = "pipeline" / "queues_with_held_groups";
    RATE_LIMITS = "pipeline" / "rate_limits";
    LOCK_TOKENS = "pipeline" / "lock_tokens";
    CHARGE_TOKENS = "pipeline" / "charge_tokens";
    SCHEDULES = "schedule" / "schedules";
    SCHEDULE_HISTORY = "schedule" / "schedule_history";
    SCHEDULE_CLOCK = "schedule" / "schedule_clock";
    DUE_SCHEDULES = "schedule" / "due_schedules";
    FAIL_SCHEDULE = "schedule" / "fail_schedule";
    CAPTURED_BYTES = "dlq" / "captured_bytes";
    ARCHIVED_BYTES = "dlq" / "archived_bytes";
    PREVIEW_REDRIVE = "dlq" / "preview_redrive";
    RUNS = "dlq" / "runs";
    RUN_SKIPS = "dlq" / "run_skips";
    RUN_LETTERS = "dlq" / "run_letters";
    COUNT_PRUNABLE = "dlq" / "count_prunable";
    VERSIONS = "dlq" / "versions";
    DELIVERED = "dlq" / "delivered";
    RETENTION = "dlq" / "retention";
    REDACTIONS = "dlq" / "redactions";
    PROTECTIONS = "dlq" / "protections";
    GROUPS = "dlq" / "groups";
    GROUP_RULES = "dlq" / "group_rules";
    MAKE_DUE_READY = "testing" / "make_due_ready";
    QUEUES_OF_KINDS = "testing" / "queues_of_kinds";
    TRAVEL = "testing" / "travel";
    TELL_CANCELLED = "admin" / "tell_cancelled";
    LIST_JOBS = "admin" / "list_jobs";
    AUDIT = "admin" / "audit";
    COUNT_PRUNABLE_AUDIT = "admin" / "count_prunable_audit";
    NOW = "admin" / "now";
    STATS = "admin" / "stats";
    QUEUE_NAMES = "admin" / "queue_names";
    IDLE_QUEUES = "worker" / "idle_queues";
    OTHER_WORKERS = "worker" / "other_workers";
    BEGIN_OWN = "worker" / "begin_own";
    ASK_OWN = "worker" / "ask_own";
    END_TRANSACTIONS = "worker" / "end_transactions";
    LOCKED_LEASES = "worker" / "locked_leases";
    RENEW = "worker" / "renew";
    WAIT = "worker" / "wait";
    LEAVE = "worker" / "leave";
    CHORES = "worker" / "chores";
    TURN_RING = "worker" / "turn_ring";
    UNHANDLED_KINDS = "worker" / "unhandled_kinds";
    COUNT_CHORES = "worker" / "count_chores";
    FOLD_BACKLOG = "metrics" / "fold_backlog";
}
functions {
    AUDIT_COUNTERS = audit_counters();
    AGE_JOBS = age_jobs(text, bigint, integer, bigint);
    BLOCKED_LETTERS = blocked_letters(jsonb, text, boolean, bigint);
    BURY_UNHANDLED = bury_unhandled(text, text, text, bigint);
    CANCEL_JOB = cancel_job(bigint, text, text, boolean);
    COMPACT = compact();
    CAPTURE_LETTERS = capture_letters([jsonb], [bytea]);
    CREATE_RUN = create_run(jsonb, text, text, text, integer, integer, boolean, bigint, integer, bigint, uuid, integer, integer, [bigint], bigint);
    DISCARD_LETTERS = discard_letters(jsonb, bigint, text, text, bigint, boolean);
    DRIVE_RUN = drive_run(bigint, uuid, integer, bigint);
    FOLD_LETTERS = fold_letters(integer);
    FOLD_METRICS = fold_metrics(integer);
    FOLD_RUNS = fold_runs(integer);
    FORGET_FULL_BUCKETS = forget_full_buckets(integer);
    IMPORT_LETTERS = import_letters([jsonb], [bytea]);
    IS_DRAINED = is_drained([text]);
    OPEN_BREAKER = open_breaker(text, interval, text, text);
    PAUSE_QUEUE = pause_queue(text, timestamptz, interval, text, text);
    PROMOTE = promote(text, bigint, bigint, bigint);
    PRUNE_AUDIT = prune_audit(interval, bigint, text, text);
    PRUNE_LETTERS = prune_letters(interval, bigint, text, text);
    REGROUP_LETTERS = regroup_letters(bigint, bigint, bigint);
    REPAIR = repair(boolean, text, text);
    RELEASE_GROUP = release_group(text, text, text, text);
    REMOVE_RATE_LIMIT = remove_rate_limit(text, text, boolean, text, text);
    RESUME_QUEUE = resume_queue(text, text, text);
    STORE_JOBS = store_jobs(text, [text], [json], [bigint], [smallint], [integer], [text], [jsonb], [text], [text], [bigint]);
    SETTLE_OWN = settle_own(uuid, bigint, integer, boolean, boolean, timestamptz, [text], [text], [smallint], [bigint], [float8]);
    SET_POLICY = set_policy(text, jsonb, interval, text, text, integer, integer, float8, boolean, timestamptz, text, text);
    SET_RATE_LIMIT = set_rate_limit(text, integer, interval, integer, text, boolean, text, text);
    SET_RETENTION = set_retention(text, text, interval, text, text, text);
    SET_SCHEDULE = schedule(text, text, text, json, text, text, interval, integer, integer, jsonb, text, text, timestamptz, text, text);
    SET_GROUP_POLICY = set_group_policy(text, text, integer, text, text, text);
    CHANGE_JOBS = change_jobs(text, jsonb, jsonb, jsonb, bigint, text, text, bigint, integer, [bigint], [text], [text]);
    COUNT_JOBS = count_jobs(jsonb, integer);
    PAGE_WAITING = page_waiting(jsonb, jsonb, bigint);
    ADD_GROUP_RULE = add_group_rule(bigint, bigint, text, text, text);
    ADD_REDACTION = add_redaction(text, text, [text], [text], text, text);
    APPLY_RETENTION = apply_retention(bigint, text, text, text);
    PREVIEW_GROUP_RULE = preview_group_rule(bigint, bigint, text);
    CHANGE_RUN = change_run(bigint, text, text, text);
    CLOSE_BREAKER = close_breaker(text, text, text);
    COUNT_LETTERS = count_letters(jsonb, boolean);
    COUNT_LETTERS_BY = count_letters_by(jsonb, text, text);
    CHANGE_GROUP = change_group(bigint, text, text, text, text, text);
    DELETE_ARCHIVED = delete_archived(jsonb, bigint, text, text, bigint);
    EDIT_LETTERS = edit_letters([bigint], [json], [integer], text, text, jsonb, text, bigint, integer);
    ERASABLE = erasable(jsonb);
    ERASE_BATCH = erase_batch(jsonb, bigint, text, text, bigint);
    LETTERS = list_letters(jsonb, bigint, bigint, boolean, boolean);
    LOCK_LETTERS = lock_letters(jsonb, [text], timestamptz, bigint);
    LIVE_WAITS = live_waits(bigint);
    PAGE_LETTERS = page_letters(jsonb, bigint, bigint, boolean);
    REDACT_GROUPS = redact_groups(jsonb);
    REDRIVE_LETTERS = redrive_letters(jsonb, bigint, text, text, text, integer, integer, boolean, bigint);
    REDACT_LETTERS = redact_letters([bigint], jsonb, boolean, text, text, bigint);
    REMOVE_GROUP_RULE = remove_group_rule(bigint, text, text);
    REMOVE_PROTECTION = remove_protection(text, text, text);
    REMOVE_REDACTION = remove_redaction(bigint, text, text);
    REMOVE_RETENTION = remove_retention(text, text, text, text);
    RESTORE_ARCHIVED = restore_archived(jsonb, bigint, bigint, text, text, bigint);
    METRIC_TOTALS = metric_totals();
    METRICS_LETTERS = metrics_letters();
    METRICS_OPERATIONS = metrics_operations();
    METRICS_QUEUES = metrics_queues();
    METRICS_SERVER = metrics_server();
    METRICS_TABLES = metrics_tables();
    NEXT_TICK = next_tick();
    PAUSE_SCHEDULE = pause_schedule(text, boolean, text, text);
    REMOVE_SCHEDULE = remove_schedule(text, text, text);
    TICK_SCHEDULE = tick_schedule(text, bigint, timestamptz, [timestamptz], bigint, timestamptz, timestamptz);
    TRIGGER_SCHEDULE = trigger_schedule(text, text, text);
    TAKE_GROUP_TOKENS = take_group_tokens(text, [text], [bigint]);
    TAKE_RUN = take_run(bigint, uuid, integer);
    SET_PROTECTION = set_protection(text, bigint, [text], text, text);
    WAKE = wake(text);
}
}

/// Name, text and types of the parameters of every statement, for tools and tests.
pub fn statements() -> impl Iterator<Item = (&'static str, &'static str, &'static [Type])> {
    ALL.iter().map(|sql| (sql.name, sql.text, sql.signature()))
}
