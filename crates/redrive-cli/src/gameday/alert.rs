//! Waits for an alert about a queue in the HTTP API of Prometheus.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use serde_json::Value;

/// How long Prometheus may take to connect, and to send a part of its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 16 << 20;

/// The alerts of a Prometheus that answers plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AlertSource {
    /// Host and port.
    authority: String,
    /// The path before `/api/v1/alerts`.
    prefix: String,
}

/// Parses the URL of a Prometheus, as an argument.
pub(super) fn alerts_url(text: &str) -> Result<AlertSource, String> {
    let Some(rest) = text.strip_prefix("http://") else {
        return Err("expected a URL such as http://prometheus:9090".to_owned());
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_odd = |character: char| character.is_whitespace() || character.is_control();
    if authority.is_empty() || authority.contains('@') || rest.contains(is_odd) {
        return Err("expected a host and perhaps a port, without a user".to_owned());
    }
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = match has_port {
        true => authority.to_owned(),
        false => format!("{authority}:80"),
    };
    let prefix = match path.trim_end_matches('/') {
        "" => String::new(),
        path => format!("/{path}"),
    };
    Ok(AlertSource { authority, prefix })
}

impl fmt::Display for AlertSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.prefix)
    }
}

impl AlertSource {
    /// Returns the name of an alert that fires with the queue as a label.
    pub(super) fn firing(&self, queue: &str) -> Result<Option<String>, String> {
        let answer = self.ask().map_err(|error| error.to_string())?;
        firing_alert(&answer, queue)
    }

    /// Asks for the alerts. HTTP/1.0 keeps the answer in one piece.
    fn ask(&self) -> io::Result<String> {
        let AlertSource { authority, prefix } = self;
        let address = authority
            .to_socket_addrs()?
            .next()
            .ok_or_else(|| io::Error::other("the host has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let request = format!(
            "GET {prefix}/api/v1/alerts HTTP/1.0\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// Returns the name of an alert in a response that fires with the queue as a label.
fn firing_alert(response: &str, queue: &str) -> Result<Option<String>, String> {
    let status = response.lines().next().unwrap_or_default();
    let Some((_, body)) = response.split_once("\r\n\r\n") else {
        return Err("the answer is not HTTP".to_owned());
    };
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("the answer is `{status}`"));
    }
    let body: Value =
        serde_json::from_str(body).map_err(|error| format!("the answer is not JSON: {error}"))?;
    let Some(alerts) = body["data"]["alerts"].as_array() else {
        return Err("the answer has no alerts".to_owned());
    };
    let is_about = |alert: &&Value| {
        let labels = alert["labels"].as_object();
        alert["state"] == "firing"
            && labels.is_some_and(|labels| labels.values().any(|value| value == queue))
    };
    let name = |alert: &Value| alert["labels"]["alertname"].as_str().map(str::to_owned);
    Ok(alerts
        .iter()
        .find(is_about)
        .map(|alert| name(alert).unwrap_or_else(|| "an alert without a name".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_perhaps_a_port_and_a_path() {
        let shown = |url| alerts_url(url).map(|source| source.to_string());
        for (url, expected) in [
            ("http://prom:9090", Some("http://prom:9090")),
            ("http://prom", Some("http://prom:80")),
            ("http://[::1]:9090/prom/", Some("http://[::1]:9090/prom")),
            ("https://prom", None),
            ("http://", None),
            ("http://user:secret@prom", None),
            ("http://prom/a b", None),
        ] {
            assert_eq!(shown(url).ok().as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn only_an_alert_that_fires_about_the_queue_counts() {
        let answer = |state: &str, queue: &str| {
            format!(
                "HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{{\"status\": \"success\", \"data\": {{\"alerts\": [\
                 {{\"labels\": {{\"alertname\": \"Letters\", \"queue\": \"{queue}\"}}, \"state\": \"{state}\"}}]}}}}"
            )
        };
        let fires = |state, queue| firing_alert(&answer(state, queue), "gameday-1");
        assert_eq!(fires("firing", "gameday-1"), Ok(Some("Letters".to_owned())));
        assert_eq!(fires("pending", "gameday-1"), Ok(None));
        assert_eq!(fires("firing", "orders"), Ok(None));
        for (response, error) in [
            ("", "the answer is not HTTP"),
            (
                "HTTP/1.0 503 Busy\r\n\r\n",
                "the answer is `HTTP/1.0 503 Busy`",
            ),
            ("HTTP/1.0 200 OK\r\n\r\n{}", "the answer has no alerts"),
        ] {
            assert_eq!(firing_alert(response, "q"), Err(error.to_owned()));
        }
        let text = firing_alert("HTTP/1.0 200 OK\r\n\r\nhello", "q").expect_err("not JSON");
        assert!(text.starts_with("the answer is not JSON"), "{text}");
    }
}
