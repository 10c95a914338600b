//! `talweg certificates`: an authority for one's jobs, and a certificate of it for their processes.

use crate::{Error, Result};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where, and for how long.
#[derive(clap::Args)]
pub struct Options {
    /// The folder to make: ca.crt, tls.crt and tls.key, to be copied to every machine.
    folder: PathBuf,
    /// Days until the certificate expires.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

/// Makes the files. The authority's key is not kept: for other certificates make another authority.
pub fn run(o: &Options) -> Result<()> {
    let files = make(o.days).map_err(|e| Error::value(format!("making certificates: {e}")))?;
    std::fs::create_dir_all(&o.folder).map_err(|e| Error::value(format!("{}: {e}", o.folder.display())))?;
    for (name, text) in &files {
        write(&o.folder.join(name), text)?;
    }
    println!("{}: ca.crt, tls.crt and tls.key, good for {} days", o.folder.display(), o.days);
    println!("talweg launch --tls {} … uses them; any process with tls.key can join", o.folder.display());
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn make(_: u32) -> std::result::Result<[(&'static str, String); 3], &'static str> {
    Err("this program was built without TLS: build it with `--features tls`")
}

#[cfg(feature = "tls")]
fn make(days: u32) -> std::result::Result<[(&'static str, String); 3], rcgen::Error> {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    };
    use time::{Duration, OffsetDateTime};
    let params = |names: &[String], what: &str| {
        let mut p = CertificateParams::new(names)?;
        let now = OffsetDateTime::now_utc();
        // Clocks of machines differ a little.
        (p.not_before, p.not_after) = (now - Duration::hours(1), now + Duration::days(days.into()));
        p.distinguished_name.push(DnType::CommonName, what);
        Ok::<_, rcgen::Error>(p)
    };
    let mut authority = params(&[], "talweg authority")?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let root = authority.self_signed(&authority_key)?;
    let mut process = params(&[dist::TLS_NAME.to_string()], "talweg process")?;
    process.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    process.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    process.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = process.signed_by(&key, &Issuer::from_params(&authority, &authority_key))?;
    Ok([("ca.crt", root.pem()), ("tls.crt", certificate.pem()), ("tls.key", key.serialize_pem())])
}

/// A new file that only its owner reads; one that is there is not touched, as a job may use it.
fn write(path: &Path, text: &str) -> Result<()> {
    let failed = |e: std::io::Error| Error::value(format!("{}: {e}", path.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}
