//! The command line that was typed, as one to type again.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::terminal::quoted;

/// The options that decide whether a command acts.
const ABOUT_ACTING: [&str; 2] = ["dry_run", "yes"];

/// A command line to type again.
pub(crate) struct Typed {
    command: String,
    /// The arguments without a name, if one of them begins with `-`.
    operands: Vec<String>,
}

impl Typed {
    /// The command line with more words.
    pub(crate) fn again(&self, words: &[&str]) -> String {
        let operands = self.operands.iter().map(String::as_str);
        let dashes = (!self.operands.is_empty()).then_some("--");
        let words = [&*self.command].into_iter().chain(words.iter().copied());
        let words: Vec<&str> = words.chain(dashes).chain(operands).collect();
        words.join(" ")
    }
}

/// Returns the command and its arguments for a shell. Leaves out the global options, of which one may
/// have a password, and the options that decide whether the command acts.
pub(crate) fn typed(definition: &Command, matches: &ArgMatches) -> Typed {
    let (mut command, mut matches) = (definition, matches);
    let mut words = vec![command.get_name().to_owned()];
    while let Some((name, of_subcommand)) = matches.subcommand()
        && let Some(subcommand) = command.find_subcommand(name)
    {
        words.push(name.to_owned());
        (command, matches) = (subcommand, of_subcommand);
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
    let (mut operands, has_dashes) = (Vec::new(), arguments.iter().any(needs_dashes));
    for argument in arguments {
        let option = argument.get_long().map(|name| format!("--{name}"));
        if !argument.get_action().takes_values() {
            words.extend(option);
            continue;
        }
        let place = match argument.is_positional() && has_dashes {
            true => &mut operands,
            false => &mut words,
        };
        for value in values(argument) {
            let word = quoted(&value);
            match &option {
                Some(option) if is_like_an_option(&value) => place.push(format!("{option}={word}")),
                option => place.extend(option.iter().cloned().chain([word])),
            }
        }
    }
    Typed {
        command: words.join(" "),
        operands,
    }
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
    }
}
