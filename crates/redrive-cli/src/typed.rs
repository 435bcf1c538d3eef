//! The command line that was typed, as one to type again.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::terminal::quoted;

/// The id of the argument that takes conditions.
pub(crate) const WORDS: &str = "words";
/// The options that decide whether a command acts.
const ABOUT_ACTING: [&str; 2] = ["dry_run", "yes"];

/// A command line to type again.
#[derive(Default)]
pub(crate) struct Typed {
    /// The words, each with the id of its argument. A subcommand has none.
    words: Vec<(String, String)>,
    /// The arguments without a name, if one of them begins with `-`.
    operands: Vec<(String, String)>,
}

impl Typed {
    /// The command line with more words.
    pub(crate) fn again(&self, words: &[&str]) -> String {
        self.without("", words)
    }

    /// The command line without an argument and conditions of this name, and with more words.
    pub(crate) fn without(&self, name: &str, more: &[&str]) -> String {
        let condition = format!("{name}=");
        let stays = |(id, word): &&(String, String)| {
            name.is_empty() || !(id == name || id == WORDS && word.starts_with(&condition))
        };
        let kept = |words: &[(String, String)]| {
            let kept = words.iter().filter(stays);
            kept.map(|(_, word)| word.clone()).collect::<Vec<_>>()
        };
        let (mut words, operands) = (kept(&self.words), kept(&self.operands));
        words.extend(more.iter().map(ToString::to_string));
        words.extend((!operands.is_empty()).then(|| "--".to_owned()));
        words.extend(operands);
        words.join(" ")
    }
}

/// Returns the command and its arguments for a shell. Leaves out the global options, of which one may
/// have a password, and the options that decide whether the command acts.
pub(crate) fn typed(definition: &Command, matches: &ArgMatches) -> Typed {
    let (mut command, mut matches) = (definition, matches);
    let subcommand = |name: &str| (String::new(), name.to_owned());
    let mut typed = Typed::default();
    typed.words.push(subcommand(command.get_name()));
    while let Some((name, of_subcommand)) = matches.subcommand()
        && let Some(found) = command.find_subcommand(name)
    {
        typed.words.push(subcommand(name));
        (command, matches) = (found, of_subcommand);
    }
    let globals = definition
        .get_arguments()
        .filter(|argument| argument.is_global_set());
    // A command may have an option of its own in place of a global one.
    let globals: Vec<&str> = globals.map(|argument| argument.get_id().as_str()).collect();
    let is_typed = |argument: &&Arg| {
        let id = argument.get_id().as_str();
        !globals.contains(&id)
            && !ABOUT_ACTING.contains(&id)
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let mut arguments: Vec<&Arg> = command.get_arguments().filter(is_typed).collect();
    arguments.sort_by_key(|argument| !argument.is_positional());
    let values = |argument: &Arg| {
        let values = matches.get_raw(argument.get_id().as_str());
        let values = values.into_iter().flatten();
        values
            .map(|value| value.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    let is_like_an_option = |value: &String| value.starts_with('-') && value != "-";
    let needs_dashes = |argument: &&Arg| {
        argument.is_positional()
            && !argument.is_allow_negative_numbers_set()
            && values(argument).iter().any(is_like_an_option)
    };
    let has_dashes = arguments.iter().any(needs_dashes);
    for argument in arguments {
        let place = match argument.is_positional() && has_dashes {
            true => &mut typed.operands,
            false => &mut typed.words,
        };
        let mut push = |word: String| place.push((argument.get_id().to_string(), word));
        let option = argument.get_long().map(|name| format!("--{name}"));
        if !argument.get_action().takes_values() {
            option.into_iter().for_each(push);
            continue;
        }
        for value in values(argument) {
            let word = quoted(&value);
            match &option {
                Some(option) if is_like_an_option(&value) => push(format!("{option}={word}")),
                option => option.iter().cloned().chain([word]).for_each(&mut push),
            }
        }
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::definition;
    use crate::registry::Registry;

    #[test]
    fn a_command_is_typed_again_without_a_password_and_without_what_decides_whether_it_acts() {
        let mut definition = definition(&Registry::new("shop".to_owned()));
        for (line, again) in [
            (
                "dlq redrive --dry-run --no-wait --database-url postgres://me:secret@h/d --delay 10m orders age>2h --force",
                "dlq redrive orders 'age>2h' --delay 10m --force",
            ),
            (
                "job priority -5 42 43 --limit=2",
                "job priority -5 42 43 --limit 2",
            ),
            (
                "dlq groups merge 4 5 --into 7 --json --yes",
                "dlq groups merge 4 5 --into 7",
            ),
            ("prune", "prune"),
            ("dlq discard q --reason=-x", "dlq discard q --reason=-x"),
            (
                "dlq redrive --limit 3 --yes -- -q~ kind=a",
                "dlq redrive --limit 3 -- '-q~' kind=a",
            ),
            (
                "dlq redrive --limit 3 --yes -- -q kind=a",
                "dlq redrive --limit 3 -- -q kind=a",
            ),
        ] {
            let words = ["shop"].into_iter().chain(line.split(' '));
            let matches = definition.try_get_matches_from_mut(words).expect(line);
            assert_eq!(
                typed(&definition, &matches).again(&[]),
                format!("shop {again}")
            );
        }
        for (line, name, other) in [
            (
                "dlq list q state=open --limit 3",
                "state",
                "dlq list q --limit 3 more",
            ),
            (
                "dlq list q --state open --by kind",
                "state",
                "dlq list q --by kind more",
            ),
            ("breaker open -- -q", "name", "breaker open more"),
        ] {
            let words = ["shop"].into_iter().chain(line.split(' '));
            let matches = definition.try_get_matches_from_mut(words).expect(line);
            let without = typed(&definition, &matches).without(name, &["more"]);
            assert_eq!(without, format!("shop {other}"));
        }
    }
}
