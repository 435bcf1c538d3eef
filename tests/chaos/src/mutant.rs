//! Mutants: redrive with one bug, which its scenario must reveal.
//!
//! A proxy changes a statement on its way to the server, or a function is replaced in the database. The library needs
//! no hook for this.

use redrive_servers::{Edit, patched};

use crate::checker::Rule;
use crate::scenario::Scenario;

/// A bug, and how it is noticed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Changes of statements or functions.
    pub(crate) patches: &'static [Patch],
    pub(crate) scenario: Scenario,
    /// A violation of any of these kills it.
    pub(crate) rules: &'static [Rule],
}

/// A replacement in the text of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    /// The name of the library's statement, for error messages, or of a function.
    pub(crate) place: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// Applies patches to what a client sends.
pub(crate) fn edit(patches: &[Patch]) -> Edit {
    let patches = patches.to_vec();
    Edit::new(move |frame| {
        let patches = patches.iter();
        patches.fold(frame, |frame, patch| patched(frame, patch.from, patch.to))
    })
}

/// What a mutant changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Statements of the library.
    Statement,
    /// Functions of the database.
    Function,
}

/// `NAME in SCENARIO breaks [RULES], KIND`, and the changes: the statement or function, a text in it, and the text
/// instead.
macro_rules! mutants {
    ($($name:literal in $scenario:ident breaks [$($rule:ident)+], $kind:ident
       $($place:literal $from:literal => $to:literal)*;)+) => {
        &[$(Mutant {
            name: $name,
            kind: Kind::$kind,
            patches: &[$(Patch { place: $place, from: $from, to: $to }),*],
            scenario: Scenario::$scenario,
            rules: &[$(Rule::$rule),+],
        }),+]
    };
}

/// Applied in every run, so that rare events are frequent: the ring turns at 16 kB instead of
/// 32 MB, and suspects wait for 2 % of the usual time.
pub(crate) const SPEED_UP: &[Patch] = &[
    Patch {
        place: "turn_ring",
        from: "redrive.turn_ring($1, $2)",
        to: "redrive.turn_ring($1::bigint / 2048, $2)",
    },
    Patch {
        place: "reap",
        from: "(j.crashes + 1) * $4::integer",
        to: "(j.crashes + 1) * ($4::integer / 50)",
    },
];

pub(crate) const MUTANTS: &[Mutant] = mutants! {
    // Mutants of claiming: attempts, leases and suspects.
    "promote-ignores-run-at" in Work breaks [NotEarly], Function
        "promote" "d.run_at <= statement_timestamp()"
            => "d.run_at <= statement_timestamp() + interval '1 day'";
    "claim-charges-no-attempt" in Work breaks [Attempts], Function
        "jobs_of" "j.meta, 1)" => "j.meta, (COALESCE((j.meta).attempt, 0) = 0)::integer)"
        "start_jobs" "coalesce((j.meta).attempt, 0) + 1" => "greatest((j.meta).attempt, 1)";
    "lease-id-is-reused" in Work breaks [Fenced], Statement
        "claim" "CASE WHEN p.fit THEN $7::uuid END" => "CASE WHEN p.fit THEN coalesce($8::uuid, $7::uuid) END"
        "claim_one" "SELECT $5, $6, $1" => "SELECT coalesce($6::uuid, $5::uuid), $6, $1";
    "suspects-share-a-lease" in Poison breaks [SuspectsAlone], Function
        "lease_jobs" "AND (u.crashes = 0" => "AND (true"
        "lease_jobs" "CASE WHEN w.is_alone THEN w.place END" => "NULL::bigint";
    // Mutants of settling: verdicts, refunds and counters.
    "settle-without-fence" in Pause breaks [Fenced], Statement
        "settle_done" "WHERE l.lease_id = ANY ($1::uuid[])\n        AND"
            => "WHERE NOT EXISTS (
                 SELECT FROM redrive.leases own WHERE own.lease_id = ANY ($1::uuid[]))
                 OR l.lease_id = ANY ($1::uuid[]) AND";
    "settle-keeps-the-lease" in Work breaks [Verdict NotStuck], Statement
        "settle_done" "DELETE FROM redrive.leases l\n    WHERE"
            => "UPDATE redrive.leases l SET worker_id = l.worker_id\n    WHERE";
    "death-loses-the-letter" in Work breaks [Verdict], Statement
        "settle" "'dead' AND (SELECT count(*) FROM returned) >= 0"
            => "'dead' AND (SELECT count(*) FROM returned) >= 0 AND false";
    "death-names-another-cause" in Work breaks [Cause], Statement
        "settle" "s.is_cancelled THEN 'manual' ELSE v.cause END" => "s.is_cancelled THEN 'manual' ELSE 'exhausted' END";
    "outage-charges-an-attempt" in Work breaks [OutageFree], Statement
        "settle" "WHEN s.verdict IN ('snooze', 'outage') OR" => "WHEN s.verdict = 'snooze' OR";
    "recovery-is-not-recorded" in Work breaks [Lineage], Statement
        "settle" "AND l.state || '' = 'redriving'" => "AND l.state || '' = 'open'";
    "transaction-keeps-the-lease" in Work breaks [OneTransaction], Function
        "settle_own" "DELETE FROM redrive.leases l WHERE l.lease_id = settle_own.lease RETURNING l.queue INTO ended"
            => "SELECT l.queue INTO ended FROM redrive.leases l WHERE l.lease_id = settle_own.lease";
    "success-counts-twice" in Work breaks [Counters], Statement
        "settle_done" "sum(u.count)::bigint" => "2 * sum(u.count)::bigint";
    // Mutants of batches: which jobs run together, and which verdict each has.
    "neighbour-is-charged" in Batches breaks [Verdict], Statement
        "settle" "SELECT v.lease_id, v.id, v.verdict, v.delay_ms, v.cause,"
            => "SELECT v.lease_id, v.id,
                    CASE WHEN v.verdict = 'done' AND 'retry' = ANY ($3::text[]) THEN 'retry' ELSE v.verdict END AS verdict,
                    coalesce(v.delay_ms, 0) AS delay_ms, v.cause,";
    "retry-joins-a-batch" in Batches breaks [Batch], Function
        "start_jobs" "coalesce((j.meta).attempt, 0) + 1" => "1";
    // Mutants of reaping, renewing and stopping.
    "crashes-have-no-limit" in Poison breaks [Attempts], Statement
        "reap" "j.crashes + 1 >= $3 OR " => "$3::integer < 0 OR ";
    "reap-ignores-expiry" in LongRun breaks [LawfulReap], Statement
        "chores" "interval '1 millisecond')\n              < statement_timestamp()"
            => "interval '1 millisecond')\n              < statement_timestamp() + interval '1 hour'"
        "reap" "interval '1 millisecond')\n            < statement_timestamp()"
            => "interval '1 millisecond')\n            < statement_timestamp() + interval '1 hour'";
    "renewal-names-a-missing-column" in LongRun breaks [ValidSql], Statement
        "renew" "clock_timestamp() + u.lease_ms" => "clock_timestamp() + u.lease";
    "renewal-extends-no-lease" in LongRun breaks [NoOverlap], Statement
        "renew" "SET expires_at = excluded.expires_at" => "SET expires_at = w.expires_at";
    "stop-keeps-its-leases" in Carry breaks [CleanStop], Statement
        "release" "$2::uuid[] IS NULL OR " => ""
        "locked_leases" "SELECT count(*) AS leases" => "SELECT 0 * count(*) AS leases";
    "no-grace-after-a-restart" in Restart breaks [LawfulReap], Statement
        "reap" "pg_postmaster_start_time() + $1::integer * interval '1 millisecond'"
            => "pg_postmaster_start_time() + 0 * interval '1 millisecond'";
    "reap-returns-done-jobs" in Kill breaks [NotInvented OnePlace], Statement
        "reap" "WHERE j.id <> ALL (e.done)" => "WHERE j.id > 0";
    "reap-returns-a-cancelled-job" in Kill breaks [Cancelled], Statement
        "reap" " OR j.id = ANY (e.cancelled) AS is_dead" => " AS is_dead";
    // Mutants of enqueues, unique keys and the ring.
    "enqueue-loses-jobs" in Work breaks [Honest], Statement
        "enqueue" "WHERE i.delay_ms = 0" => "WHERE i.delay_ms = 0 AND i.ordinal = 1";
    "enqueue-stores-jobs-twice" in Work breaks [NotInvented], Statement
        "enqueue" "FROM incoming i\n    WHERE i.delay_ms = 0"
            => "FROM (TABLE incoming UNION ALL
                      SELECT nextval('redrive.job_id'), t.kind, t.payload, t.delay_ms, t.priority, t.max_attempts, t.ordinal
                      FROM incoming t) i
                WHERE i.delay_ms = 0";
    "follow-ups-are-lost" in Work breaks [FollowUp], Statement
        "enqueue" "WHERE i.delay_ms = 0" => "WHERE i.delay_ms = 0 AND (i.payload ->> 'key')::bigint >= 0"
        "enqueue_one" "VALUES ((SELECT r.segment FROM redrive.ring r), -2 * $4::smallint, $1::text, $2::text, $3::json, redrive.new_meta($4::smallint, $5::integer))"
            => "SELECT r.segment, -2 * $4::smallint, $1::text, $2::text, $3::json, redrive.new_meta($4::smallint, $5::integer)
                FROM redrive.ring r WHERE ($3::json ->> 'key')::bigint >= 0";
    "retry-frees-the-key" in Unique breaks [OneOfAKey], Statement
        "settle" "s.unique_key IS NOT NULL AND s.verdict = 'done'"
            => "s.unique_key IS NOT NULL AND s.verdict IN ('done', 'retry')";
    "replace-keeps-the-payload" in Unique breaks [UniqueModes], Function
        "replace_waiting" "SET payload = CASE replace_waiting.change WHEN 'time' THEN d.payload ELSE replace_waiting.payload END"
            => "SET payload = d.payload";
    "window-ends-at-once" in Unique breaks [UniqueModes], Function
        "take_key" "clock_timestamp() + take_key.window_ms * interval '1 millisecond')"
            => "clock_timestamp())";
    "truncate-ignores-rows" in Ring breaks [Kept], Function
        "turn_ring" "NOT redrive.ends_with_jobs(s.segment)" => "true"
        "clear_segment" "NOT occupied" => "true"
        "truncate_drained" "IF NOT occupied THEN" => "IF true THEN";
    "truncate-waits-for-the-enqueue" in Ring breaks [Kept], Function
        "truncate_drained" "IF redrive.is_held(heap) THEN"
            => "PERFORM set_config('lock_timeout', '60s', true); IF false THEN"
        "truncate_drained" "IF NOT occupied THEN" => "IF true THEN";
    // Mutants of cancel, redrive and prune.
    "cancel-loses-the-job" in Work breaks [Kept], Function
        "cancel_job" "IF jobs IS NOT NULL THEN" => "IF cardinality(jobs) > 1 THEN";
    "redrive-keeps-the-letter-open" in Work breaks [RedriveOnce], Function
        "send_back" "SET state = 'redriving', changed_at" => "SET state = 'open', changed_at";
    "prune-deletes-open-letters" in Keep breaks [Retention], Function
        "prune_letters" "(VALUES ('recovered'), ('discarded'))"
            => "(VALUES ('recovered'), ('discarded'), ('open'))";
    // Mutants of groups: turns, order, limits, and what letters hold.
    "claim-ignores-turns" in Groups breaks [GroupOrder GroupLimit], Statement
        "claim_groups" "coalesce(max(p.mode) IN ('ordered', 'limit'), false) AS is_bounded"
            => "false AS is_bounded";
    "limit-is-one-more" in Groups breaks [GroupLimit], Statement
        "claim_groups" "FROM generate_series(1, p.job_limit)" => "FROM generate_series(1, p.job_limit + 1)"
        "claim_groups" "THEN p.job_limit - coalesce(" => "THEN p.job_limit + 1 - coalesce(";
    "backoff-frees-the-turn" in Groups breaks [GroupOrder], Function
        "free_slots" "IS DISTINCT FROM 'ordered'" => "IS NOT NULL";
    "success-keeps-the-turn" in Groups breaks [Leftover], Statement
        "settle" "array_agg(s.id) FILTER (WHERE s.verdict = 'done')"
            => "array_agg(s.id) FILTER (WHERE s.verdict = 'done' AND s.id % 2 = 0)"
        "settle_done" "WHERE j.id <> ALL (l.done)" => "WHERE j.id <> ALL (l.done) AND j.id % 2 = 0";
    "followers-lose-the-turn" in Followers breaks [GroupOrder Leftover], Function
        "pass_slots" "h.place = g.place" => "h.place = g.place AND false";
    "death-holds-nothing" in Groups breaks [GroupHold], Function
        "pass_turn" "p.on_death IN ('hold', 'divert')" => "p.on_death = 'divert'";
    "release-keeps-the-turn" in Groups breaks [GroupHold], Function
        "release_group" "DELETE FROM redrive.group_slots s"
            => "UPDATE redrive.group_slots s SET held_at = s.held_at";
    "divert-charges-an-attempt" in Groups breaks [Diverted], Function
        "bury_waiting" "        jobs,\n"
            => "ARRAY(SELECT redrive.altered(j, j.attempt + 1) FROM unnest(jobs) j),\n";
    // Mutants of schedules.
    "tick-loses-its-job" in Scheduled breaks [Schedule], Function
        "run_ticks" "FROM redrive.ring r;" => "FROM redrive.ring r WHERE false;";
    "missed-ticks-are-not-recorded" in Scheduled breaks [Schedule], Function
        "tick_schedule" "IF tick_schedule.missed > 0 THEN" => "IF false THEN";
    "schedule-allows-overlaps" in Scheduled breaks [Schedule], Function
        "run_ticks" "CASE due.overlap WHEN 'skip' THEN" => "CASE due.overlap WHEN 'never' THEN";
    // Mutants that lose or alter what a job carries.
    "return-loses-the-headers" in Carry breaks [Content], Function
        "requeue" "redrive.meta_of(j, nullif("
            => "redrive.meta_of(ROW(j.id, j.ready_at, j.enqueued_at, j.attempt, j.max_attempts, j.generation, j.segment,
                    j.priority, j.crashes, j.refunds, j.queue, j.kind, j.payload, j.history, j.outage_since,
                    redrive.new_meta(0, 5, (j.meta).unique_key, '{}', (j.meta).group_key))::redrive.job, nullif(";
    "checkpoint-is-not-stored" in Work breaks [Checkpoint], Function
        "with_headers" " || with_headers.headers[n]" => "";
    "move-loses-the-priority" in Carry breaks [Content], Function
        "move_stragglers" "array_agg(job)" => "array_agg(redrive.altered(job, priority => 0))";
    // Mutants of breakers and erasures.
    "open-breakers-are-not-read" in Outage breaks [Breaker], Statement
        "open_breakers" "WHERE b.state <> 'closed'" => "WHERE b.state = 'none'";
    "probe-does-not-wait" in Outage breaks [Breaker], Statement
        "take_probe" " AND d.probe_at <= clock_timestamp()" => ""
        "open_breakers" "greatest(0, extract(epoch FROM b.probe_at - clock_timestamp()) * 1000)::bigint END"
            => "0::bigint END";
    "failed-probe-closes-the-breaker" in Outage breaks [Breaker], Statement
        "end_probe" "CASE $3 WHEN 'close' THEN 'closed' ELSE 'open' END"
            => "CASE $3 WHEN 'give_back' THEN 'open' ELSE 'closed' END"
        "end_probe" "CASE WHEN $3 <> 'close'" => "CASE WHEN $3 = 'give_back'";
    "erasure-keeps-the-key" in Unique breaks [Leftover], Function
        "erase_batch" "DELETE FROM redrive.unique_keys k WHERE k.job_id = ANY (held.jobs);" => "";
};

#[cfg(test)]
mod tests {
    use super::*;

    fn patches_of(kind: Kind) -> impl Iterator<Item = &'static Patch> {
        let of_kind = MUTANTS.iter().filter(move |mutant| mutant.kind == kind);
        of_kind.flat_map(|mutant| mutant.patches)
    }

    #[test]
    fn every_patch_applies_to_its_statement_and_no_two_mutants_have_the_same_name() {
        for patch in SPEED_UP.iter().chain(patches_of(Kind::Statement)) {
            let mut named = redrive::statements().filter(|(name, ..)| *name == patch.place);
            let applies = named.any(|(_, text, _)| text.contains(patch.from));
            assert!(applies, "{patch:?} does not apply");
        }
        let names = MUTANTS.iter().map(|mutant| mutant.name);
        let names: std::collections::BTreeSet<&str> = names.collect();
        assert_eq!(names.len(), MUTANTS.len());
    }

    #[test]
    fn every_patch_applies_to_its_function() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/functions");
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path());
        let texts: String = files
            .map(|file| std::fs::read_to_string(file).unwrap())
            .collect();
        let functions: Vec<&str> = texts.split("CREATE OR REPLACE FUNCTION redrive.").collect();
        for patch in patches_of(Kind::Function) {
            let name = format!("{}(", patch.place);
            let mut named = functions.iter().filter(|text| text.starts_with(&name));
            // PostgreSQL writes the body of a SQL function anew, in capitals and with more parentheses.
            let from = patch.from.trim_matches(['(', ')']).to_lowercase();
            assert!(
                named.any(|text| text.to_lowercase().contains(&from)),
                "{patch:?} does not apply"
            );
        }
    }
}
