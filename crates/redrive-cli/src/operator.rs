//! The operator who runs this command, for the audit log: user and host name.

use clap::Args;
use redrive::Operator;

/// Why the operator acts.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Reason {
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: Option<String>,
}

/// Parses the value of `--reason`.
pub(crate) fn not_blank(reason: &str) -> Result<String, String> {
    match reason.trim().is_empty() {
        true => Err("a reason cannot be empty".to_owned()),
        false => Ok(reason.to_owned()),
    }
}

impl Reason {
    pub(crate) fn text(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The operator, with the reason.
    pub(crate) fn operator(&self) -> Operator {
        current(self.text())
    }
}

/// The operator, with the reason given on the command line.
pub(crate) fn current(reason: Option<&str>) -> Operator {
    let operator = Operator::new(name());
    match reason {
        Some(reason) => operator.reason(reason),
        None => operator,
    }
}

/// `user@host`. Without a variable that names the user, the name comes from `/etc/passwd`; without an
/// entry there, it is `uid 1000`.
fn name() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let uid = rustix::process::getuid().as_raw();
    let from_passwd = || {
        let entries = std::fs::read_to_string("/etc/passwd").ok()?;
        user_of(uid, &entries).map(str::to_owned)
    };
    let user = variable("USER")
        .or_else(|| variable("LOGNAME"))
        .or_else(from_passwd)
        .unwrap_or_else(|| format!("uid {uid}"));
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("{user}@{host}")
}

/// Returns the name of a user from the lines of `/etc/passwd`: `name:password:uid:…`.
fn user_of(uid: u32, entries: &str) -> Option<&str> {
    entries.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_number() {
        let entries =
            "root:x:0:0:root:/root:/bin/sh\n\n:x:7:7::/:\n# x:0\nmaria:x:1000:1000::/srv/maria:";
        assert_eq!(user_of(0, entries), Some("root"));
        assert_eq!(user_of(1000, entries), Some("maria"));
        assert_eq!(user_of(7, entries), None, "an empty name");
        assert_eq!(user_of(10, entries), None);
    }
}
