//! Shows runs while they go on: a server on the loopback interface, whose page is made again when the tables of the runs have changed.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context as _;
use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use rig::Exit;
use schema::run_dir::RunDir;
use tokio::net::TcpListener;

use crate::{
    page::{Links, page},
    report::{Report, runs_in},
};

/// A page is not made again before this many times the duration of making it have passed, so that the server takes little time from
/// the jobs that are measured on the same machine.
const REST: u32 = 30;

/// Runs, and the page that was made of them.
pub struct Server {
    paths: Vec<PathBuf>,
    made: Mutex<Option<Made>>,
}

struct Made {
    state: String,
    html: String,
    at: Instant,
    took: Duration,
}

impl Server {
    /// # Errors
    /// There is no run, or its manifest cannot be read.
    pub fn new(paths: Vec<PathBuf>) -> anyhow::Result<Server> {
        let server = Server { paths, made: Mutex::new(None) };
        server.make()?;
        Ok(server)
    }

    /// Serves until `end`, from a port of the loopback interface; 0 takes a free one. `ready` is called with the address.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn serve(
        self,
        port: u16,
        ready: impl FnOnce(SocketAddr) -> anyhow::Result<()>,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let refused = || format!("port {port} of the loopback interface; choose another with --port");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.with_context(refused)?;
        let address = listener.local_addr().with_context(refused)?;
        ready(address)?;
        let app = Router::new()
            .route("/", get(show))
            .route("/state", get(state))
            .with_state(Arc::new(self))
            .layer(middleware::from_fn_with_state(address.port(), only_from_here));
        axum::serve(listener, app)
            .with_graceful_shutdown(end)
            .await
            .map_err(|error| Exit::InputOutput.because(format!("the server cannot go on: {error}")))
    }

    /// The state of the page, made again if the files have changed and enough time has passed.
    fn renewed(&self) -> anyhow::Result<(String, String)> {
        let now = fingerprint(&self.paths);
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current =
            made.as_ref().is_some_and(|made| made.state == now || made.at.elapsed() < made.took * REST);
        drop(made);
        if !is_current {
            self.make()?;
        }
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.as_ref().map(|made| (made.state.clone(), made.html.clone())).context("a page was made")
    }

    fn make(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        let state = fingerprint(&self.paths);
        let html = page(&Report::of(&self.paths, |_| true)?, Links::Server { state: &state });
        let made = Made { state, html, at: Instant::now(), took: begin.elapsed() };
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        Ok(())
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
    match renewed(server).await {
        Ok((_, html)) => ([(header::CACHE_CONTROL, "no-store")], Html(html)).into_response(),
        Err(error) => refused(&error),
    }
}

async fn state(State(server): State<Arc<Server>>) -> Response {
    match renewed(server).await {
        Ok((state, _)) => ([(header::CACHE_CONTROL, "no-store")], state).into_response(),
        Err(error) => refused(&error),
    }
}

/// Making a page reads files and draws, which must not hold up the answers to others.
async fn renewed(server: Arc<Server>) -> anyhow::Result<(String, String)> {
    tokio::task::spawn_blocking(move || server.renewed()).await.context("the page could not be made")?
}

fn refused(error: &anyhow::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response()
}
