//! The pages: which there are, and what is on them.

use std::sync::Arc;

use tiny_http::Method;

use crate::collector::{Collector, Page, Readiness};
use crate::deadline::{HEADER, deadline};
use crate::http::{Answer, Head};

/// The process serves.
const HEALTHY: &str = "/-/healthy";
/// The database is seen.
pub(crate) const READY: &str = "/-/ready";

/// Finds the answer to a question.
pub(crate) fn answer(head: &Head, telemetry_path: &str, collector: &Collector) -> Answer {
    let Some(page) = Which::of(&head.path, telemetry_path) else {
        return Answer::line(404, "There is no such page.");
    };
    if !matches!(head.method, Method::Get | Method::Head) {
        return Answer::line(405, "Pages can only be read.").with_header("Allow", "GET, HEAD");
    }
    match page {
        Which::Landing => landing(telemetry_path),
        Which::Healthy => Answer::line(200, "redrive-exporter is healthy."),
        Which::Ready => ready(collector.readiness()),
        Which::Metrics => Answer {
            status: 200,
            headers: vec![("Content-Type", Page::CONTENT_TYPE)],
            text: collector.scrape(deadline(head.header(HEADER))).text(),
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Landing,
    Healthy,
    Ready,
    Metrics,
}

impl Which {
    fn of(path: &str, telemetry_path: &str) -> Option<Which> {
        match path {
            "/" => Some(Which::Landing),
            HEALTHY => Some(Which::Healthy),
            READY => Some(Which::Ready),
            path if path == telemetry_path => Some(Which::Metrics),
            _ => None,
        }
    }
}

fn ready(readiness: Readiness) -> Answer {
    match readiness {
        Readiness::Ready => Answer::line(200, "redrive-exporter is ready."),
        Readiness::NotSeen => Answer::line(503, "The database was not seen for 30 seconds."),
        Readiness::Unknown => Answer::line(
            503,
            "The schema of the database is not one that this version knows.",
        ),
    }
}

fn landing(telemetry_path: &str) -> Answer {
    // The path is made of characters that need no escape.
    let text = format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head><meta charset=\"utf-8\"><title>redrive-exporter</title></head>\n\
         <body>\n\
         <h1>redrive-exporter {version}</h1>\n\
         <p>The numbers of redrive: queues, dead letters, workers, tables.</p>\n\
         <ul>\n\
         <li><a href=\"{telemetry_path}\">Metrics</a></li>\n\
         <li><a href=\"{HEALTHY}\">Healthy?</a></li>\n\
         <li><a href=\"{READY}\">Ready?</a></li>\n\
         </ul>\n\
         </body>\n\
         </html>\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    Answer {
        status: 200,
        headers: vec![("Content-Type", "text/html; charset=utf-8")],
        text: Arc::new(text.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telemetry_path_is_what_was_said_and_nothing_else() {
        assert_eq!(Which::of("/metrics", "/metrics"), Some(Which::Metrics));
        assert_eq!(Which::of("/metrics", "/m"), None);
        assert_eq!(Which::of("/", "/m"), Some(Which::Landing));
        assert_eq!(Which::of("/-/healthy", "/m"), Some(Which::Healthy));
        assert_eq!(Which::of("/-/ready", "/m"), Some(Which::Ready));
        assert_eq!(Which::of("/metrics/", "/metrics"), None);
    }

    #[test]
    fn the_landing_page_links_to_all_others() {
        let answer = landing("/redrive");
        let text = String::from_utf8_lossy(&answer.text).into_owned();
        for part in ["/redrive\"", HEALTHY, READY, env!("CARGO_PKG_VERSION")] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
