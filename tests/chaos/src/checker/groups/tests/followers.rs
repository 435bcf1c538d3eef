//! Jobs that are claimed with the job that has the turn of their group.

use super::Story;
use crate::checker::Rule;
use crate::db_trace::{Change, Place, Turn};
use crate::role::groups::{HELD, ORDERED};

impl Story {
    /// A claim starts these jobs; the first one takes the turn.
    fn starts(self, jobs: &[i64]) -> Story {
        let claim = |story: Story, job: &i64| {
            let left = story.row(*job, Place::Ready, Change::Out, None);
            left.row(*job, Place::Leased, Change::In, None)
        };
        // The rows of a claim are in no order.
        let claimed = jobs.iter().rev().fold(self.next(), claim);
        claimed.turn(jobs[0], Turn::Taken)
    }

    /// It ends, and its turn passes to a follower.
    fn passes(self, job: i64, to: i64) -> Story {
        self.done(job).turn(to, Turn::Taken)
    }

    /// Followers that were not started return.
    fn returns(self, jobs: &[i64]) -> Story {
        let back = |story: Story, job: &i64| {
            let left = story.row(*job, Place::Leased, Change::Out, None);
            left.row(*job, Place::Ready, Change::In, None)
        };
        jobs.iter().fold(self.next(), back)
    }
}

#[test]
fn correct_histories_of_followers_have_no_violations() {
    let stories = [
        (
            "followers",
            Story::of(ORDERED)
                .enqueue(&[1, 2, 3, 4])
                .starts(&[1, 2, 3])
                .passes(1, 2)
                .returns(&[3])
                .done(2)
                .starts(&[3, 4])
                .passes(3, 4)
                .retry(4)
                .leased(4)
                .done(4),
        ),
        (
            "a dead follower",
            Story::of(HELD)
                .enqueue(&[1, 2, 3])
                .starts(&[1, 2, 3])
                .passes(1, 2)
                .dies(2, Turn::Held)
                .returns(&[3]),
        ),
    ];
    for (what, story) in stories {
        assert_eq!(story.rules(), [], "{what}");
    }
}

#[test]
fn every_broken_history_of_a_follower_violates_its_rule() {
    let cases = [
        (
            "a follower before an earlier job",
            Story::of(ORDERED).enqueue(&[1, 2, 3]).starts(&[1, 3]),
            Rule::GroupOrder,
        ),
        (
            "a follower of another claim",
            Story::of(ORDERED).enqueue(&[1, 2]).start(1).leased(2),
            Rule::GroupOrder,
        ),
        (
            "followers without a turn",
            Story::of(ORDERED).enqueue(&[1, 2]).starts(&[1, 2]).done(1),
            Rule::TurnOwned,
        ),
        (
            "before followers that were leased earlier",
            Story::of(HELD)
                .enqueue(&[1, 2, 3])
                .starts(&[1, 2])
                .dies(1, Turn::Held)
                .release(1)
                .start(3),
            Rule::GroupOrder,
        ),
        (
            "behind a dead follower",
            Story::of(HELD)
                .enqueue(&[1, 2, 3])
                .starts(&[1, 2])
                .passes(1, 2)
                .dies(2, Turn::Freed)
                .start(3),
            Rule::GroupHold,
        ),
    ];
    for (what, story, rule) in cases {
        let found = story.rules();
        assert!(found.contains(&rule), "{what}: {found:?}");
    }
}
