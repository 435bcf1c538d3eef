//! The mutants: redrive with one thing broken, each of which a scene must turn red.
//!
//! A statement is changed on its way to the server, a function is replaced in the database, an
//! actor misbehaves: nothing in the library knows of it.

use crate::actor::Flaw;
use crate::checker::Rule;
use crate::proxy::Patch;
use crate::scene::Scene;

/// Something broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) how: How,
    pub(crate) scene: Scene,
    /// Any of these notices.
    pub(crate) rules: &'static [Rule],
}

/// What is broken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// Statements of the library.
    Statements(&'static [Patch]),
    /// Functions of the database: which, and in each of them what is changed to what.
    Functions(&'static [(&'static str, &'static [(&'static str, &'static str)])]),
    /// A client.
    Client(Flaw),
}

const fn patch(statement: &'static str, from: &'static str, to: &'static str) -> Patch {
    Patch {
        statement,
        from,
        to,
    }
}

/// What every scene has, so that rare things come often: the ring turns at 16 kB, and suspects wait for a fiftieth of the time.
pub(crate) const QUICK: &[Patch] = &[
    patch(
        "turn_ring",
        "redrive.turn_ring($1, $2)",
        "redrive.turn_ring($1::bigint / 2048, $2)",
    ),
    patch(
        "reap",
        "random() * u.crashes * $4::integer",
        "random() * u.crashes * ($4::integer / 50)",
    ),
];

/// All of them.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "claim-charges-nothing",
        how: How::Statements(&[
            patch("claim", "j.attempt + 1 AS attempt", "j.attempt AS attempt"),
            patch(
                "claim_one",
                "j.attempt + 1 AS attempt",
                "j.attempt AS attempt",
            ),
        ]),
        scene: Scene::Work,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "lease-id-is-the-workers",
        how: How::Statements(&[
            patch(
                "claim",
                "coalesce(t.own_lease, $7)",
                "coalesce(t.own_lease, $8, $7)",
            ),
            patch(
                "claim",
                "SELECT t.own_lease, t.id",
                "SELECT coalesce(t.own_lease, $8) AS own_lease, t.id",
            ),
        ]),
        scene: Scene::Work,
        rules: &[Rule::Fenced],
    },
    Mutant {
        name: "suspects-share-a-lease",
        how: How::Statements(&[
            patch(
                "claim",
                "(NOT p.suspect OR p.suspects <= $6)",
                "$6::integer >= 0",
            ),
            patch(
                "claim",
                "count(*) FILTER (WHERE p.suspect) <= $6",
                "$6::integer >= 0",
            ),
            patch("claim", "j.crashes > 0 OR j.kind = ANY", "j.kind = ANY"),
        ]),
        scene: Scene::Poison,
        rules: &[Rule::SuspectsAlone],
    },
    Mutant {
        name: "settle-without-fence",
        how: How::Statements(&[patch(
            "settle_done",
            "WHERE l.lease_id = ANY ($1::uuid[])\n        AND",
            "WHERE NOT EXISTS (
                 SELECT FROM redrive.leases own WHERE own.lease_id = ANY ($1::uuid[]))
                 OR l.lease_id = ANY ($1::uuid[]) AND",
        )]),
        scene: Scene::Pause,
        rules: &[Rule::Fenced],
    },
    Mutant {
        name: "lease-is-not-deleted",
        how: How::Statements(&[patch(
            "settle_done",
            "DELETE FROM redrive.leases l\n    WHERE",
            "UPDATE redrive.leases l SET worker_id = l.worker_id\n    WHERE",
        )]),
        scene: Scene::Work,
        rules: &[Rule::Verdict, Rule::NotStuck],
    },
    Mutant {
        name: "death-loses-its-letter",
        how: How::Statements(&[patch(
            "settle",
            ">= 0\n    -- Oldest",
            ">= 0 AND s.id % 2 = 0\n    -- Oldest",
        )]),
        scene: Scene::Work,
        rules: &[Rule::Verdict],
    },
    Mutant {
        name: "outage-is-charged",
        how: How::Statements(&[patch(
            "settle",
            "WHEN s.verdict IN ('snooze', 'outage') THEN s.attempt - 1",
            "WHEN s.verdict = 'snooze' THEN s.attempt - 1",
        )]),
        scene: Scene::Work,
        rules: &[Rule::OutageFree],
    },
    Mutant {
        name: "retry-forgets-attempts",
        how: How::Statements(&[patch("settle", "ELSE s.attempt END,", "ELSE 0 END,")]),
        scene: Scene::Work,
        rules: &[Rule::Attempts, Rule::Verdict],
    },
    Mutant {
        name: "recovery-is-not-told",
        how: How::Statements(&[patch(
            "settle",
            "AND l.state || '' = 'redriving'",
            "AND l.state || '' = 'open'",
        )]),
        scene: Scene::Work,
        rules: &[Rule::Lineage],
    },
    Mutant {
        name: "key-is-free-at-retry",
        how: How::Statements(&[patch(
            "settle",
            "s.verdict IN ('done', 'dead')",
            "s.verdict IN ('done', 'dead', 'retry')",
        )]),
        scene: Scene::Unique,
        rules: &[Rule::OneOfAKey],
    },
    Mutant {
        name: "key-is-not-looked-at",
        how: How::Statements(&[
            patch(
                "enqueue_unique",
                "h.job_id IS NULL OR h.job_id = i.id AS is_new",
                "true AS is_new",
            ),
            patch(
                "enqueue_unique",
                "coalesce(h.job_id, i.id) AS id",
                "i.id AS id",
            ),
        ]),
        scene: Scene::Unique,
        rules: &[Rule::OneOfAKey],
    },
    Mutant {
        name: "own-transaction-keeps-its-lease",
        how: How::Statements(&[patch(
            "settle_own",
            "DELETE FROM redrive.leases l WHERE l.lease_id = $1 RETURNING l.lease_id, l.queue, l.jobs",
            "SELECT l.lease_id, l.queue, l.jobs FROM redrive.leases l WHERE l.lease_id = $1",
        )]),
        scene: Scene::Work,
        rules: &[Rule::OneTransaction],
    },
    Mutant {
        name: "killers-never-die",
        how: How::Statements(&[patch(
            "reap",
            "j.crashes + 1 >= $3 OR ",
            "$3::integer < 0 OR ",
        )]),
        scene: Scene::Poison,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "crashes-are-not-counted",
        how: How::Statements(&[patch(
            "reap",
            "j.crashes + 1 AS crashes",
            "j.crashes::integer AS crashes",
        )]),
        scene: Scene::Poison,
        rules: &[Rule::Fenced],
    },
    Mutant {
        name: "reap-before-its-time",
        how: How::Statements(&[
            patch(
                "chores",
                "interval '1 millisecond')\n              < statement_timestamp()",
                "interval '1 millisecond')\n              < statement_timestamp() + interval '1 hour'",
            ),
            patch(
                "reap",
                "interval '1 millisecond')\n            < statement_timestamp()",
                "interval '1 millisecond')\n            < statement_timestamp() + interval '1 hour'",
            ),
        ]),
        scene: Scene::Slow,
        rules: &[Rule::LawfulReap],
    },
    Mutant {
        name: "lease-by-a-clock-of-yesterday",
        how: How::Statements(&[patch(
            "renew",
            "clock_timestamp() + $8::bigint",
            "clock_timestamp() - interval '1 day' + $8::bigint",
        )]),
        scene: Scene::Slow,
        rules: &[Rule::LawfulReap],
    },
    Mutant {
        name: "no-grace-after-a-restart",
        how: How::Statements(&[patch(
            "reap",
            "pg_postmaster_start_time() + $1::integer * interval '1 millisecond'",
            "pg_postmaster_start_time() + 0 * interval '1 millisecond'",
        )]),
        scene: Scene::Restart,
        rules: &[Rule::LawfulReap],
    },
    Mutant {
        name: "reap-brings-back-what-is-done",
        how: How::Statements(&[patch(
            "reap",
            "WHERE j.id <> ALL (e.done)",
            "WHERE j.id > 0",
        )]),
        scene: Scene::Kills,
        rules: &[Rule::NotInvented, Rule::OnePlace],
    },
    Mutant {
        name: "reap-drops-the-mates",
        how: How::Statements(&[patch(
            "reap",
            "WHERE j.id <> ALL (e.done)",
            "WHERE j.id <> ALL (e.done) AND j.id = (e.jobs[1]).id",
        )]),
        scene: Scene::Kills,
        rules: &[Rule::Fenced],
    },
    Mutant {
        name: "refunds-without-end",
        how: How::Statements(&[patch(
            "release",
            "CASE WHEN j.id = ANY ($5::bigint[]) AND j.refunds >= $6::integer THEN j.attempt ELSE j.attempt - 1 END",
            "j.attempt - 1",
        )]),
        scene: Scene::Restless,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "promoted-before-its-time",
        how: How::Statements(&[patch(
            "promote",
            "d.run_at <= statement_timestamp()",
            "d.run_at <= statement_timestamp() + interval '1 minute'",
        )]),
        scene: Scene::Work,
        rules: &[Rule::NotEarly],
    },
    Mutant {
        name: "cancel-loses-the-job",
        how: How::Statements(&[patch(
            "cancel",
            "FROM (TABLE from_jobs UNION ALL TABLE from_delayed) c\n    ON CONFLICT",
            "FROM (TABLE from_jobs UNION ALL TABLE from_delayed) c\n    WHERE false\n    ON CONFLICT",
        )]),
        scene: Scene::Work,
        rules: &[Rule::Kept],
    },
    Mutant {
        name: "done-is-counted-twice",
        how: How::Statements(&[patch(
            "settle_done",
            "sum(u.count)::bigint",
            "2 * sum(u.count)::bigint",
        )]),
        scene: Scene::Work,
        rules: &[Rule::Counters],
    },
    Mutant {
        name: "redrive-leaves-the-letter-open",
        how: How::Functions(&[(
            "redrive.send_back",
            &[(
                "SET state = 'redriving', changed_at",
                "SET state = 'open', changed_at",
            )],
        )]),
        scene: Scene::Work,
        rules: &[Rule::RedriveOnce],
    },
    Mutant {
        name: "redrive-without-locks",
        how: How::Functions(&[
            // And late, so that two of them meet.
            (
                "redrive.send_back",
                &[(
                    "FOR UPDATE OF l SKIP LOCKED",
                    "AND (SELECT true FROM pg_catalog.pg_sleep(0.15))",
                )],
            ),
            ("redrive.lock_letters", &[(" FOR UPDATE SKIP LOCKED", "")]),
        ]),
        scene: Scene::Operators,
        rules: &[Rule::OnePlace, Rule::RedriveOnce],
    },
    Mutant {
        name: "redrive-keeps-the-generation",
        how: How::Functions(&[(
            "redrive.send_back",
            &[("d.generation + 1,", "d.generation,")],
        )]),
        scene: Scene::Work,
        rules: &[Rule::Lineage],
    },
    Mutant {
        name: "prune-takes-what-waits",
        how: How::Functions(&[(
            "redrive.prune_letters",
            &[(
                "(VALUES ('recovered'), ('discarded'))",
                "(VALUES ('recovered'), ('discarded'), ('open'))",
            )],
        )]),
        scene: Scene::Prune,
        rules: &[Rule::LawfulPrune],
    },
    Mutant {
        name: "truncates-what-is-not-empty",
        how: How::Functions(&[(
            "redrive.turn_ring",
            &[
                ("CONTINUE WHEN occupied;", ""),
                ("IF NOT occupied THEN", "IF true THEN"),
            ],
        )]),
        scene: Scene::Ring,
        rules: &[Rule::Kept],
    },
    Mutant {
        name: "truncates-under-an-open-enqueue",
        how: How::Functions(&[(
            "redrive.turn_ring",
            &[
                ("IF NOT occupied THEN", "IF true THEN"),
                ("lock_timeout TO '50ms'", "lock_timeout TO '2s'"),
            ],
        )]),
        scene: Scene::Ring,
        rules: &[Rule::Kept],
    },
    Mutant {
        name: "promises-before-it-commits",
        how: How::Client(Flaw::AcksEarly),
        scene: Scene::Ring,
        rules: &[Rule::Honest],
    },
    Mutant {
        name: "asks-again-under-a-new-id",
        how: How::Client(Flaw::AsksAgain),
        scene: Scene::Lossy,
        rules: &[Rule::NotInvented],
    },
];

/// The statements that do not have what is to be changed in them: the mutant is to be mended.
pub(crate) fn misfits() -> Vec<String> {
    let patches = MUTANTS.iter().flat_map(|mutant| match mutant.how {
        How::Statements(patches) => patches,
        How::Functions(_) | How::Client(_) => &[],
    });
    let fits = |patch: &&Patch| {
        redrive::statements()
            .any(|(name, text)| name == patch.statement && text.contains(patch.from))
    };
    let misfits = QUICK.iter().chain(patches).filter(|patch| !fits(patch));
    misfits
        .map(|patch| format!("{} has no `{}`", patch.statement, patch.from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_fits_its_statement() {
        assert_eq!(misfits(), Vec::<String>::new());
    }

    #[test]
    fn names_are_of_one_mutant_each() {
        let mut names: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MUTANTS.len());
    }
}
