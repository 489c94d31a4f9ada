//! The certificates for TLS, from the files that the arguments name: trusted authorities, and our own certificate.

use super::place::Address;
use crate::arguments::Server;
use crate::failure::Failure;
use rlock_client::{Certificates, Identity};
use std::path::{Path, PathBuf};

/// None, if the arguments name no file.
pub fn find(server: &Server, address: &Address) -> Result<Option<Certificates>, Failure> {
    let mut certificates = Certificates::default();
    certificates.identity = match (&server.cert, &server.private_key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some(Identity { certificate: read("--cert", cert)?, key: read("--key", key)? }),
        _ => return Err(Failure::usage("--cert and --key belong together: a certificate, and its private key")),
    };
    certificates.authorities = server.cacert.as_ref().map(|path| read("--cacert", path)).transpose()?;
    if certificates.identity.is_none() && certificates.authorities.is_none() {
        return Ok(None);
    }
    if !address.has_tls() {
        return Err(Failure::usage("--cacert, --cert and --key are for TLS, and the address is not: write rediss://"));
    }
    Ok(Some(certificates))
}

fn read(option: &str, path: &PathBuf) -> Result<Vec<u8>, Failure> {
    let unusable = |why: &str| Failure::usage(format!("{option} {}: {why}", Path::new(path).display()));
    let pem = std::fs::read(path).map_err(|error| unusable(&error.to_string()))?;
    match pem.windows(PEM.len()).any(|part| part == PEM) {
        true => Ok(pem),
        false => Err(unusable("it is not in PEM, which has a line -----BEGIN …")),
    }
}

const PEM: &[u8] = b"-----BEGIN ";
