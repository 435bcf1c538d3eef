//! A proxy in front of a server that answers every query.

use super::*;

/// A server that answers each query with `CommandComplete` and `ReadyForQuery`.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("a port").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut frames, mut buffer) = (Frames::of_client(), [0; 512]);
                while let Ok(got @ 1..) = stream.read(&mut buffer) {
                    frames.push(&buffer[..got]);
                    while let Some(frame) = frames.next() {
                        if frame[0] == b'Q' {
                            stream
                                .write_all(b"C\0\0\0\x05\0Z\0\0\0\x05I")
                                .expect("answer");
                        }
                    }
                }
            });
        }
    });
    port
}

fn query(port: u16) -> std::io::Result<Vec<u8>> {
    let mut client = TcpStream::connect(("127.0.0.1", port))?;
    client.set_read_timeout(Some(Duration::from_millis(400)))?;
    client.write_all(&[0, 0, 0, 8, 0, 3, 0, 0])?;
    client.write_all(b"Q\0\0\0\x05\0")?;
    let mut answer = [0; 12];
    client.read_exact(&mut answer)?;
    Ok(answer.to_vec())
}

#[test]
fn a_proxy_forwards_slices_drops_refuses_and_stays_silent() {
    let proxy = Proxy::open(server(), &[]);
    assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
    proxy.set_mode(Mode::Slice);
    assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
    proxy.set_mode(Mode::Delay(Duration::from_millis(1)));
    assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
    proxy.set_mode(Mode::Forward);
    proxy.lose_answers(1);
    let lost = query(proxy.port()).expect_err("lost");
    assert_eq!(lost.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
    proxy.set_mode(Mode::Silent);
    let silence = query(proxy.port()).expect_err("silence");
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    proxy.set_mode(Mode::Refuse);
    query(proxy.port()).expect_err("refused");
    proxy.set_mode(Mode::Forward);
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).expect("connect");
    while lock(&proxy.shared.connections).is_empty() {
        thread::yield_now();
    }
    proxy.cut();
    assert_eq!(client.read(&mut [0]).expect("the end"), 0);
    assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
}
