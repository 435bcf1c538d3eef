//! `redrive dlq list`: letters, one line each, or their numbers.

use redrive::dlq::{LetterFilter, LetterState};

use super::counts::counts;
use super::letter_table::letter_table;
use super::none_matched::none_matched;
use crate::letter::letter_line;
use crate::prelude::*;

/// List open letters, newest death first, or count them by a property
///
/// A condition on the state selects others: state=quarantined, state=open,quarantined, state=any. Letters given by id are
/// listed in any state.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq list
  redrive dlq list orders cause=rejected --limit 200
  redrive dlq list class=Timeout 'age>2h' 'payload.amount>100'
  redrive dlq list orders state=any --json | jq .error_message
  redrive dlq list orders --by payload.tenant
")]
pub(super) struct ListLetters {
    #[command(flatten)]
    words: Words,
    /// Count the letters by this property instead, at most --limit values: class, kind, queue, payload.PATH, host, version,
    /// cause, state, source or group.
    #[arg(long, value_name = "PROPERTY", conflicts_with = "after")]
    by: Option<String>,
    #[command(flatten)]
    page: Page,
}

impl ListLetters {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.words.letters()?;
        let filter = match self.words.ids().is_empty() {
            true => filter.or_state(LetterState::Open),
            false => filter,
        };
        let db = cx.database()?;
        if let Some(property) = &self.by {
            return match counts(&filter, property, self.page.limit, cx)? {
                Some(ending) => Ok(ending),
                None => self.none_matched(&filter, cx),
            };
        }
        let filter = self.page.of(filter);
        let mut letters = db.dlq().list(&filter)?;
        let more = More::after(self.page.limit, "letters", &mut letters, |last| {
            format!("--after {}", last.id)
        });
        match (letters.is_empty(), self.page.after) {
            // The page after the last letter says nothing about other states.
            (true, Some(_)) => cx.nothing(format!("no letter matches {filter}")),
            (true, None) => self.none_matched(&filter, cx),
            (false, _) => cx.list_some(&more, "", &letters, letter_line, &letter_table(&letters)),
        }
    }

    fn none_matched(&self, filter: &LetterFilter, cx: &mut Context<'_>) -> Result<Ending> {
        let states = filter.named_states().unwrap_or_default();
        let what = format!("no letter matches {filter}");
        let names_states = self.words.letters()?.named_states().is_some();
        let way = (!names_states).then_some("state=quarantined lists those");
        none_matched(&what, self.words.queue(), filter, &states, way, cx)
    }
}
