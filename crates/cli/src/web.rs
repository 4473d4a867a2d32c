//! Host names and origins of web pages, as typed.

/// An origin in the form of browsers: scheme, host, and a port that is not the scheme's default.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let url = url::Url::parse(text).map_err(|error| error.to_string())?;
    let origin = url.origin().ascii_serialization();
    if origin == text {
        Ok(origin)
    } else {
        Err("write only scheme and host, as https://app.example.org".to_owned())
    }
}

/// A host name without a port, in the form of the `Host` header.
pub(crate) fn host(text: &str) -> Result<String, String> {
    let wrong = || "write only a host name, as runs.example.org".to_owned();
    match url::Host::parse(text) {
        Ok(url::Host::Domain(name)) if !name.contains('*') => Ok(name),
        Ok(url::Host::Ipv4(address)) => Ok(address.to_string()),
        Ok(url::Host::Ipv6(address)) => Ok(address.to_string()),
        _ => Err(wrong()),
    }
}
