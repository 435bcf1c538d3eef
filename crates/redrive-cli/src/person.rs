//! Who acts, for the audit: the user and the host of the operating system.

use redrive::Act;

/// An act of whoever runs this program.
pub(crate) fn act(why: Option<&str>) -> Act {
    let act = Act::new().person(person());
    match why {
        Some(why) => act.why(why),
        None => act,
    }
}

/// The user and the host, as far as they are known.
fn person() -> String {
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = named("USER").or_else(|| named("LOGNAME"));
    let user = user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("{user}@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_a_user_at_a_host() {
        let person = person();
        let (user, host) = person.rsplit_once('@').expect("a user and a host");
        assert!(!user.is_empty() && !host.is_empty(), "{person}");
    }
}
