//! Who acts, for the audit: the user of the operating system and the host.

use std::env;
use std::fs;

use redrive::Act;

/// An act of the person at this terminal, and why.
pub(crate) fn act(why: Option<&str>) -> Act {
    let act = Act::new().person(named(&user(), &host()));
    match why {
        Some(why) => act.why(why),
        None => act,
    }
}

fn user() -> String {
    first(["USER", "LOGNAME", "USERNAME"].map(env::var))
}

fn host() -> String {
    let file = fs::read_to_string("/etc/hostname").map_err(|_| env::VarError::NotPresent);
    first([env::var("HOSTNAME"), file])
}

/// The first that says something.
fn first<const N: usize>(found: [Result<String, env::VarError>; N]) -> String {
    found
        .into_iter()
        .flatten()
        .find(|name| !name.trim().is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

fn named(user: &str, host: &str) -> String {
    let plain =
        |name: &str| -> String { name.trim().chars().filter(|c| !c.is_control()).collect() };
    format!("{}@{}", plain(user), plain(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_a_user_at_a_host() {
        assert_eq!(named("maria", "ops-1\n"), "maria@ops-1");
        assert_eq!(
            first([
                Err(env::VarError::NotPresent),
                Ok(" ".to_owned()),
                Ok("x".to_owned())
            ]),
            "x"
        );
        assert_eq!(first([Err(env::VarError::NotPresent)]), "unknown");
    }
}
