//! The turns of groups: a job and its followers, which run one after the other. Pure.

use std::collections::HashMap;

use super::ClaimedJob;
use crate::job::job::JobId;

/// Puts the jobs of each turn behind each other, by id. `slots` has the slot of each job that may follow another one
/// of its group.
pub(crate) fn in_turns(
    mut claimed: Vec<ClaimedJob>,
    slots: &HashMap<JobId, i16>,
) -> Vec<ClaimedJob> {
    if slots.is_empty() {
        return claimed;
    }
    // The slot of the group of a job. `None`: it follows no other job.
    let turn = |job: &ClaimedJob| {
        let slot = *slots.get(&job.meta.id)?;
        Some((job.meta.group.clone()?, slot))
    };
    claimed.sort_by_cached_key(|job| (turn(job), job.meta.id));
    let mut before = None;
    for job in &mut claimed {
        let turn = turn(job);
        job.follows = turn.is_some() && turn == before;
        before = turn;
    }
    claimed
}

/// Splits jobs into chunks of at least `size` jobs, except the last one, without separating followers from
/// the job that they follow. `follows` tells whether a job does.
pub(crate) fn chunks<T>(jobs: Vec<T>, size: usize, follows: impl Fn(&T) -> bool) -> Vec<Vec<T>> {
    let mut chunks: Vec<Vec<T>> = Vec::new();
    for job in jobs {
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < size || follows(&job) => chunk.push(job),
            Some(_) | None => chunks.push(vec![job]),
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_do_not_separate_followers_from_the_job_before_them() {
        let split = |text: &str, size| -> Vec<String> {
            let jobs: Vec<char> = text.chars().collect();
            chunks(jobs, size, |job| job.is_lowercase())
                .into_iter()
                .map(|chunk| chunk.into_iter().collect())
                .collect()
        };
        for (jobs, size, expected) in [
            ("", 2, vec![]),
            ("ABC", 1, vec!["A", "B", "C"]),
            ("ABC", 2, vec!["AB", "C"]),
            ("AaaBC", 1, vec!["Aaa", "B", "C"]),
            ("AaaBC", 2, vec!["Aaa", "BC"]),
            ("ABbbC", 2, vec!["ABbb", "C"]),
            ("AaBbCc", 3, vec!["AaBb", "Cc"]),
        ] {
            assert_eq!(split(jobs, size), expected, "{jobs} {size}");
        }
    }
}
