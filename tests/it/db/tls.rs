//! Encryption: which servers are accepted, with real certificates.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use redrive::Error;
use redrive_tests::prelude::*;

/// Makes a certificate authority.
pub(super) fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("a certificate")
}

/// A certificate and its key, as PEM.
pub(super) struct Certificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Returns the contents of the certificate of a server.
pub(super) fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

pub(super) fn signed(params: &CertificateParams, by: &CertifiedIssuer<'_, KeyPair>) -> Certificate {
    issued(|key| params.signed_by(key, by))
}

fn issued(issue: impl FnOnce(&KeyPair) -> Result<rcgen::Certificate, rcgen::Error>) -> Certificate {
    let key = KeyPair::generate().expect("a key");
    let certificate = issue(&key).expect("a certificate").pem();
    let key = key.serialize_pem();
    Certificate { certificate, key }
}

fn connect(cluster: &Cluster, words: &str) -> Result<bool, Error> {
    let port = cluster.port();
    let address = format!("host=localhost port={port} user=postgres dbname=postgres {words}");
    let mut client = address.parse::<ConnectOptions>()?.connect()?;
    let asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let is_encrypted: bool = client.ask(asked, &[]);
    if !is_encrypted {
        let token = client.cancel_token();
        token.cancel_query(NoTls).expect("a token of the driver");
    }
    Ok(is_encrypted)
}

#[test]
fn only_servers_with_a_trusted_certificate_are_accepted() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let cluster = Cluster::new();
    let roots = cluster.keep("roots.pem", &ours.pem());
    let good = params(&["localhost"]);
    let mut expired = params(&["localhost"]);
    expired.not_before = date_time_ymd(2020, 1, 1);
    expired.not_after = date_time_ymd(2021, 1, 1);
    // The modes that accept each certificate.
    let other = params(&["db.example.com"]);
    let itself = issued(|key| good.self_signed(key));
    for (what, certificate, is_full, is_chain) in [
        ("a good one", signed(&good, &ours), true, true),
        ("another name", signed(&other, &ours), false, true),
        ("expired", signed(&expired, &ours), false, false),
        ("for another host", signed(&good, &theirs), false, false),
        ("self-signed", itself, false, false),
    ] {
        cluster.certify(&certificate.certificate, &certificate.key);
        cluster.start();
        let roots = format!("sslrootcert={}", roots.display());
        for (mode, is_good) in [
            ("verify-full", is_full),
            ("require", is_full),
            ("verify-ca", is_chain),
        ] {
            let answer = connect(&cluster, &format!("sslmode={mode} {roots}"));
            match (is_good, answer) {
                (true, answer) => assert!(answer.expect(what), "{what}, {mode}: in plain"),
                (false, Ok(_)) => panic!("{what}: trusted with {mode}"),
                (false, Err(error)) => {
                    assert!(!error.is_unavailable(), "{what}: {error:?}");
                    has(format!("{what}, {mode}: {error:?}"), "ertificate");
                }
            }
            // The system does not trust the authority of the test.
            connect(&cluster, &format!("sslmode={mode}")).expect_err("of the system's roots");
        }
        // Plain connections are made to a server on this machine, or if the mode allows them.
        for words in ["", "sslmode=disable", "sslmode=prefer"] {
            assert!(!connect(&cluster, words).expect("in plain"), "{words}");
        }
        cluster.stop();
    }
}

/// The certificate that the documentation of PostgreSQL makes first is its own authority.
#[test]
fn a_refused_certificate_says_what_to_do() {
    let authority = authority("localhost");
    let cluster = Cluster::new();
    let roots = cluster.keep("roots.pem", &authority.pem());
    cluster.certify(&authority.pem(), &authority.key().serialize_pem());
    cluster.start();
    let words = format!("sslmode=verify-full sslrootcert={}", roots.display());
    let error = connect(&cluster, &words).expect_err("an authority");
    has(error, "sign another one for the server");
}

/// The ways to connect: the driver asks for encryption, or the library.
const WAYS: [fn(&str) -> Error; 2] = [
    |address| {
        let address: ConnectOptions = address.parse().expect("an address");
        address.connect().err().expect("no server")
    },
    |address| redrive::connect(address).expect_err("no server"),
];

/// Runs a server that refuses TLS, and returns the bytes that it received.
fn overheard(opened: fn(&str) -> Error, words: &str) -> (Vec<u8>, Error) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let heard = thread::spawn(move || {
        let (mut visitor, _) = listener.accept().expect("a visitor");
        let mut heard = vec![0; 8];
        visitor.read_exact(&mut heard).expect("a request for TLS");
        visitor.write_all(b"N").expect("an answer");
        // A client that stays connected waits for a reply to something it sent.
        let patience = Some(Duration::from_secs(10));
        visitor.set_read_timeout(patience).expect("a time-out");
        let mut more = [0; 512];
        if let Ok(bytes) = visitor.read(&mut more) {
            heard.extend(&more[..bytes]);
        }
        heard
    });
    // An address of this machine that does not look local.
    let address = format!("host=0.0.0.0 port={port} user=canary password=canary {words}");
    let error = opened(&address);
    (heard.join().expect("what was heard"), error)
}

#[test]
fn no_password_is_sent_in_plain_text_to_a_remote_server() {
    let cluster = Cluster::new();
    cluster.start();
    let elsewhere = |words: &str| {
        let port = cluster.port();
        format!("host=0.0.0.0 port={port} user=postgres dbname=postgres {words}")
    };
    for words in "|sslmode=verify-full|sslmode=verify-ca|sslmode=require".split('|') {
        for opened in WAYS {
            let (heard, error) = overheard(opened, words);
            assert_eq!(heard.len(), 8, "`{words}`: more than the request for TLS");
            assert!(!error.is_unavailable(), "a retry does not help: {error:?}");
        }
        let error = redrive::connect(&elsewhere(words)).expect_err(words);
        has(format!("{error:?}"), "TLS");
    }
    for words in ["sslmode=prefer", "sslmode=allow"] {
        let error = elsewhere(words).parse::<ConnectOptions>().expect_err(words);
        assert!(error.is_invalid(), "{error:?}");
    }
    // Unless the mode allows it.
    redrive::connect(&elsewhere("sslmode=disable")).expect("in plain");
}

#[test]
fn a_client_certificate_is_presented_if_the_server_asks() {
    let ours = authority("ours");
    let cluster = Cluster::new();
    let roots = cluster.keep("roots.pem", &ours.pem());
    let mut me = CertificateParams::default();
    me.distinguished_name.push(DnType::CommonName, "postgres");
    me.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let me = signed(&me, &ours);
    let certificate = cluster.keep("me.pem", &me.certificate);
    let key = cluster.keep("me.key", &me.key);
    let server = signed(&params(&["localhost"]), &ours);
    cluster.certify(&server.certificate, &server.key);
    cluster.demand_certificates(&ours.pem());
    cluster.start();
    let words = format!("sslmode=verify-full sslrootcert={}", roots.display());
    let error = connect(&cluster, &words).expect_err("no client certificate");
    assert!(!error.is_unavailable(), "{error:?}");
    let (certificate, key) = (certificate.display(), key.display());
    let identity = format!("{words} sslcert={certificate} sslkey={key}");
    assert!(connect(&cluster, &identity).expect("we said who we are"));

    // The pool of the library connects in the same way.
    let port = cluster.port();
    let url = format!("host=localhost port={port} user=postgres {identity}");
    let db = redrive::connect(&url).expect("a pool");
    db.migrate().expect("a schema");
    assert!(db.admin().stats(None).expect("an answer").is_empty());
}

#[test]
fn a_connection_that_breaks_while_its_encryption_begins_is_unavailable() {
    let roots = TempFile::of(authority("ours").pem());
    let answers = [&b""[..], b"S"].into_iter();
    for (answer, opened) in answers.flat_map(|answer| WAYS.map(|way| (answer, way))) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let broken = thread::spawn(move || {
            let (mut visitor, _) = listener.accept().expect("a visitor");
            visitor.read_exact(&mut [0; 8]).expect("a request for TLS");
            visitor.write_all(answer).expect("an answer");
        });
        let words = format!("port={port} user=me sslmode=verify-full sslrootcert={roots}");
        let error = opened(&format!("host=127.0.0.1 {words}"));
        assert!(error.is_unavailable(), "{error:?}");
        broken.join().expect("a visitor");
    }
}
