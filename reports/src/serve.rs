//! Shows runs while they go on: a server on the loopback interface, whose page is made again when the tables of the runs have changed,
//! and whose metrics follow their raw files.

mod connections;
mod growth;
mod metrics;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, bail};
use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use record::run_dir::RunDir;
use tokio::net::TcpListener;

use self::{
    connections::{Bounds, answer},
    metrics::Metrics,
};
use crate::{
    page::{Links, page},
    report::{Report, runs_in},
};

/// Neither the page nor the metrics are made again before this many times the duration of making them have passed, so that the server
/// takes little time from the jobs that are measured on the same machine.
const REST: u32 = 30;

/// A browser has a few connections and sends a request at once.
const BOUNDS: Bounds = Bounds {
    head: Duration::from_secs(10),
    end: Duration::from_millis(500),
    answer: Duration::from_secs(30),
    connections: 64,
};

/// Runs, the page that was made of them, and their metrics.
pub struct Server {
    paths: Vec<PathBuf>,
    made: Mutex<Arc<Made>>,
    metrics: Mutex<Metrics>,
}

struct Made {
    /// The [`fingerprint`] of the files.
    state: String,
    /// The page, or the error that prevented it.
    html: Result<String, String>,
    at: Instant,
    took: Duration,
}

impl Server {
    /// # Errors
    /// There is no run, or its manifest cannot be read.
    pub fn new(paths: Vec<PathBuf>) -> anyhow::Result<Server> {
        let made = Made::now(&paths);
        if let Err(why) = made.html {
            bail!(why);
        }
        Ok(Server { paths, made: Mutex::new(Arc::new(made)), metrics: Mutex::default() })
    }

    /// Serves until `end`, which clients cannot delay, from a port of the loopback interface; 0 takes a free one. `ready` is called with the address.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn serve(
        self,
        port: u16,
        ready: impl FnOnce(SocketAddr) -> anyhow::Result<()>,
        end: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let refused = || format!("port {port} of the loopback interface; choose another with --port");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.with_context(refused)?;
        let address = listener.local_addr().with_context(refused)?;
        ready(address)?;
        let app = Router::new()
            .route("/", get(show))
            .route("/state", get(state))
            .route("/metrics", get(show_metrics))
            .with_state(Arc::new(self))
            .layer(middleware::from_fn_with_state(address.port(), only_from_here));
        answer(listener, app, BOUNDS, end).await;
        Ok(())
    }

    /// The page, made again if the files have changed or it could not be made, and enough time has passed. Requests that come while a page
    /// is made wait for it, so that any number of them takes one core. `asked_at` is the time of the request.
    fn renewed(&self, asked_at: Instant) -> Arc<Made> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = asked_at >= made.at + made.took * REST;
        if is_due && (made.html.is_err() || made.state != fingerprint(&self.paths)) {
            *made = Arc::new(Made::now(&self.paths));
        }
        Arc::clone(&made)
    }
}

impl Made {
    fn now(paths: &[PathBuf]) -> Made {
        let begin = Instant::now();
        let state = fingerprint(paths);
        let html = match Report::of(paths, |_| true) {
            Ok(report) => Ok(page(&report, Links::Server { state: &state })),
            Err(error) => Err(format!("{error:#}")),
        };
        Made { state, html, at: Instant::now(), took: begin.elapsed() }
    }
}

/// Sizes and times of the tables of all runs. Events and readings are left out, as they grow with each step.
fn fingerprint(paths: &[PathBuf]) -> String {
    let mut hasher = blake3::Hasher::new();
    for table in paths.iter().filter(|path| path.is_file()) {
        hasher.update(stamp(table).as_bytes());
    }
    for run in paths.iter().filter_map(|path| runs_in(path).ok()).flatten() {
        let Ok(run) = RunDir::open(&run) else { continue };
        for file in [
            run.manifest_path(),
            run.end_path(),
            run.measurements_path(),
            run.summary_path(),
            run.interference_path(),
            run.curves_path(),
            run.predictions_path(),
            run.decisions_path(),
            run.outcomes_path(),
            run.speed_path(),
        ] {
            hasher.update(stamp(&file).as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

fn stamp(file: &Path) -> String {
    let Ok(facts) = fs::metadata(file) else { return "absent;".into() };
    let since = facts.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    format!("{} {};", facts.len(), since.unwrap_or_default().as_nanos())
}

/// Refuses requests for another host: a page of somebody else, whose name leads to this machine, must not read the runs.
async fn only_from_here(State(port): State<u16>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if [format!("127.0.0.1:{port}"), format!("localhost:{port}")].iter().any(|own| own == host) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "open the address that `report serve` printed").into_response()
}

async fn show(State(server): State<Arc<Server>>) -> Response {
    respond(server, |_, html| Html(html.to_owned()).into_response()).await
}

async fn state(State(server): State<Arc<Server>>) -> Response {
    respond(server, |state, _| state.to_owned().into_response()).await
}

async fn show_metrics(State(server): State<Arc<Server>>) -> Response {
    let text = tokio::task::spawn_blocking(move || {
        let mut metrics = server.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.renewed(&server.paths)
    });
    match text.await {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("the metrics could not be made: {why}"))
            .into_response(),
    }
}

/// The answer that `with` makes of the state and the page. Making a page reads files and draws, which must not hold up the answers to
/// others.
async fn respond(server: Arc<Server>, with: impl Fn(&str, &str) -> Response) -> Response {
    let refused = |why: String| (StatusCode::INTERNAL_SERVER_ERROR, why).into_response();
    let asked_at = Instant::now();
    let made = match tokio::task::spawn_blocking(move || server.renewed(asked_at)).await {
        Ok(made) => made,
        Err(why) => return refused(format!("the page could not be made: {why}")),
    };
    match &made.html {
        Ok(html) => ([(header::CACHE_CONTROL, "no-store")], with(&made.state, html)).into_response(),
        Err(why) => refused(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn requests_that_come_at_once_share_one_page() {
        let dir = tempfile::tempdir().unwrap();
        let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261121-epyc");
        for file in ["manifest.toml", "end.toml", "measurements.csv", "summary.csv"] {
            fs::copy(record.join(file), dir.path().join(file)).unwrap();
        }
        let server = Server::new(vec![dir.path().into()]).unwrap();
        let first = server.renewed(Instant::now());
        assert!(Arc::ptr_eq(&first, &server.renewed(Instant::now())), "the files are as they were");

        // The page was made long ago.
        let is_due = |html| {
            let state = first.state.clone();
            *server.made.lock().unwrap() =
                Arc::new(Made { state, html, at: Instant::now(), took: Duration::ZERO });
        };
        let eight = || {
            let (barrier, asked_at) = (Barrier::new(8), Instant::now());
            let request = || {
                barrier.wait();
                server.renewed(asked_at)
            };
            let pages = thread::scope(|scope| {
                let threads = [(); 8].map(|()| scope.spawn(request));
                threads.map(|thread| thread.join().unwrap())
            });
            assert!(pages.iter().all(|page| Arc::ptr_eq(page, &pages[0])), "one page for all");
            Arc::clone(&pages[0])
        };
        fs::remove_file(dir.path().join("end.toml")).unwrap();
        is_due(Ok(String::new()));
        let changed = eight();
        assert!(changed.state != first.state && changed.html.as_ref().is_ok_and(|html| !html.is_empty()));

        fs::write(dir.path().join("manifest.toml"), "format = [").unwrap();
        is_due(Ok(String::new()));
        let failed = eight();
        assert!(failed.html.as_ref().is_err_and(|why| why.contains("manifest.toml")), "{:?}", failed.html);
        fs::copy(record.join("manifest.toml"), dir.path().join("manifest.toml")).unwrap();
        is_due(Err("too many open files".into()));
        assert!(eight().html.is_ok());
    }
}
