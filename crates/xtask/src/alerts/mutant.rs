//! Mutants: a rule with one thing in it changed. Each must turn a test red.

use serde_json::Value;

use super::promql::{Matcher, Part, Placed};
use super::rules::Rule;

/// A rule with one thing changed.
#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) rule: Rule,
    /// What was changed, for people: where it stands and what it became.
    pub(crate) change: String,
}

/// Every mutant of a rule.
pub(crate) fn mutants(rule: &Rule) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (at, placed) in rule.parts.iter().enumerate() {
        let meeting = meeting(rule, at);
        for other in others(&placed.part, meeting) {
            let mut expression = rule.expression.clone();
            expression.replace_range(placed.bytes.clone(), &other);
            let mut changed = rule.clone();
            changed.value["expr"] = Value::String(expression);
            let (line, column) = place(&rule.expression, placed.bytes.start);
            let was = &rule.expression[placed.bytes.clone()];
            mutants.push(Mutant {
                rule: changed,
                change: format!("expr {line}:{column}: `{was}` became `{other}`"),
            });
        }
    }
    let mut change = |field: &str, others: Option<[u64; 2]>| {
        for seconds in others.into_iter().flatten() {
            let other = format!("{seconds}s");
            let mut changed = rule.clone();
            changed.value[field] = Value::String(other.clone());
            let was = rule.text(field);
            // Zero has only one neighbour.
            if was != other {
                mutants.push(Mutant {
                    rule: changed,
                    change: format!("{field}: `{was}` became `{other}`"),
                });
            }
        }
    };
    // The tests look every minute.
    let pending = seconds(rule.text("for"));
    change(
        "for",
        pending.map(|time| [time.saturating_sub(60), time + 60]),
    );
    // When it ends depends on when a window ends, which differs between versions of Prometheus.
    let kept = seconds(rule.text("keep_firing_for"));
    change("keep_firing_for", kept.map(|time| [time / 2, time * 2]));
    mutants
}

/// `5m` in seconds.
fn seconds(duration: &str) -> Option<u64> {
    let (number, unit) = duration.split_at(duration.find(|c: char| !c.is_ascii_digit())?);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? * unit)
}

/// The line and the column of a byte, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    (line, at - before.rfind('\n').map_or(0, |end| end + 1) + 1)
}

/// How a measurement meets a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meeting {
    /// It can be just as large: a number of things, or zero.
    Exact,
    /// It is zero when nothing happened; anything else is extrapolated.
    Zero,
    /// Equality is chance: rates are extrapolated, fractions rounded.
    Chance,
}

/// How the comparison around this part is met.
fn meeting(rule: &Rule, at: usize) -> Meeting {
    let ends = |placed: &Placed| matches!(placed.part, Part::Set(_));
    let from = rule.parts[..at]
        .iter()
        .rposition(ends)
        .map_or(0, |set| set + 1);
    let to = rule.parts[at..].iter().position(ends);
    let sides = &rule.parts[from..to.map_or(rule.parts.len(), |set| at + set)];
    let by_chance = sides.iter().any(|placed| match &placed.part {
        Part::Window(_) => true,
        Part::Number(number) => number.contains('.'),
        Part::Selector(name, _) => name.contains(':'),
        Part::Comparison(_)
        | Part::Set(_)
        | Part::Arithmetic(_)
        | Part::Grouping(..)
        | Part::Call(_)
        | Part::Open
        | Part::Close => false,
    });
    let zero = Part::Number("0".to_owned());
    let mut compared = rule.parts[at..].iter().take(2);
    match by_chance {
        false => Meeting::Exact,
        true if compared.any(|placed| placed.part == zero) => Meeting::Zero,
        true => Meeting::Chance,
    }
}

/// What could stand there by mistake.
fn others(part: &Part, meeting: Meeting) -> Vec<String> {
    match part {
        Part::Number(number) => match number.parse::<f64>() {
            Ok(0.0) if meeting == Meeting::Zero => vec!["(2)".to_owned(), "(-1)".to_owned()],
            Ok(0.0) => vec!["(1)".to_owned(), "(-1)".to_owned()],
            Ok(value) => vec![format!("{}", value * 0.9), format!("{}", value * 1.1)],
            Err(_) => Vec::new(),
        },
        Part::Comparison(operator) => {
            let others: &[&str] = match &**operator {
                ">" if meeting == Meeting::Chance => &["<"],
                ">" => &[">=", "<"],
                ">=" => &[">", "<"],
                "<" => &["<=", ">"],
                "<=" => &["<", ">"],
                "==" => &["!=", ">"],
                _ => &["=="],
            };
            others.iter().map(|&other| other.to_owned()).collect()
        }
        Part::Set(operator) => match &**operator {
            "and" => vec!["or".to_owned(), "unless".to_owned()],
            "or" => vec!["and".to_owned(), "unless".to_owned()],
            _ => vec!["or".to_owned(), "and".to_owned()],
        },
        Part::Arithmetic(operator) => vec![
            match operator {
                '+' => "-",
                '-' => "+",
                '*' => "/",
                _ => "*",
            }
            .to_owned(),
        ],
        Part::Window(window) => seconds(window).map_or_else(Vec::new, |time| {
            vec![format!("[{}s]", time / 2), format!("[{}s]", time * 2)]
        }),
        Part::Grouping(word, labels) => (0..labels.len())
            .map(|out| {
                let mut fewer = labels.clone();
                fewer.remove(out);
                format!("{word} ({})", fewer.join(", "))
            })
            .collect(),
        Part::Selector(name, matchers) => changed_matchers(matchers)
            .iter()
            .map(|matchers| {
                let inside: Vec<String> = matchers
                    .iter()
                    .map(|one| format!("{}{}\"{}\"", one.label, one.operator, one.value))
                    .collect();
                format!("{name}{{{}}}", inside.join(", "))
            })
            .collect(),
        Part::Call(_) | Part::Open | Part::Close => Vec::new(),
    }
}

/// Without one of them, with one turned round, with one that names another value or one value less.
fn changed_matchers(matchers: &[Matcher]) -> Vec<Vec<Matcher>> {
    let mut all = Vec::new();
    for (at, matcher) in matchers.iter().enumerate() {
        let mut without = matchers.to_vec();
        without.remove(at);
        all.push(without);
        let mut with = |operator: &str, value: String| {
            let mut changed = matchers.to_vec();
            operator.clone_into(&mut changed[at].operator);
            changed[at].value = value;
            all.push(changed);
        };
        let turned = match &*matcher.operator {
            "=" => "!=",
            "!=" => "=",
            "=~" => "!~",
            _ => "=~",
        };
        with(turned, matcher.value.clone());
        with(&matcher.operator, "something_else".to_owned());
        let values = matcher.values();
        if values.len() > 1 {
            for out in 0..values.len() {
                let mut fewer = values.clone();
                fewer.remove(out);
                with(&matcher.operator, fewer.join("|"));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::mutants;
    use crate::alerts::promql;
    use crate::alerts::rules::Rule;

    #[test]
    fn every_number_comparison_matcher_and_duration_is_changed() {
        let expression = "sum by (job) (rate(a{x=~\"1|2\"}[5m]))\nunless b{y=\"z\"} > 0";
        let rule = Rule {
            name: "A".to_owned(),
            is_alert: true,
            expression: expression.to_owned(),
            parts: promql::parts(expression).expect("parts"),
            value: json!({"alert": "A", "expr": expression, "for": "1m"}),
        };
        let changes: Vec<String> = mutants(&rule).into_iter().map(|one| one.change).collect();
        assert_eq!(
            changes,
            [
                "expr 1:5: `by (job)` became `by ()`",
                "expr 1:20: `a{x=~\"1|2\"}` became `a{}`",
                "expr 1:20: `a{x=~\"1|2\"}` became `a{x!~\"1|2\"}`",
                "expr 1:20: `a{x=~\"1|2\"}` became `a{x=~\"something_else\"}`",
                "expr 1:20: `a{x=~\"1|2\"}` became `a{x=~\"2\"}`",
                "expr 1:20: `a{x=~\"1|2\"}` became `a{x=~\"1\"}`",
                "expr 1:31: `[5m]` became `[150s]`",
                "expr 1:31: `[5m]` became `[600s]`",
                "expr 2:1: `unless` became `or`",
                "expr 2:1: `unless` became `and`",
                "expr 2:8: `b{y=\"z\"}` became `b{}`",
                "expr 2:8: `b{y=\"z\"}` became `b{y!=\"z\"}`",
                "expr 2:8: `b{y=\"z\"}` became `b{y=\"something_else\"}`",
                "expr 2:17: `>` became `>=`",
                "expr 2:17: `>` became `<`",
                "expr 2:19: `0` became `(1)`",
                "expr 2:19: `0` became `(-1)`",
                "for: `1m` became `0s`",
                "for: `1m` became `120s`",
            ]
        );
    }
}
