//! Letters that another redrive run will send too.

use crate::dlq::prelude::*;
use crate::dlq::redrive::options::RedriveOptions;

row! {
    /// A run that has not ended, and its letters that a redrive selects too.
    ///
    /// No letter is sent twice: the run that comes second skips it.
    #[derive(Copy, PartialEq, Eq)]
    pub struct OverlappingRun {
        /// The run.
        pub run: RunId,
        /// The number of letters that both select.
        pub letters: u64,
    }
}

impl Dlq<'_> {
    /// Returns the runs that will send letters that a redrive selects now.
    pub(crate) fn overlapping(
        self,
        filter: &LetterFilter,
        options: &RedriveOptions,
    ) -> Result<Vec<OverlappingRun>> {
        self.db.ask_bulk().all(
            "find other runs of the letters",
            &sql::OVERLAPPING_RUNS,
            &[&filter.parameter()?, &options.force, &filter.limit],
        )
    }
}
