//! TLS with verification of the server, by rustls.

use std::collections::BTreeMap;

/// What to verify of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    /// Its certificate, issued by a trusted root.
    Certificate,
    /// Its certificate and its host name.
    CertificateAndName,
}

/// The TLS options of a database URL by their names, which [`ConnectOptions`](crate::ConnectOptions) describes.
pub(crate) type TlsOptions = BTreeMap<String, String>;

/// Returns what to do about a refused server, for a cause that does not say it.
pub(crate) fn advice(cause: &str) -> Option<&'static str> {
    const OTHER_HOST: &str = "the server's certificate is for another host; connect to a name in its \
                              `subjectAltName`, or set `sslmode=verify-ca`";
    const ADVICE: [(&str, &str); 8] = [
        (
            "CaUsedAsEndEntity",
            "the server presents the certificate of an authority, as `openssl req -x509` makes it; \
             sign another one for the server with it, with `basicConstraints=CA:FALSE` and the \
             host in `subjectAltName`",
        ),
        (
            "UnsupportedCertVersion",
            "a certificate has X.509 version 1, as `openssl x509 -req` makes it without extensions; \
             sign it again with `-extfile`, with the host in `subjectAltName`",
        ),
        (
            "UnknownIssuer",
            "no trusted authority has signed the server's certificate; name the file of its \
             authority with `sslrootcert`",
        ),
        ("NotValidForName", OTHER_HOST),
        ("not valid for name", OTHER_HOST),
        (
            "extended key usage",
            "the server's certificate is not for servers; sign it again with \
             `extendedKeyUsage=serverAuth`",
        ),
        (
            "UnsupportedSignatureAlgorithm",
            "a certificate has a signature or a key that is too weak or unusual; use RSA with at \
             least 2048 bits or ECDSA, and SHA-256",
        ),
        (
            "does not support TLS",
            "the server does not encrypt; set `ssl = on` in its configuration, or \
             `sslmode=disable` if you trust the network",
        ),
    ];
    ADVICE
        .iter()
        .find(|(said, _)| cause.contains(said))
        .map(|(_, advice)| *advice)
}

#[cfg(feature = "tls")]
pub(crate) use with_rustls::{TlsConnector, connector};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{TlsConnector, connector};

#[cfg(feature = "tls")]
mod with_rustls {
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
    use rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    };

    use super::{TlsOptions, Verification};
    use crate::error::{Error, Result};

    /// The driver's TLS connector.
    pub(crate) type TlsConnector = tokio_postgres_rustls::MakeRustlsConnect;

    /// A connector that verifies as required.
    pub(crate) fn connector(trust: Verification, options: &TlsOptions) -> Result<TlsConnector> {
        let unusable = |error| Error::invalid("TLS cannot be set up").caused_by(error);
        let provider = Arc::new(ring::default_provider());
        let option = |name: &str| options.get(name).map(String::as_str);
        let roots = Arc::new(trusted(option("sslrootcert").unwrap_or("system"))?);
        let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| {
                Error::invalid("the trusted certificates are not usable").caused_by(error)
            })?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match trust {
            Verification::CertificateAndName => builder.with_webpki_verifier(chain),
            Verification::Certificate => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName { chain })),
        };
        let config = match (option("sslcert"), option("sslkey")) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(
                    certificates(certificate)?,
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?,
                )
                .map_err(unusable)?,
            _ => return Err(Error::invalid("sslcert and sslkey must be set together")),
        };
        Ok(TlsConnector::new(config))
    }

    fn trusted(roots: &str) -> Result<RootCertStore> {
        let (found, whose) = match roots {
            "system" => {
                let found = rustls_native_certs::load_native_certs();
                (found.certs, "the operating system")
            }
            file => (certificates(file)?, file),
        };
        let mut store = RootCertStore::empty();
        let (good, _) = store.add_parsable_certificates(found);
        match good {
            0 => Err(Error::invalid(format!(
                "no trusted certificate found in {whose}; set sslrootcert to a PEM file"
            ))),
            _ => Ok(store),
        }
    }

    fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .map_err(|error| unreadable(file, error))
    }

    fn unreadable(file: &str, error: rustls::pki_types::pem::Error) -> Error {
        Error::invalid(format!("{file} cannot be read")).caused_by(error)
    }

    /// Verifies the certificate chain but not the host name.
    #[derive(Debug)]
    struct AnyName {
        chain: Arc<WebPkiServerVerifier>,
    }

    impl ServerCertVerifier for AnyName {
        fn verify_server_cert(
            &self,
            end_entity: &CertificateDer<'_>,
            intermediates: &[CertificateDer<'_>],
            server_name: &ServerName<'_>,
            ocsp_response: &[u8],
            now: UnixTime,
        ) -> std::result::Result<ServerCertVerified, rustls::Error> {
            let verified = self.chain.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
            match verified {
                // The name is checked last, so everything else is valid.
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => Ok(ServerCertVerified::assertion()),
                other => other,
            }
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
            self.chain.verify_tls12_signature(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
            self.chain.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.chain.supported_verify_schemes()
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use super::{TlsOptions, Verification};
    use crate::error::{Error, Result};

    pub(crate) type TlsConnector = postgres::NoTls;

    pub(crate) fn connector(_: Verification, _: &TlsOptions) -> Result<TlsConnector> {
        Err(Error::invalid(
            "this connection needs TLS, but the program was built without the feature `tls` of \
             redrive; enable it or set sslmode=disable",
        ))
    }
}
