//! A client of a server on this machine.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
};

use crate::LONG;

/// The answer to a request of HTTP, with its head.
///
/// # Errors
/// The server does not listen, or does not answer in UTF-8 within [`LONG`].
pub fn get(address: &str, target: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
