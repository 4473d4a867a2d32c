//! Serves the shop's orders and stock over HTTP, and accepts reports. Only for the example
//! `shop-report.json`: one connection at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:8737");
    let listener = TcpListener::bind(address)?;
    println!("the shop is open at http://{}", listener.local_addr()?);
    for stream in listener.incoming() {
        // The shop stays open when a customer disconnects.
        let _ = stream.and_then(serve);
    }
    Ok(())
}

fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; usize::min(length, 1 << 20)];
    stream.read_exact(&mut body)?;
    let mut words = request.split(' ');
    let (status, answer) = match (words.next(), words.next()) {
        (Some("GET"), Some("/orders")) => ("200 OK", shop::orders_json(&shop::ORDERS)),
        (Some("GET"), Some("/stock")) => ("200 OK", shop::stock_json().to_owned()),
        (Some("POST"), Some("/reports")) => {
            println!("a report came in: {}", String::from_utf8_lossy(&body));
            ("201 Created", r#"{"accepted":true}"#.to_owned())
        }
        _ => (
            "404 Not Found",
            r#"{"error":"there is nothing here"}"#.to_owned(),
        ),
    };
    let length = answer.len();
    write!(
        stream.get_mut(),
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{answer}"
    )
}
