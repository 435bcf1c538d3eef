//! The operator who runs this command, for the audit log: user and host name.

use redrive::Operator;

/// The operator, with the reason given on the command line.
pub(crate) fn current(reason: Option<&str>) -> Operator {
    let operator = Operator::new(name());
    match reason {
        Some(reason) => operator.reason(reason),
        None => operator,
    }
}

/// `user@host`, or `uid 1000@host` when no variable names the user.
fn name() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = variable("USER").or_else(|| variable("LOGNAME"));
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
    fn an_operator_is_a_user_at_a_host() {
        let name = name();
        let (user, host) = name.rsplit_once('@').expect("a user and a host");
        assert!(!user.is_empty() && !host.is_empty(), "{name}");
    }
}
