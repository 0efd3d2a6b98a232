//! Where a server is: its name, and the address behind it, which may change while we run.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::path::accept::ListenAddress as Address;

/// memcached's own port.
const PORT: u16 = 11211;

/// One server.
pub struct Backend {
    /// `host:port` or `unix:PATH`; keys are placed by it.
    pub name: String,
    address: Mutex<Address>,
}

impl Backend {
    /// Reads `HOST`, `HOST:PORT` or `unix:PATH`.
    ///
    /// # Errors
    /// A sentence that names the server and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = full_name(text);
        let address = resolve(&name)?;
        Ok(Self { name, address: Mutex::new(address) })
    }

    /// Whether this text, in the form that `parse` reads, means this server.
    #[must_use]
    pub fn is_named(&self, text: &str) -> bool {
        self.name == full_name(text)
    }

    /// Its address as it was last found.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for its address again; if nobody knows, it stays what it was.
    pub fn resolve_again(&self) {
        if let Ok(address) = resolve(&self.name) {
            *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
        }
    }
}

/// With memcached's own port if there is none.
fn full_name(text: &str) -> String {
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if has_port { text.to_owned() } else { format!("{text}:{PORT}") }
}

fn resolve(name: &str) -> Result<Address, String> {
    if let Some(path) = name.strip_prefix("unix:") {
        return match path {
            "" => Err("server unix: needs a path, for example unix:/run/memcached.sock".into()),
            path => Ok(Address::Unix(PathBuf::from(path))),
        };
    }
    let wrong = |why: &dyn std::fmt::Display| format!("server {name}: {why}; write HOST:PORT or unix:PATH");
    let mut found = name.to_socket_addrs().map_err(|error| wrong(&error))?;
    found.next().map(Address::Tcp).ok_or_else(|| wrong(&"it has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_port_listens_on_memcacheds() {
        assert_eq!(Backend::parse("127.0.0.1").unwrap().name, "127.0.0.1:11211");
        assert_eq!(Backend::parse("[::1]").unwrap().name, "[::1]:11211");
        assert_eq!(Backend::parse("127.0.0.1:7").unwrap().name, "127.0.0.1:7");
        assert_eq!(Backend::parse("unix:/x").unwrap().address(), Address::Unix("/x".into()));
    }

    #[test]
    fn what_is_no_address_is_named_with_what_to_write() {
        for wrong in ["unix:", "127.0.0.1:port"] {
            let error = Backend::parse(wrong).err().expect(wrong);
            assert!(error.contains(wrong) && error.contains("unix:"), "{error}");
        }
    }
}
