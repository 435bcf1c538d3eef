//! Mutants of alert rules: a copy of a rule with one thing changed.

use serde_json::Value;

use super::promql::{Matcher, Part, Placed};
use super::rules::Rule;

/// A rule with one thing changed.
#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) rule: Rule,
    /// The change, such as ``expr 2:17: `>` became `>=` ``.
    pub(crate) change: String,
}

/// Returns every mutant of a rule.
pub(crate) fn mutants(rule: &Rule) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (at, placed) in rule.parts.iter().enumerate() {
        let precision = precision(rule, at);
        for other in others(&placed.part, precision) {
            let mut expression = rule.expression.clone();
            expression.replace_range(placed.bytes.clone(), &other);
            let mut changed = rule.clone();
            changed.value["expr"] = Value::String(expression);
            let (line, column) = position(&rule.expression, placed.bytes.start);
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
    // The tests evaluate every minute.
    let pending = seconds(rule.text("for"));
    change(
        "for",
        pending.map(|time| [time.saturating_sub(60), time + 60]),
    );
    // Versions of Prometheus differ in when a window ends, so small changes have no effect in some.
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

/// The line and column of a byte, counted from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    (line, at - before.rfind('\n').map_or(0, |end| end + 1) + 1)
}

/// How precisely a value can equal its threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Precision {
    /// The value is a count, so equality is common.
    Exact,
    /// The value is zero if nothing happened, and otherwise extrapolated.
    OnlyZero,
    /// Rates are extrapolated and fractions rounded, so equality is a coincidence.
    Approximate,
}

/// The precision of the comparison around a token.
fn precision(rule: &Rule, at: usize) -> Precision {
    let ends = |placed: &Placed| matches!(placed.part, Part::Set(_));
    let from = rule.parts[..at]
        .iter()
        .rposition(ends)
        .map_or(0, |set| set + 1);
    let to = rule.parts[at..].iter().position(ends);
    let sides = &rule.parts[from..to.map_or(rule.parts.len(), |set| at + set)];
    let approximate = sides.iter().any(|placed| match &placed.part {
        Part::Window(_) => true,
        Part::Number(number) => number.contains('.'),
        Part::Selector(name, _) => name.contains(':'),
        Part::Comparison(_)
        | Part::Set(_)
        | Part::Arithmetic(_)
        | Part::Grouping(..)
        | Part::Open
        | Part::Close => false,
    });
    let zero = Part::Number("0".to_owned());
    let mut compared = rule.parts[at..].iter().take(2);
    match approximate {
        false => Precision::Exact,
        true if compared.any(|placed| placed.part == zero) => Precision::OnlyZero,
        true => Precision::Approximate,
    }
}

/// Likely mistakes in place of a token.
fn others(part: &Part, precision: Precision) -> Vec<String> {
    match part {
        Part::Number(number) => match number.parse::<f64>() {
            Ok(0.0) if precision == Precision::OnlyZero => {
                vec!["(2)".to_owned(), "(-1)".to_owned()]
            }
            Ok(0.0) => vec!["(1)".to_owned(), "(-1)".to_owned()],
            Ok(value) => vec![format!("{}", value * 0.9), format!("{}", value * 1.1)],
            Err(_) => Vec::new(),
        },
        Part::Comparison(operator) => {
            let others: &[&str] = match &**operator {
                ">" if precision == Precision::Approximate => &["<"],
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
            match &**operator {
                "+" => "-",
                "-" => "+",
                "*" => "/",
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
        Part::Open | Part::Close => Vec::new(),
    }
}

/// One matcher removed, inverted, with another value, or with one value less.
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
        let inverted = match &*matcher.operator {
            "=" => "!=",
            "!=" => "=",
            "=~" => "!~",
            _ => "=~",
        };
        with(inverted, matcher.value.clone());
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
    fn every_number_comparison_matcher_and_duration_is_mutated() {
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
