//! `report serve` while clients behave badly.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Stdio,
};

use front_door::{Door, KilledAtTheEnd};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn ctrl_c_ends_the_server_beside_a_half_sent_request() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261121-epyc");
    let mut command = door.command("serve");
    let server = command.arg(record).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut server = KilledAtTheEnd(server);
    let mut line = String::new();
    let out = server.0.stdout.take().expect("it is a pipe");
    BufReader::new(out).read_line(&mut line).expect("it says its address");
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();

    let mut half = TcpStream::connect(&address).expect("it listens");
    half.write_all(b"GET / HTTP/1.1\r\n").expect("it reads");
    let mut whole = TcpStream::connect(&address).expect("it listens");
    write!(whole, "GET /state HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    whole.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    kill_process(Pid::from_child(&server.0), Signal::INT).expect("it is there");
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
}
