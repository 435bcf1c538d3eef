//! The command line: its commands and the layout of its help.

use clap::{CommandFactory as _, Parser};

use crate::admin::{
    AuditCommand, BreakerCommand, Erase, Migrate, Prune, QueueCommand, RedactCommand, Repair,
};
use crate::dlq::{DlqCommand, conditions_help};
use crate::global::GlobalArgs;
use crate::jobs::{Enqueue, JobCommand, Stats, Work, job_conditions_help};
use crate::name::OWN_NAME;
use crate::optional::Optional as _;
use crate::program::Program;
use crate::schedule::ScheduleCommand;
use crate::selection::WORDS;
use crate::subcommands::subcommands;

const EXIT_CODES: &str = "\
Exit codes:
  0  success; also when the reader closes the output (broken pipe)
  1  nothing matched, a check failed, a signal stopped the command, or part of
     the work could not be done
  2  error: invalid argument, database, or file

Text from the database is printed with control characters escaped; --json
prints it unchanged. Log lines go to stderr; RUST_LOG selects them, for
example RUST_LOG=redrive=debug. The database URL is never printed. The audit
knows the operator as USER@HOST, from $USER, $LOGNAME or /etc/passwd.";

/// Examples come first, then the options in groups.
const HELP: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}{all-args}{after-help}
";

/// Job queue and dead letter queue on PostgreSQL
///
/// A job that fails for good becomes a dead letter with its payload, error and history. Inspect
/// letters with `dlq list` and `dlq show`, fix the cause, and send them back with `dlq redrive`.
#[derive(Debug, Parser)]
#[command(name = "redrive", version, after_help = EXIT_CODES, max_term_width = 90)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

subcommands! {
    pub(crate) enum Command {
        Migrate(Migrate),
        Enqueue(Enqueue),
        Work(Work),
        Stats(Stats),
        #[command(subcommand)]
        Job(JobCommand),
        #[command(subcommand)]
        Schedule(ScheduleCommand),
        Dlq(DlqCommand),
        #[command(subcommand)]
        Queue(QueueCommand),
        #[command(subcommand)]
        Breaker(BreakerCommand),
        Prune(Prune),
        #[command(subcommand)]
        Redact(RedactCommand),
        Erase(Erase),
        Audit(AuditCommand),
        Repair(Repair),
    }
}

/// The command line of a program, ready to parse.
pub(crate) fn definition(program: &Program) -> clap::Command {
    let version = program.version.clone();
    with_help_layout(Cli::command(), &conditions_help)
        .name(program.name.clone())
        .bin_name(program.name.clone())
        .with(version, clap::Command::version)
}

/// Returns a help text whose commands have the name of the program: `redrive stats` becomes `shop stats`.
pub(crate) fn named(text: &str, program: &str) -> String {
    let commands = Cli::command();
    let mut parts = text.split("redrive ");
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let word = part.split([' ', '\n', '`', ';', ',', ':', ')']).next();
        let word = word.unwrap_or_default();
        // `dlq redrive` and `schedule redrive` are subcommands.
        let is_subcommand = ["dlq ", "schedule "].iter().any(|of| named.ends_with(of));
        let is_known = word == "help" || commands.find_subcommand(word).is_some();
        let name = match is_known && !is_subcommand {
            true => program,
            false => OWN_NAME,
        };
        named.extend([name, " ", part]);
    }
    named
}

/// Applies the help layout to a command and its subcommands. The long help of one that takes conditions on letters or
/// jobs has them at its end.
fn with_help_layout(command: clap::Command, conditions: &dyn Fn() -> String) -> clap::Command {
    let conditions = match command.get_name() {
        "job" => &job_conditions_help,
        _ => conditions,
    };
    let takes_conditions = takes_conditions(&command);
    let with_conditions = |command: clap::Command| {
        let help = command.get_after_help().map(|help| format!("{help}\n\n"));
        command.after_long_help(help.unwrap_or_default() + &conditions())
    };
    command
        .with_flag(takes_conditions, with_conditions)
        .help_template(HELP)
        .mut_subcommands(|command| with_help_layout(command, conditions))
}

fn takes_conditions(command: &clap::Command) -> bool {
    let mut arguments = command.get_arguments();
    arguments.any(|argument| argument.get_id() == WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::width;

    /// Checks a command and its subcommands.
    fn for_each(command: &clap::Command, check: &mut impl FnMut(&clap::Command)) {
        check(command);
        let subcommands = command.get_subcommands();
        for subcommand in subcommands.filter(|subcommand| subcommand.get_name() != "help") {
            for_each(subcommand, check);
        }
    }

    #[test]
    fn the_help_of_a_command_has_a_summary_its_usage_examples_conditions_and_then_the_options() {
        let mut definition = definition(&Program::new("redrive"));
        // Passes the global options on.
        definition.build();
        let mut filtering = 0;
        for_each(&definition, &mut |command| {
            if command.has_subcommands() {
                return;
            }
            let name = command.get_name();
            let help = command.clone().render_long_help().to_string();
            assert!(help.ends_with('\n') && !help.ends_with("\n\n"), "{help}");
            assert!(command.get_about().is_some(), "`{name}` has no summary");
            let examples = command.get_before_help().map(ToString::to_string);
            let examples = examples.unwrap_or_default();
            assert!(examples.starts_with("Example"), "`{name}` has no example");
            let at = |text| help.find(text);
            if let (Some(examples), Some(options)) = (at("Example"), at("Options:")) {
                assert!(examples < options, "{help}");
            }
            let filters = takes_conditions(command);
            assert_eq!(help.contains("payload.customer.id=42"), filters, "{help}");
            filtering += usize::from(filters);
            let is_option =
                |line: &&str| line.starts_with("  ") && line.trim_start().starts_with('-');
            let last = help.lines().rfind(is_option);
            let is_global = last.is_none_or(|line| line.contains("--verbose"));
            assert!(is_global, "{help}");
            // The usage names the arguments in the order in which they are read.
            let usage = command.clone().render_usage().to_string();
            let place = |argument: &clap::Arg| {
                let name = &argument.get_value_names().expect("a name of the value")[0];
                let places = ["<", "["].map(|bracket| usage.rfind(&format!("{bracket}{name}")));
                places.into_iter().flatten().max().expect(&usage)
            };
            assert!(command.get_positionals().map(place).is_sorted(), "{usage}");
        });
        assert!(filtering >= 16, "{filtering}");
    }

    #[test]
    fn every_text_of_a_program_has_its_name() {
        let text = "a redrive run: redrive dlq redrive audit 4, `redrive stats`";
        assert_eq!(named(text, "redrive"), text);
        let of_the_shop = "a redrive run: shop dlq redrive audit 4, `shop stats`";
        assert_eq!(named(text, "shop"), of_the_shop);
        let mut shop = definition(&Program::new("shop".to_owned()));
        shop.build();
        let commands = shop.get_subcommands().map(clap::Command::get_name);
        let commands: Vec<&str> = commands.collect();
        for_each(&shop, &mut |command| {
            let help = command.clone().render_long_help().to_string();
            let help = named(&help, "shop");
            for name in &commands {
                assert!(!help.contains(&format!("redrive {name} ")), "{help}");
            }
        });
    }

    /// Help wraps at the width of the terminal, and a command that is wrapped cannot be copied.
    #[test]
    fn every_line_of_an_example_fits_on_a_narrow_terminal() {
        let definition = definition(&Program::new("redrive"));
        for_each(&definition, &mut |command| {
            let helps = [command.get_before_help(), command.get_after_help()];
            for help in helps.into_iter().flatten().map(ToString::to_string) {
                for line in help.lines().filter(|line| line.starts_with("  ")) {
                    assert!(width(line) <= 80, "{}: {line}", command.get_name());
                }
            }
        });
    }
}
