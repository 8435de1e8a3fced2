//! Figures of the service, in the text form of Prometheus.
//!
//! Owns the counting of requests, connections and streams. Does not own what is counted elsewhere and
//! only shown (processes, sessions, memory): `api/metrics` reads that when it is asked.
//!
//! Labels are routes of the document, methods and statuses, never text of a request, so their number
//! is bounded: what fits no route is counted as `other`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::api::routes::Routes;

/// Upper bounds of the buckets, in seconds: from an exec of a millisecond to a wait of a minute.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0,
];

/// What has been counted since the start.
#[derive(Debug)]
pub struct Metrics {
    routes: &'static Routes,
    requests: Mutex<Requests>,
    connections: AtomicU64,
    streams: AtomicU64,
}

#[derive(Debug, Default)]
struct Requests {
    /// By route, method and status.
    counts: BTreeMap<(usize, &'static str, u16), u64>,
    /// By route.
    durations: BTreeMap<usize, Histogram>,
}

#[derive(Debug, Default, Clone)]
struct Histogram {
    /// The last one is for all that is longer than the last bound.
    buckets: [u64; BUCKETS.len() + 1],
    sum: f64,
}

/// Something that is open, counted until it is dropped.
#[derive(Debug)]
pub struct Open {
    metrics: Arc<Metrics>,
    which: fn(&Metrics) -> &AtomicU64,
}

impl Open {
    fn new(metrics: &Arc<Metrics>, which: fn(&Metrics) -> &AtomicU64) -> Self {
        which(metrics).fetch_add(1, Ordering::Relaxed);
        Self {
            metrics: Arc::clone(metrics),
            which,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        (self.which)(&self.metrics).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Nothing counted yet; these are the routes it is counted by.
    pub fn new(routes: &'static Routes) -> Self {
        Self {
            routes,
            requests: Mutex::default(),
            connections: AtomicU64::new(0),
            streams: AtomicU64::new(0),
        }
    }

    /// Counts a connection until the guard is dropped.
    pub fn connection(self: &Arc<Self>) -> Open {
        Open::new(self, |metrics| &metrics.connections)
    }

    /// Counts an answer whose length is not known beforehand until it is over.
    pub fn stream(self: &Arc<Self>, body: Body) -> Body {
        if body.size_hint().exact().is_some() {
            return body;
        }
        Body::new(Counted {
            body,
            _open: Open::new(self, |metrics| &metrics.streams),
        })
    }

    /// Counts a request whose answer began after some time.
    pub fn request(&self, method: &Method, path: &str, status: StatusCode, took: Duration) {
        let route = self
            .routes
            .find(path)
            .map_or(usize::MAX, |route| route.index);
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (route, method_label(method), status.as_u16());
        *requests.counts.entry(key).or_default() += 1;
        let histogram = requests.durations.entry(route).or_default();
        let took = took.as_secs_f64();
        let at = BUCKETS.partition_point(|bound| *bound < took);
        if let Some(bucket) = histogram.buckets.get_mut(at) {
            *bucket += 1;
        }
        histogram.sum += took;
    }

    /// Writes all of it.
    pub fn write(&self, text: &mut Exposition) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        text.family(
            "sandshell_http_requests_total",
            "counter",
            "Requests answered.",
        );
        for ((route, method, status), count) in &requests.counts {
            let labels = format!(
                "route=\"{}\",method=\"{method}\",status=\"{status}\"",
                self.label(*route)
            );
            text.sample("sandshell_http_requests_total", &labels, *count);
        }
        text.family(
            "sandshell_http_request_duration_seconds",
            "histogram",
            "Time from a request to the beginning of its answer.",
        );
        for (route, histogram) in &requests.durations {
            histogram.write(self.label(*route), text);
        }
        drop(requests);
        let gauge = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        text.gauge(
            "sandshell_http_connections",
            "Connections that are open.",
            gauge(&self.connections),
        );
        text.gauge(
            "sandshell_http_streams",
            "Streamed answers that are being read: events and raw output.",
            gauge(&self.streams),
        );
    }

    fn label(&self, index: usize) -> &'static str {
        let route = self.routes.all().get(index);
        route.map_or("other", |route| route.template())
    }
}

impl Histogram {
    fn write(&self, route: &str, text: &mut Exposition) {
        let name = "sandshell_http_request_duration_seconds";
        let mut total = 0;
        for (bound, count) in BUCKETS.iter().zip(self.buckets) {
            total += count;
            let labels = format!("route=\"{route}\",le=\"{bound}\"");
            text.sample(&format!("{name}_bucket"), &labels, total);
        }
        total = self.buckets.iter().sum();
        let labels = format!("route=\"{route}\"");
        text.sample(
            &format!("{name}_bucket"),
            &format!("{labels},le=\"+Inf\""),
            total,
        );
        text.sample(&format!("{name}_sum"), &labels, self.sum);
        text.sample(&format!("{name}_count"), &labels, total);
    }
}

/// The text of the figures. Names and labels are ours, so nothing needs escaping.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// One that begins with the version.
    pub fn of_this_program() -> Self {
        const NAME: &str = "sandshell_build_info";
        let mut text = Self::default();
        text.family(NAME, "gauge", "The version of the program.");
        text.sample(NAME, &format!("version=\"{}\"", crate::VERSION), 1);
        text
    }

    /// Opens a family of samples. Writing to a string cannot fail.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample; `labels` without their braces.
    pub fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = if labels.is_empty() {
            writeln!(self.0, "{name} {value}")
        } else {
            writeln!(self.0, "{name}{{{labels}}} {value}")
        };
    }

    /// A family of one gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, "", value);
    }

    /// The text so far.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl IntoResponse for Exposition {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        ([(header::CONTENT_TYPE, kind)], self.into_text()).into_response()
    }
}

/// Methods are made up by clients, too.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// A body that is counted while it is read.
struct Counted {
    body: Body,
    _open: Open,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_not_by_path() {
        let metrics = Metrics::new(crate::api::routes::own());
        for path in ["/v1/processes/a", "/v1/processes/b", "/v1/made-up", "/x\"y"] {
            metrics.request(&Method::GET, path, StatusCode::OK, Duration::from_millis(3));
        }
        let odd = Method::from_bytes(b"ODD").unwrap();
        metrics.request(
            &odd,
            "/v1/exec",
            StatusCode::METHOD_NOT_ALLOWED,
            Duration::from_secs(99),
        );
        let mut text = Exposition::default();
        metrics.write(&mut text);
        let text = text.into_text();
        for line in [
            "sandshell_http_requests_total{route=\"/v1/processes/{id}\",method=\"GET\",status=\"200\"} 2",
            "sandshell_http_requests_total{route=\"other\",method=\"GET\",status=\"200\"} 2",
            "sandshell_http_requests_total{route=\"/v1/exec\",method=\"other\",status=\"405\"} 1",
            "sandshell_http_request_duration_seconds_bucket{route=\"/v1/processes/{id}\",le=\"0.0025\"} 0",
            "sandshell_http_request_duration_seconds_bucket{route=\"/v1/processes/{id}\",le=\"0.005\"} 2",
            "sandshell_http_request_duration_seconds_bucket{route=\"/v1/exec\",le=\"60\"} 0",
            "sandshell_http_request_duration_seconds_bucket{route=\"/v1/exec\",le=\"+Inf\"} 1",
            "sandshell_http_request_duration_seconds_count{route=\"/v1/exec\"} 1",
        ] {
            assert!(
                text.lines().any(|there| there == line),
                "{line}\nnot in\n{text}"
            );
        }
    }

    #[test]
    fn what_is_open_is_counted_until_it_is_over() {
        let metrics = Arc::new(Metrics::new(crate::api::routes::own()));
        let connection = metrics.connection();
        let stream = metrics.stream(Body::from_stream(futures_util::stream::pending::<
            Result<Bytes, axum::Error>,
        >()));
        let whole = metrics.stream(Body::from("whole"));
        let count = || {
            (
                metrics.connections.load(Ordering::Relaxed),
                metrics.streams.load(Ordering::Relaxed),
            )
        };
        assert_eq!(count(), (1, 1));
        drop((connection, stream, whole));
        assert_eq!(count(), (0, 0));
    }
}
