//! The connections of a server. A client that sends half a request, or nothing, is cut off after a time, and no client keeps the
//! server from its end.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Bounds on the clients of a server.
pub(super) struct Bounds {
    /// The time in which a client must send the head of its next request. The connection is closed after it.
    pub(super) head: Duration,
    /// The time that open connections have to send their answers after the server has stopped accepting new ones.
    pub(super) end: Duration,
    /// The time in which a client must take what was sent to it. The connection is closed after it.
    pub(super) answer: Duration,
    /// The number of connections at once. Others wait until one is closed.
    pub(super) connections: usize,
}

/// How long the server waits after a failed attempt to accept a connection, as with too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers requests with `app` until `end`.
pub(super) async fn answer(
    listener: TcpListener,
    app: Router,
    bounds: Bounds,
    end: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(bounds.head);
    let permits = Arc::new(Semaphore::new(bounds.connections));
    let mut open = JoinSet::new();
    let accept = async {
        loop {
            let permit = Arc::clone(&permits).acquire_owned().await;
            let Ok((stream, _)) = listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            // The kernel watches over what a client does not take. Without the option, such a client stays for as long as it likes.
            let _ = set_tcp_user_timeout(&stream, bounds.answer.as_millis() as u32);
            let app = TowerToHyperService::new(app.clone());
            let connection = http.serve_connection(TokioIo::new(stream), app);
            open.spawn(async move {
                // An error is that of a client that went away or was too slow.
                let _ = connection.await;
                drop(permit);
            });
            while open.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        () = end => {}
        () = accept => {}
    }
    let _ = timeout(bounds.end, async { while open.join_next().await.is_some() {} }).await;
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        io::{Read as _, Write as _},
        net::{Ipv4Addr, TcpStream},
        thread,
    };

    use axum::routing::get;
    use tokio::sync::oneshot;

    use super::*;

    /// A client that talks to a server with these bounds, which ends with the client.
    fn with_server(bounds: Bounds, client: impl FnOnce(u16) + Send) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (ended, end) = oneshot::channel::<()>();
        let app = Router::new()
            .route("/", get(async || "hello"))
            .route("/large", get(async || vec![b'.'; 64 << 20]));
        thread::scope(|scope| {
            scope.spawn(move || {
                client(port);
                drop(ended);
            });
            runtime.block_on(answer(listener, app, bounds, async { drop(end.await) }));
        });
    }

    fn connect(port: u16, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn rest_of(mut stream: TcpStream) -> String {
        let mut text = Vec::new();
        // A connection that is reset ends, too.
        let _ = stream.read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    }

    /// A bound that no test reaches.
    const LONG: Duration = Duration::from_secs(3_600);
    const WHOLE: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const HALF: &str = "GET / HTTP/1.1\r\nHost: loc";

    #[test]
    fn a_half_sent_request_is_cut_off_and_makes_room_for_a_whole_one() {
        let head = Duration::from_millis(50);
        with_server(Bounds { head, end: Duration::ZERO, answer: LONG, connections: 1 }, |port| {
            let slow = [(); 3].map(|()| connect(port, HALF));
            let answer = rest_of(connect(port, WHOLE));
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
            for stream in slow {
                assert!(!rest_of(stream).contains("hello"));
            }
        });
    }

    #[test]
    fn a_client_that_never_reads_its_answer_makes_room_for_another() {
        let bounds =
            Bounds { head: LONG, end: Duration::ZERO, answer: Duration::from_millis(50), connections: 1 };
        with_server(bounds, |port| {
            // More than the kernel keeps for a client.
            let deaf = connect(port, &WHOLE.replace("/ ", "/large "));
            let answer = rest_of(connect(port, WHOLE));
            assert!(answer.ends_with("hello"), "{answer}");
            drop(deaf);
        });
    }

    #[test]
    fn the_server_ends_beside_a_client_that_keeps_its_connection() {
        let (connected, client) = std::sync::mpsc::channel();
        with_server(Bounds { head: LONG, end: Duration::ZERO, answer: LONG, connections: 8 }, |port| {
            let idle = connect(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let half = connect(port, HALF);
            connected.send([idle, half]).unwrap();
        });
        // The server has ended, while both connections were open.
        drop(client.recv().unwrap());
    }

    #[test]
    fn an_answer_that_is_under_way_is_sent_before_the_end() {
        let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
        let app = Router::new().route(
            "/",
            get(async move || {
                begun.send(()).await.unwrap();
                tokio::task::yield_now().await;
                "late"
            }),
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = thread::spawn(move || rest_of(connect(port, WHOLE)));
        let bounds = Bounds { head: LONG, end: LONG, answer: LONG, connections: 1 };
        runtime.block_on(answer(listener, app, bounds, async move {
            if has_begun.recv().await.is_none() {
                pending::<()>().await;
            }
        }));
        assert!(client.join().unwrap().ends_with("late"));
    }
}
