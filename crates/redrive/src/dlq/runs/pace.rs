//! Decides whether a run continues, starts the next stage, or halts. Pure.
//!
//! One rule applies throughout: *a run halts when more letters die again than it tolerates*, a tenth
//! by default. Without a canary, it judges the outcomes since its start, later since the last window
//! of 200 began, as soon as there are enough of them.
//!
//! A canary goes first, alone. If it recovers, the run ramps up: it sends four and then sixteen times
//! as many letters, awaits the outcomes of each stage, and then sends the rest at the full rate. One
//! death halts a canary of nine, and two deaths halt a canary of ten. A stage is over when at most the
//! tolerated share has died or is still running, so that one slow job does not delay it.

/// How many stages await their outcomes: the canary and two more.
const AWAITED: i32 = 3;
/// The growth of the stages.
const GROWTH: i64 = 4;
/// The outcomes per window, unless more are needed to judge.
const WINDOW: i64 = 200;

/// The state of a run, as its driver sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// How many letters go first; 0: no canary.
    pub(crate) canary: i64,
    /// The percentage of letters that may die again.
    pub(crate) tolerated: i64,
    /// How many outcomes are needed before the run may halt, except in a stage that is awaited;
    /// `None`: it never halts.
    pub(crate) sample: Option<i64>,
    /// The number of the stage, from 0.
    pub(crate) stage: i32,
    /// The last member of the stage; `None`: the end of the run.
    pub(crate) stage_to: Option<i64>,
    /// The last member that was tried, and the number of members.
    pub(crate) cursor: i64,
    pub(crate) total: i64,
    /// The outcomes now, and when the stage began.
    pub(crate) now: Numbers,
    pub(crate) before: Numbers,
}

/// The letters that were sent, and their outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) sent: i64,
    pub(crate) recovered: i64,
    pub(crate) died: i64,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Send the letters of the stage that are due, or wait for outcomes.
    Go,
    /// Begin another stage.
    NextStage { stage: i32, to: Option<i64> },
    /// Halt, with the reason.
    Halt(String),
}

/// Decides what to do next.
pub(crate) fn pace(facts: &Facts) -> Pace {
    let Some(sample) = facts.sample else {
        return Pace::Go;
    };
    let are_too_many = |part, whole| are_too_many(part, whole, facts.tolerated);
    let sent = facts.now.sent - facts.before.sent;
    let recovered = facts.now.recovered - facts.before.recovered;
    let died = facts.now.died - facts.before.died;
    let Some(to) = facts.stage_to else {
        let judged = recovered + died;
        return if judged >= sample && are_too_many(died, judged) {
            Pace::Halt(format!("{died} of the last {judged} letters died again"))
        } else if judged >= WINDOW.max(sample) {
            Pace::NextStage {
                stage: facts.stage + 1,
                to: None,
            }
        } else {
            Pace::Go
        };
    };
    let to = to.min(facts.total);
    let untried = (to - facts.cursor).max(0);
    if are_too_many(died, sent + untried) {
        let what = if facts.stage == 0 { "canary" } else { "stage" };
        return Pace::Halt(format!(
            "{died} of the {} letters of the {what} died again",
            sent + untried
        ));
    }
    let running = sent - recovered - died;
    if untried > 0 || are_too_many(died + running, sent) {
        return Pace::Go;
    }
    let stage = facts.stage + 1;
    let size = facts
        .canary
        .saturating_mul(GROWTH.saturating_pow(stage.unsigned_abs()));
    let to = Some(facts.cursor.saturating_add(size)).filter(|_| stage < AWAITED);
    Pace::NextStage { stage, to }
}

/// Returns whether a part is more than this percentage of the whole.
pub(super) fn are_too_many(part: i64, whole: i64, percent: i64) -> bool {
    part.saturating_mul(100) > whole.saturating_mul(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of 1,000 with a canary of ten, in a stage that was begun at nothing.
    fn stage(number: i32, to: Option<i64>, cursor: i64, recovered: i64, died: i64) -> Facts {
        Facts {
            canary: 10,
            tolerated: 10,
            sample: Some(20),
            stage: number,
            stage_to: to,
            cursor,
            total: 1000,
            now: Numbers {
                sent: cursor,
                recovered,
                died,
            },
            before: Numbers::default(),
        }
    }

    fn next(stage: i32, to: Option<i64>) -> Pace {
        Pace::NextStage { stage, to }
    }

    #[test]
    fn the_canary_decides_what_follows() {
        for (cursor, recovered, died, expected) in [
            (0, 0, 0, Some(Pace::Go)),
            (10, 0, 0, Some(Pace::Go)),
            (10, 8, 0, Some(Pace::Go)),
            (10, 9, 0, Some(next(1, Some(50)))),
            (10, 9, 1, Some(next(1, Some(50)))),
            (10, 8, 1, Some(Pace::Go)),
            // Two of ten is more than a tenth, however many still run, or wait to be sent.
            (10, 0, 2, None),
            (4, 0, 2, None),
            (4, 3, 1, Some(Pace::Go)),
        ] {
            let decided = pace(&stage(0, Some(10), cursor, recovered, died));
            match expected {
                Some(expected) => assert_eq!(decided, expected, "{cursor} {recovered} {died}"),
                None => {
                    let why = "2 of the 10 letters of the canary died again";
                    assert_eq!(decided, Pace::Halt(why.to_owned()));
                }
            }
        }
    }

    #[test]
    fn stages_grow_fourfold_and_then_there_is_no_bound() {
        let at = |number, to, cursor| pace(&stage(number, Some(to), cursor, cursor, 0));
        assert_eq!(at(0, 10, 10), next(1, Some(50)));
        assert_eq!(at(1, 50, 50), next(2, Some(210)));
        assert_eq!(at(2, 210, 210), next(3, None));
        // The canary after a halt.
        assert_eq!(at(7, 220, 220), next(8, None));
    }

    #[test]
    fn a_small_canary_may_not_lose_one() {
        let one = Facts {
            canary: 1,
            ..stage(0, Some(1), 1, 0, 1)
        };
        assert!(matches!(pace(&one), Pace::Halt(_)));
    }

    #[test]
    fn members_that_were_skipped_hold_nothing_up() {
        let facts = Facts {
            now: Numbers::default(),
            ..stage(0, Some(10), 10, 0, 0)
        };
        assert_eq!(pace(&facts), next(1, Some(50)));
    }

    #[test]
    fn after_the_ramp_a_window_is_judged() {
        for (recovered, died, expected) in [
            (0, 19, Some(Pace::Go)),
            (18, 2, Some(Pace::Go)),
            (17, 3, None),
            (181, 18, Some(Pace::Go)),
            (180, 20, Some(next(4, None))),
            (150, 50, None),
        ] {
            let decided = pace(&stage(3, None, 900, recovered, died));
            match expected {
                Some(expected) => assert_eq!(decided, expected, "{recovered} {died}"),
                None => assert!(matches!(decided, Pace::Halt(_)), "{decided:?}"),
            }
        }
    }

    #[test]
    fn a_run_without_a_canary_halts_on_too_many_deaths_of_a_sample() {
        for (tolerated, sample, recovered, died, halts) in [
            // The default: more than a tenth of at least 20 outcomes.
            (10, Some(20), 0, 19, false),
            (10, Some(20), 0, 20, true),
            (10, Some(20), 18, 2, false),
            (10, Some(20), 17, 3, true),
            // Another share.
            (0, Some(20), 19, 1, true),
            (0, Some(20), 20, 0, false),
            (50, Some(20), 10, 10, false),
            (50, Some(20), 10, 11, true),
            (100, Some(20), 0, 900, false),
            // Another sample, also one beyond the window.
            (10, Some(1), 0, 1, true),
            (10, Some(500), 0, 499, false),
            (10, Some(500), 449, 51, true),
            (10, None, 0, 900, false),
        ] {
            let facts = Facts {
                canary: 0,
                tolerated,
                sample,
                ..stage(0, None, 900, recovered, died)
            };
            let decided = pace(&facts);
            let has_halted = matches!(decided, Pace::Halt(_));
            assert_eq!(has_halted, halts, "{facts:?}: {decided:?}");
        }
    }

    #[test]
    fn the_reason_of_a_halt_counts_the_outcomes_since_the_window_began() {
        let facts = Facts {
            before: Numbers {
                sent: 500,
                recovered: 400,
                died: 40,
            },
            ..stage(3, None, 900, 415, 46)
        };
        let why = "6 of the last 21 letters died again".to_owned();
        assert_eq!(pace(&facts), Pace::Halt(why));
    }
}
