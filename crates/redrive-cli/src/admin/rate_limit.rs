//! `redrive queue limit`, `unlimit` and `limits`: rate limits of queues, kinds and groups.

use std::time::Duration;

use redrive::admin::ListedRateLimit;
use redrive::{Database, Queue, RateLimit, RateLimited};
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::dlq::{QUEUES, no_queue, quoted};
use crate::error::Result;
use crate::operator;
use crate::terminal::{Column, Table, grouped, json_line, one_line};
use crate::time::{self, exact, rfc3339};

/// A rate such as `100/1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    starts: u32,
    period: Duration,
}

/// Parses a rate such as `100/1s`, `5/m` or `10000/1h30m`.
pub(super) fn rate(text: &str) -> std::result::Result<Rate, String> {
    let expected = |before: &str, what: &str| {
        format!(
            "at character {}: expected {what}; a rate is a number of jobs per time, such as 100/1s, 5/m or 1000/30m",
            before.chars().count() + 1
        )
    };
    let (starts, rest) = text
        .split_once('/')
        .ok_or_else(|| expected(text, "`/` and a time"))?;
    let starts = starts
        .trim()
        .parse()
        .map_err(|_| expected("", "a number of jobs"))?;
    let period = rest.trim();
    let one = match period.starts_with(|first: char| first.is_ascii_digit()) {
        true => period.to_owned(),
        false => format!("1{period}"),
    };
    let period = time::parse(&one)
        .map_err(|_| expected(text.strip_suffix(rest).unwrap_or(text), "a time"))?;
    Ok(Rate { starts, period })
}

/// The jobs that a limit counts.
#[derive(Debug, clap::Args)]
pub(super) struct LimitedJobs {
    /// The limit of the jobs of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// The limit of each group. Jobs without a group are not limited.
    #[arg(long, conflicts_with = "kind")]
    each_group: bool,
}

impl LimitedJobs {
    fn limited(&self) -> RateLimited<'_> {
        match (&self.kind, self.each_group) {
            (Some(kind), _) => RateLimited::Kind(kind),
            (None, true) => RateLimited::EachGroup,
            (None, false) => RateLimited::Queue,
        }
    }

    /// Returns a description for messages.
    fn describe(&self, queue: &str) -> String {
        let queue = one_line(queue);
        match (&self.kind, self.each_group) {
            (Some(kind), _) => format!("kind {} in queue {queue}", one_line(kind)),
            (None, true) => format!("each group of queue {queue}"),
            (None, false) => format!("queue {queue}"),
        }
    }
}

/// Sets a limit.
pub(super) fn set(
    queue: &Queue,
    jobs: &LimitedJobs,
    rate: Rate,
    burst: Option<u32>,
    reason: &str,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let limit = RateLimit::per(rate.starts, rate.period);
    let limit = burst.map_or(limit, |burst| limit.burst(burst));
    queue.limit_rate(jobs.limited(), limit, &operator::current(Some(reason)))?;
    let queues = queue.database().admin().queue_names(queue.name(), QUEUES)?;
    if !queues.is_known {
        let problem = no_queue(queue.name(), &queues.names);
        cx.say(format!(
            "warning: {problem}; if the name is wrong: redrive queue unlimit {}",
            quoted(queue.name())
        ));
    }
    let burst = burst.unwrap_or(rate.starts);
    if cx.global.json {
        json_line(
            cx.out,
            &json!({
                "queue": queue.name(),
                "kind": jobs.kind,
                "each_group": jobs.each_group,
                "starts": rate.starts,
                "period_ms": ms(rate.period),
                "burst": burst,
            }),
        )?;
        return Ok(Ending::Done);
    }
    writeln!(
        cx.out,
        "{} is limited to {} starts per {}, with a burst of {}",
        jobs.describe(queue.name()),
        grouped(u64::from(rate.starts)),
        exact(rate.period),
        grouped(u64::from(burst)),
    )?;
    Ok(Ending::Done)
}

/// Removes a limit.
pub(super) fn remove(
    queue: &Queue,
    jobs: &LimitedJobs,
    reason: Option<&str>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    if !queue.unlimit_rate(jobs.limited(), &operator::current(reason))? {
        let jobs = jobs.describe(queue.name());
        cx.say(format!("{jobs} has no rate limit: redrive queue limits"));
        return Ok(Ending::NothingMatched);
    }
    match cx.global.json {
        true => json_line(
            cx.out,
            &json!({ "queue": queue.name(), "kind": jobs.kind, "each_group": jobs.each_group }),
        )?,
        false => writeln!(
            cx.out,
            "{} has no rate limit any more",
            jobs.describe(queue.name())
        )?,
    }
    Ok(Ending::Done)
}

/// Lists the limits of one queue, or of all.
pub(super) fn list(db: &Database, queue: Option<&str>, cx: &mut Context<'_>) -> Result<Ending> {
    let limits = db.admin().rate_limits(queue)?;
    if limits.is_empty() {
        cx.say("there is no rate limit");
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        for limit in &limits {
            json_line(cx.out, &limit_json(limit))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Name("QUEUE"),
        Column::Name("JOBS"),
        Column::Number("STARTS"),
        Column::Number("PER"),
        Column::Number("BURST"),
        Column::Number("TOKENS"),
        Column::Text("BY"),
        Column::Text("REASON"),
    ]);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    for limit in &limits {
        table.row([
            limit.queue.clone(),
            match (&limit.kind, limit.each_group) {
                (Some(kind), _) => kind.clone(),
                (None, true) => "(each group)".to_owned(),
                (None, false) => "(all)".to_owned(),
            },
            grouped(u64::from(limit.starts)),
            exact(limit.period),
            grouped(u64::from(limit.burst)),
            grouped(limit.tokens.max(0).unsigned_abs()),
            or_dash(&limit.person),
            or_dash(&limit.reason),
        ]);
    }
    table.write(cx.out)?;
    Ok(Ending::Done)
}

fn limit_json(limit: &ListedRateLimit) -> Value {
    json!({
        "queue": limit.queue,
        "kind": limit.kind,
        "each_group": limit.each_group,
        "starts": limit.starts,
        "period_ms": ms(limit.period),
        "burst": limit.burst,
        "tokens": limit.tokens,
        "set_at": rfc3339(limit.set_at),
        "by": limit.person,
        "reason": limit.reason,
    })
}

fn ms(period: Duration) -> u64 {
    u64::try_from(period.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_jobs_per_time() {
        for (text, starts, seconds) in [
            ("100/1s", 100, 1),
            ("100/s", 100, 1),
            ("5/m", 5, 60),
            ("7 / 1h30m", 7, 5400),
            ("1/7d", 1, 604_800),
        ] {
            let period = Duration::from_secs(seconds);
            assert_eq!(rate(text), Ok(Rate { starts, period }), "{text}");
        }
        for (text, character) in [
            ("", 1),
            ("100", 4),
            ("/s", 1),
            ("100/", 5),
            ("-1/s", 1),
            ("1.5/s", 1),
            ("100/x", 5),
            ("99999999999/s", 1),
            ("1/s/s", 3),
        ] {
            let why = rate(text).unwrap_err();
            assert!(why.contains("such as 100/1s"), "{text}: {why}");
            assert!(
                why.starts_with(&format!("at character {character}: ")),
                "{text}: {why}"
            );
        }
    }
}
