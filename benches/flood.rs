//! Scrapes of the exporter during a flood of connections from another address.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redrive_benches::{Bench, Measurement, Outcome, Scenario, Target, Waits};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "flood",
    what: "Scrapes of the exporter from one address while another one holds 600 idle sockets and opens 1,600 \
           connections a second, compared with scrapes without them.",
    run,
};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const IDLE: usize = 600;
/// Twenty connections each, which are 1,600 a second.
const BURST: usize = 20;
const EVERY: Duration = Duration::from_micros(12_500);
/// The pause between two scrapes.
const PAUSE: Duration = Duration::from_millis(10);

fn run(bench: &mut Bench) -> Outcome {
    let address = start(bench.url())?;
    let scrapes = bench.sized(500, 20);
    let quiet = scrape_all(address, scrapes)?;
    let (is_over, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
    let flooded = thread::scope(|scope| -> Outcome<Vec<f64>> {
        let idle: Vec<TcpStream> = (0..IDLE)
            .map(|_| connect_from(ATTACKER, address))
            .collect::<io::Result<_>>()?;
        scope.spawn(|| flood(address, &is_over, &connections));
        let times = scrape_all(address, scrapes);
        is_over.store(true, Ordering::Relaxed);
        drop(idle);
        times
    })?;
    let opened = connections.load(Ordering::Relaxed);
    let (quiet, flooded) = (Waits::from(quiet), Waits::from(flooded));
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let (quiet, flooded) = (quiet.at(part), flooded.at(part));
        let row = Measurement::compared(format!("a scrape, {name}"), "ms", &quiet, &flooded);
        let row = row.note(format!("{opened} connections were opened meanwhile"));
        bench.report(match name {
            "p99" => row.target(Target::AtMost(500.0)),
            _ => row,
        })?;
    }
    Ok(())
}

/// Starts the exporter on a thread, which runs until the process ends.
fn start(url: &str) -> Outcome<SocketAddrV4> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let listen = address.to_string();
    let args = [
        "redrive-exporter",
        "--database-url",
        url,
        "--web.listen-address",
        &listen,
    ];
    let args: Vec<OsString> = args.map(OsString::from).into();
    thread::spawn(move || redrive_exporter::run(args, &mut io::stdout(), &mut io::stderr()));
    let begin = Instant::now();
    while scrape(address).is_err() {
        if begin.elapsed() > Duration::from_secs(30) {
            return Err("the exporter does not start".into());
        }
        thread::sleep(PAUSE);
    }
    Ok(address)
}

fn flood(address: SocketAddrV4, is_over: &AtomicBool, connections: &AtomicUsize) {
    let begin = Instant::now();
    for burst in 1u32.. {
        for _ in 0..BURST {
            // A refused connection costs the exporter nothing and is not counted.
            let opened = connect_from(ATTACKER, address).is_ok();
            connections.fetch_add(usize::from(opened), Ordering::Relaxed);
        }
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep((EVERY * burst).saturating_sub(begin.elapsed()));
    }
}

fn connect_from(client: Ipv4Addr, to: SocketAddrV4) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(client, 0))?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// Scrapes one after another and returns the times in milliseconds.
fn scrape_all(address: SocketAddrV4, scrapes: usize) -> Outcome<Vec<f64>> {
    let mut times = Vec::with_capacity(scrapes);
    for _ in 0..scrapes {
        let begin = Instant::now();
        scrape(address)?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        thread::sleep(PAUSE);
    }
    Ok(times)
}

fn scrape(address: SocketAddrV4) -> Outcome {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: exporter\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    match page.contains("\nredrive_up 1\n") {
        true => Ok(()),
        false => Err("the exporter cannot read the database".into()),
    }
}
