//! Routes requests to pages and renders them.

use std::sync::Arc;

use tiny_http::Method;

use crate::collector::{CONTENT_TYPE, Collector};
use crate::http::{Request, Response};

/// 200 while the process serves.
const HEALTHY: &str = "/-/healthy";
/// 200 while the database answers.
pub(crate) const READY: &str = "/-/ready";

/// Handles a request.
pub(crate) fn handle(request: &Request, telemetry_path: &str, collector: &Collector) -> Response {
    if !matches!(request.method, Method::Get | Method::Head) {
        let mut refusal = Response::line(405, "Method not allowed.");
        refusal.headers.push(("Allow", "GET, HEAD"));
        return refusal;
    }
    match &*request.path {
        "/" => landing(telemetry_path),
        HEALTHY => Response::line(200, "redrive-exporter is healthy."),
        READY => match collector.trouble() {
            None => Response::line(200, "redrive-exporter is ready."),
            Some(why) => Response::line(503, why),
        },
        path if path == telemetry_path => Response {
            status: 200,
            headers: vec![("Content-Type", CONTENT_TYPE)],
            body: collector.scrape(request.scrape_timeout),
        },
        _ => Response::line(404, "Not found."),
    }
}

fn landing(telemetry_path: &str) -> Response {
    // The path has only characters that need no escaping.
    let text = format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head><meta charset=\"utf-8\"><title>redrive-exporter</title></head>\n\
         <body>\n\
         <h1>redrive-exporter {version}</h1>\n\
         <p>Prometheus metrics of redrive: queues, dead letters, workers, tables.</p>\n\
         <ul>\n\
         <li><a href=\"{telemetry_path}\">Metrics</a></li>\n\
         <li><a href=\"{HEALTHY}\">Healthy</a></li>\n\
         <li><a href=\"{READY}\">Ready</a></li>\n\
         </ul>\n\
         </body>\n\
         </html>\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    Response {
        status: 200,
        headers: vec![("Content-Type", "text/html; charset=utf-8")],
        body: Arc::new(text.into_bytes()),
    }
}
