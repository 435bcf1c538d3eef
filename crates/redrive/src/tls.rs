//! TLS: encryption that makes sure who answers, by rustls.

use std::path::PathBuf;

/// Whom to trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Whoever has a certificate that the roots vouch for.
    Certificate,
    /// The same, when the certificate is for the name of the host.
    CertificateAndName,
}

/// Who vouches for certificates.
#[derive(Clone, Debug)]
pub(crate) enum Roots {
    /// The operating system's.
    System,
    /// Those in a PEM file.
    File(PathBuf),
}

/// Who we are.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// A PEM file with a certificate, and those that vouch for it.
    pub(crate) certificate: PathBuf,
    /// A PEM file with its key.
    pub(crate) key: PathBuf,
}

#[cfg(feature = "tls")]
pub(crate) use with_rustls::{Connector, connector, none};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{Connector, connector, none};

#[cfg(feature = "tls")]
mod with_rustls {
    use std::path::Path;
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
    use rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    };

    use super::{Identity, Roots, Trust};
    use crate::error::{Error, Result};

    /// What makes the driver talk TLS.
    pub(crate) type Connector = tokio_postgres_rustls::MakeRustlsConnect;

    /// One that is never asked, for connections without TLS. It would trust nobody.
    pub(crate) fn none() -> Connector {
        let nobody = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map(|builder| builder.with_root_certificates(RootCertStore::empty()));
        match nobody {
            Ok(builder) => Connector::new(builder.with_no_client_auth()),
            Err(error) => unreachable!("the provider knows TLS 1.3: {error}"),
        }
    }

    /// One that trusts whom it is told to.
    pub(crate) fn connector(
        trust: Trust,
        roots: &Roots,
        identity: Option<&Identity>,
    ) -> Result<Connector> {
        let unusable = |error| Error::invalid("TLS cannot be set up").caused_by(error);
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(trusted(roots)?);
        let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| {
                Error::invalid("the trusted certificates are not usable").caused_by(error)
            })?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match trust {
            Trust::CertificateAndName => builder.with_webpki_verifier(chain),
            Trust::Certificate => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName { chain })),
        };
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(
                    certificates(&identity.certificate)?,
                    PrivateKeyDer::from_pem_file(&identity.key)
                        .map_err(|error| unreadable(&identity.key, error))?,
                )
                .map_err(unusable)?,
        };
        Ok(Connector::new(config))
    }

    fn trusted(roots: &Roots) -> Result<RootCertStore> {
        let (found, whose) = match roots {
            Roots::File(file) => (certificates(file)?, file.display().to_string()),
            Roots::System => {
                let found = rustls_native_certs::load_native_certs();
                (found.certs, "the operating system".to_owned())
            }
        };
        let mut store = RootCertStore::empty();
        let (good, _) = store.add_parsable_certificates(found);
        match good {
            0 => Err(Error::invalid(format!(
                "there is no certificate to trust in {whose}: name a file with sslrootcert"
            ))),
            _ => Ok(store),
        }
    }

    fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .map_err(|error| unreadable(file, error))
    }

    fn unreadable(file: &Path, error: rustls::pki_types::pem::Error) -> Error {
        Error::invalid(format!("{} cannot be read", file.display())).caused_by(error)
    }

    /// Makes sure of a certificate, but not of the name in it.
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
                // The name is looked at last, when all else is good.
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
    use super::{Identity, Roots, Trust};
    use crate::error::{Error, Result};

    pub(crate) type Connector = postgres::NoTls;

    pub(crate) fn none() -> Connector {
        postgres::NoTls
    }

    pub(crate) fn connector(_: Trust, _: &Roots, _: Option<&Identity>) -> Result<Connector> {
        Err(Error::invalid(
            "the database is to be talked to with TLS, and this program was built without it (the \
             feature `tls` of redrive); sslmode=disable does without",
        ))
    }
}
