//! The command line's HTTP client for a tier: text or JSON, with the accounts of the tier, encrypted or not.

mod encrypted;

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use posthaste_load::tls::advice;
use serde_json::Value as Json;
use ureq::RequestBuilder;
use ureq::http::Uri;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector as _, TcpConnector};

use self::encrypted::Encrypting;
use crate::config::Misuse;
use crate::flags::WebReach;
use crate::secret_file::{WHO, secret_in};

/// Time limit for an answer; a database may be slow just when somebody wants to know why.
const WITHIN: Duration = Duration::from_secs(10);
/// HTTP status of a request that makes no sense to the tier: wrong usage.
const BAD_REQUEST: u16 = 400;
/// HTTP status of a request whose account is unknown or whose secret is wrong.
const UNAUTHORIZED: u16 = 401;
/// Advice if no tier answers.
const LOOK: &str = "is a tier running there, with that --http?";
/// Most bytes of an answer; the figures of no tier have as many.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// An HTTP client for one tier.
pub(crate) struct Web {
    agent: ureq::Agent,
    address: String,
    /// Beginning of every URL: scheme, host and port.
    base: String,
    authorization: Option<String>,
}

/// An answer.
pub(crate) struct Page {
    /// The status, such as 200.
    pub(crate) status: u16,
    /// The body.
    pub(crate) text: String,
}

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refused {}

/// Returns the header for a login; in base64, name and secret may have any characters.
fn basic(user: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{secret}")))
}

impl Web {
    /// Makes a client, without connecting yet.
    pub(crate) fn new(reach: &WebReach) -> Result<Self, Box<dyn Error>> {
        let authorization = match (&reach.user, &reach.secret_file) {
            (Some(user), Some(path)) => Some(basic(user, &secret_in(path)?)),
            (Some(user), None) => Some(basic(user, "")),
            _ => None,
        };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(WITHIN))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        let (address, is_https) = parse_address(&reach.http, reach.tls.tls).map_err(Misuse)?;
        let mut tls = reach.tls.clone();
        tls.tls = is_https;
        let (agent, scheme) = match tls.connector()? {
            None => (config.into(), "http"),
            Some(tls) => {
                let connector = ().chain(TcpConnector::default()).chain(Encrypting(tls));
                (ureq::Agent::with_parts(config, connector, DefaultResolver::default()), "https")
            }
        };
        Ok(Self { agent, base: format!("{scheme}://{address}"), address, authorization })
    }

    /// Describes why there is no answer, with advice.
    fn unreachable(&self, error: &ureq::Error) -> String {
        let (base, look) = (&self.base, LOOK);
        match error {
            ureq::Error::Timeout(_) => {
                format!("{base} does not answer within {} s; {look}", WITHIN.as_secs())
            }
            ureq::Error::Io(error) if error.kind() != ErrorKind::UnexpectedEof => {
                format!("cannot reach {base}: {error}; {}", advice(error).unwrap_or(look))
            }
            ureq::Error::Io(_) | ureq::Error::Protocol(_) => format!("{base} does not speak HTTP; {look}"),
            error => format!("cannot reach {base}: {error}; {look}"),
        }
    }

    /// Returns the tier's address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Gets JSON, or posts `body`; an answer that is no success is an error.
    pub(crate) fn exchange(&self, path: &str, body: Option<&Json>) -> Result<Json, Box<dyn Error>> {
        let url = format!("{}{path}", self.base);
        self.expect_success(match body {
            None => self.authorized(self.agent.get(url)).call(),
            Some(body) => {
                let request = self.authorized(self.agent.post(url));
                request.header("Content-Type", "application/json").send(body.to_string())
            }
        })
    }

    /// `DELETE path`; an answer that is no success is an error.
    pub(crate) fn delete(&self, path: &str) -> Result<Json, Box<dyn Error>> {
        self.expect_success(self.authorized(self.agent.delete(format!("{}{path}", self.base))).call())
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(authorization) => request.header("Authorization", authorization),
            None => request,
        }
    }

    fn expect_success(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Json, Box<dyn Error>> {
        let mut answer = answer.map_err(|error| self.unreachable(&error))?;
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string()?;
        if answer.status().is_success() {
            return serde_json::from_str(&text).map_err(|_| self.no_tier().into());
        }
        let json: Json = serde_json::from_str(&text).unwrap_or_default();
        let message = json["message"].as_str().unwrap_or_else(|| text.lines().next().unwrap_or_default());
        let status = answer.status().as_u16();
        let message = format!("{} answered {status}: {}", self.address, with_help(status, message));
        Err(if status == BAD_REQUEST { Misuse(message).into() } else { Refused(message).into() })
    }

    /// `GET path`, whatever the status.
    pub(crate) fn get(&self, path: &str) -> Result<Page, Box<dyn Error>> {
        let request = self.authorized(self.agent.get(format!("{}{path}", self.base)));
        let mut answer = request.call().map_err(|error| self.unreachable(&error))?;
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string()?;
        Ok(Page { status: answer.status().as_u16(), text })
    }

    /// `GET path` as JSON; None: there is no such path.
    pub(crate) fn json(&self, path: &str) -> Result<Option<Json>, Box<dyn Error>> {
        let page = self.get(path)?;
        match page.status {
            200 => serde_json::from_str(&page.text).map(Some).map_err(|_| self.no_tier().into()),
            404 => Ok(None),
            _ => Err(refusal(&page).into()),
        }
    }

    /// The figures of `/metrics`.
    pub(crate) fn figures(&self) -> Result<Figures, Box<dyn Error>> {
        let page = self.get("/metrics")?;
        if page.status != 200 {
            return Err(refusal(&page).into());
        }
        // Other programs have that path too but none of a tier's figures, so the doctor would find nothing
        // wrong with them.
        let figures = Figures::read(&page.text);
        let is_of_tier = figures.by_label("posthaste_build_info").next().is_some();
        if is_of_tier { Ok(figures) } else { Err(self.no_tier().into()) }
    }

    /// Returns the error for a program that does not answer like a tier.
    fn no_tier(&self) -> String {
        format!("{} does not answer as a tier does; {LOOK}", self.base)
    }
}

/// Reads the value of `--http`, which may be written as a browser shows it. Returns the address, and whether
/// TLS is spoken there.
fn parse_address(http: &str, tls: bool) -> Result<(String, bool), String> {
    let (is_https, address) = match http.split_once("://") {
        None => (tls, http),
        Some(("https", address)) => (true, address),
        Some(("http", address)) if !tls => (false, address),
        Some(("http", _)) => return Err(format!("--http {http}: with --tls it is https://")),
        Some(_) => return Err(malformed(http)),
    };
    let address = address.trim_end_matches('/');
    let url: Uri = format!("http://{address}").parse().map_err(|_| malformed(http))?;
    let host = url.authority().map(|authority| (authority.host(), authority.as_str()));
    let is_address = host.is_some_and(|(host, whole)| {
        // With a scheme, the port may be left out.
        let has_default_port = whole == host && http.contains("://");
        !host.is_empty() && (has_default_port || url.port_u16().is_some())
    });
    if is_address { Ok((address.to_owned(), is_https)) } else { Err(malformed(http)) }
}

fn malformed(http: &str) -> String {
    format!("--http {http}: write HOST:PORT, http://HOST:PORT or https://HOST:PORT")
}

/// Returns the text of a refusal, in one line.
fn refusal(page: &Page) -> String {
    let message: Option<Json> = serde_json::from_str(&page.text).ok();
    let message = message.and_then(|message| message["message"].as_str().map(str::to_owned));
    let bare = || format!("status {}: {}", page.status, page.text.trim().replace('\n', " "));
    with_help(page.status, &message.unwrap_or_else(bare))
}

/// Adds the options for an account to a tier's answer that requires one; the tier itself speaks of headers.
fn with_help(status: u16, message: &str) -> String {
    if status == UNAUTHORIZED { format!("{message}; {WHO}") } else { message.to_owned() }
}

/// Metrics as they were read.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<(String, f64)>);

impl Figures {
    /// Reads the text format of Prometheus.
    pub(crate) fn read(text: &str) -> Self {
        let figure = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(figure).collect())
    }

    /// Returns the value of a metric without labels.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Returns the values of a metric with one label, by the label's value.
    pub(crate) fn by_label<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
        let begin = format!("{name}{{");
        self.0.iter().filter_map(move |(known, value)| {
            let (_, label) = known.strip_prefix(&begin)?.split_once("=\"")?;
            Some((label.strip_suffix("\"}")?, *value))
        })
    }

    /// Returns the sum of a metric over its series: those with this value of this label, or all.
    pub(crate) fn sum(&self, name: &str, label: Option<(&str, &str)>) -> f64 {
        let begin = format!("{name}{{");
        let wanted = label.map(|(label, value)| format!("{label}=\"{value}\""));
        let is_chosen = |labels: &str| match &wanted {
            Some(wanted) => labels.trim_end_matches('}').split(',').any(|label| label == wanted),
            None => true,
        };
        let chosen = self.0.iter().filter(|(known, _)| known.strip_prefix(&begin).is_some_and(is_chosen));
        chosen.map(|(_, value)| value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, basic, parse_address};

    #[test]
    fn names_and_secrets_may_have_any_letters() {
        assert_eq!(basic("zoë", "pässword"), "Basic em/Dqzpww6Rzc3dvcmQ=");
    }

    #[test]
    fn an_address_may_be_written_as_a_url() {
        for (http, tls, is_https) in [
            ("a:1", false, false),
            ("a:1", true, true),
            ("http://a:1", false, false),
            ("https://a:1/", false, true),
            ("https://a:1", true, true),
        ] {
            assert_eq!(parse_address(http, tls), Ok(("a:1".to_owned(), is_https)), "{http}");
        }
        assert!(parse_address("http://a:1", true).is_err_and(|error| error.contains("https://")));
        for good in ["[::1]:1", "http://a", "https://[::1]/"] {
            assert!(parse_address(good, false).is_ok(), "{good}");
        }
        let wrong = [
            "redis://a:1",
            "",
            "a",
            "a:",
            "a:b",
            "a:65536",
            ":1",
            "a b:1",
            "http://",
            "https://:1",
            "http://a:b",
        ];
        for wrong in wrong {
            assert!(parse_address(wrong, false).is_err_and(|error| error.contains("HOST:PORT")), "{wrong}");
        }
    }

    #[test]
    fn figures_are_found_by_name_and_label() {
        let figures = Figures::read(
            "# HELP a_total A.\n# TYPE a_total counter\na_total 3\nb{server=\"x:1\"} 1\nb{server=\"y z\"} 0\n\
             c_sum{kind=\"send\",stage=\"sync\"} 0.5\nc_sum{kind=\"pop\",stage=\"sync\"} 0.25\n\
             c_sum{kind=\"pop\",upstage=\"sync\"} 1\n",
        );
        assert_eq!((figures.get("a_total"), figures.get("a")), (Some(3.0), None));
        assert_eq!(figures.by_label("b").collect::<Vec<_>>(), [("x:1", 1.0), ("y z", 0.0)]);
        assert!((figures.sum("c_sum", Some(("stage", "sync"))) - 0.75).abs() < 1e-9);
        assert!((figures.sum("c_sum", None) - 1.75).abs() < 1e-9);
    }
}
