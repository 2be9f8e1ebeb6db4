//! `report serve` while clients behave badly.

use std::{io::Write as _, net::TcpStream, path::Path};

use front_door::Door;

use crate::served::Served;

#[test]
fn ctrl_c_ends_the_server_beside_a_half_sent_request() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261121-epyc");
    let served = Served::start(&door, &record);

    let mut half = TcpStream::connect(&served.address).expect("it listens");
    half.write_all(b"GET / HTTP/1.1\r\n").expect("it reads");
    let answer = served.get("/state");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    assert_eq!(served.end(), Some(0));
}
