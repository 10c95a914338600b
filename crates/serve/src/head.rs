//! Heads of HTTP/1 requests: which of them the server reads itself, and what it needs of them. Decides, reads nothing.

/// Headers whose text is needed.
const KEPT: [&str; 5] = ["traceparent", "x-request-id", "accept-encoding", "authorization", "x-api-key"];
/// Places of some of them.
pub(crate) const TRACEPARENT: usize = 0;
pub(crate) const REQUEST_ID: usize = 1;
pub(crate) const ACCEPT_ENCODING: usize = 2;

/// Headers at most; hyper refuses more.
pub(crate) const HEADERS_MAX: usize = 64;
/// Bytes of a head at most; longer ones are hyper's.
const HEAD_MAX: usize = 8 << 10;

/// A part of the bytes of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    start: u16,
    end: u16,
}

impl Place {
    /// Where a part of some bytes lies.
    fn new(all: &[u8], part: &[u8]) -> Option<Place> {
        let start = part.as_ptr().addr() - all.as_ptr().addr();
        Some(Place { start: start.try_into().ok()?, end: (start + part.len()).try_into().ok()? })
    }
    /// The part.
    pub fn of(self, all: &[u8]) -> &[u8] {
        all.get(usize::from(self.start)..usize::from(self.end)).unwrap_or_default()
    }
    /// The part as text.
    pub fn text(self, all: &[u8]) -> &str {
        std::str::from_utf8(self.of(all)).unwrap_or_default()
    }
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Any path, without a body.
    Get,
    /// Inference by a model, perhaps of a stated version.
    Infer { name: Place, version: Option<Place> },
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub len: usize,
    pub target: Target,
    pub path: Place,
    /// Bytes of the body.
    pub content_length: usize,
    /// Bytes of JSON before the tensors.
    pub json_length: Option<usize>,
    /// Whether the connection stays open.
    pub is_kept: bool,
    kept: [Option<Place>; KEPT.len()],
}

/// What bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// More must be read.
    Partial,
    /// Something that hyper handles: another protocol, method or framing, or a mistake.
    Other,
    /// A request that the server handles itself.
    Request(Head),
}

impl Head {
    /// A header as text.
    pub fn text<'a>(&self, bytes: &'a [u8], header: usize) -> Option<&'a str> {
        std::str::from_utf8(self.raw(bytes, header)?).ok()
    }
    /// A header as it was sent.
    pub fn raw<'a>(&self, bytes: &'a [u8], header: usize) -> Option<&'a [u8]> {
        Some(self.kept[header]?.of(bytes))
    }
    /// A header by its name in lower case.
    pub fn named<'a>(&self, bytes: &'a [u8], name: &str) -> Option<&'a str> {
        self.text(bytes, KEPT.iter().position(|kept| *kept == name)?)
    }
    /// The pattern of the path, as the routes have it.
    pub fn route(&self) -> &'static str {
        match self.target {
            Target::Infer { version: Some(_), .. } => "/v2/models/{name}/versions/{version}/infer",
            Target::Infer { .. } => "/v2/models/{name}/infer",
            Target::Get => "",
        }
    }
}

/// A number as the length of a body is written: digits alone.
fn digits(text: &[u8]) -> Option<usize> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Whether this can be the header `Host`: a name or an address, perhaps with a port; it may be empty.
pub(crate) fn is_host(value: &[u8]) -> bool {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:[]".contains(b);
    value.iter().all(is_plain)
}

/// The model and version of a path for inference. Escaped names are left to the routes.
fn infer(path: &str) -> Option<(&str, Option<&str>)> {
    let middle = path.strip_prefix("/v2/models/")?.strip_suffix("/infer")?;
    let is_plain = |s: &str| !s.is_empty() && !s.contains(['/', '%', '?', '#']);
    match middle.split_once("/versions/") {
        None => is_plain(middle).then_some((middle, None)),
        Some((name, version)) => (is_plain(name) && is_plain(version)).then_some((name, Some(version))),
    }
}

/// What these bytes begin with. Requests that are framed in any but the plainest way are left to hyper.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut slots);
    let len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_MAX => len,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_MAX => return Parsed::Partial,
        _ => return Parsed::Other,
    };
    head(bytes, len, &request).map_or(Parsed::Other, Parsed::Request)
}

fn head(bytes: &[u8], len: usize, request: &httparse::Request) -> Option<Head> {
    let (method, path) = (request.method?, request.path.filter(|p| p.starts_with('/'))?);
    let target = match (method, infer(path)) {
        ("GET", _) => Target::Get,
        ("POST", Some((name, version))) => {
            let place = |text: &str| Place::new(bytes, text.as_bytes());
            let version = match version {
                Some(version) => Some(place(version)?),
                None => None,
            };
            Target::Infer { name: place(name)?, version }
        }
        _ => return None,
    };
    let (mut content_length, mut json_length, mut is_kept, mut hosts) = (None, None, true, 0);
    let mut kept = [None; KEPT.len()];
    for header in request.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if let Some(i) = KEPT.iter().position(|name| is(name)) {
            // Which of two counts is for hyper to say.
            if kept[i].replace(Place::new(bytes, header.value)?).is_some() {
                return None;
            }
        } else if is("content-length") {
            if content_length.replace(digits(header.value)?).is_some() {
                return None;
            }
        } else if is(crate::http::JSON_LENGTH) {
            if json_length.replace(digits(header.value)?).is_some() {
                return None;
            }
        } else if is("host") {
            hosts += 1;
            if !is_host(header.value) {
                return None;
            }
        } else if is("connection") {
            is_kept = match header.value {
                v if v.eq_ignore_ascii_case(b"keep-alive") => is_kept,
                v if v.eq_ignore_ascii_case(b"close") => false,
                _ => return None,
            };
        } else if ["transfer-encoding", "content-encoding", "expect", "upgrade", "trailer", "te"].into_iter().any(is) {
            return None;
        }
    }
    let is_framed = match target {
        Target::Get => content_length.unwrap_or(0) == 0,
        Target::Infer { .. } => content_length.is_some() && json_length <= content_length,
    };
    // Without one host the routes refuse it.
    let is_current = request.version == Some(1) && hosts == 1;
    let (content_length, path) = (content_length.unwrap_or(0), Place::new(bytes, path.as_bytes())?);
    (is_framed && is_current).then_some(Head { len, target, path, content_length, json_length, is_kept, kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Head> {
        if let Parsed::Request(head) = parse(text.as_bytes()) { Some(head) } else { None }
    }

    #[test]
    fn plain_requests_for_inference_are_taken() {
        let text = "POST /v2/models/a.b/versions/3/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\
                    INFERENCE-header-content-length: 5\r\nX-Request-Id: é7\r\nconnection: Keep-Alive\r\n\r\nbody";
        let head = parsed(text).unwrap();
        let Target::Infer { name, version } = &head.target else { panic!("{head:?}") };
        let all = text.as_bytes();
        assert_eq!((name.text(all), version.unwrap().text(all)), ("a.b", "3"));
        assert_eq!((head.content_length, head.json_length, head.is_kept), (12, Some(5), true));
        assert_eq!(head.text(text.as_bytes(), REQUEST_ID), Some("é7"));
        assert_eq!(head.named(text.as_bytes(), "authorization"), None);
        assert_eq!(&text[head.len..], "body");
        let closing = parsed("GET /v2/models/m?x=1 HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n").unwrap();
        assert_eq!((closing.target, closing.is_kept), (Target::Get, false));
        let cut: Vec<bool> = (0..head.len).map(|n| parse(&text.as_bytes()[..n]) == Parsed::Partial).collect();
        assert!(cut.iter().all(|is_partial| *is_partial));
    }

    /// Whatever could be read in two ways goes to hyper, which decides.
    #[test]
    fn other_framing_is_left_to_hyper() {
        let post = |path: &str, headers: &str| format!("POST {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        let length = "content-length: 4\r\n";
        assert!(parsed(&post("/v2/models/m/infer", length)).is_some());
        for path in ["/v2/models/a%2Fb/infer", "/v2/models//infer", "/v2/models/m/infer?x", "/v2/models/m/config", "*"]
        {
            assert_eq!(parse(post(path, length).as_bytes()), Parsed::Other, "{path}");
        }
        for path in ["/v2/models/a/b/infer", "http://x/v2/models/m/infer", "/v2/models/m/versions//infer"] {
            assert_eq!(parse(post(path, length).as_bytes()), Parsed::Other, "{path}");
        }
        for extra in [
            "content-length: 4\r\n",
            "content-length: 5\r\n",
            "transfer-encoding: chunked\r\n",
            "Transfer-Encoding : chunked\r\n",
            "content-encoding: gzip\r\n",
            "expect: 100-continue\r\n",
            "upgrade: h2c\r\n",
            "connection: upgrade\r\n",
            "connection: close, te\r\n",
            "inference-header-content-length: 5\r\n",
            "inference-header-content-length: x\r\n",
            "authorization: a\r\nauthorization: b\r\n",
            " folded: 1\r\n",
            "Host: x\r\n",
        ] {
            assert_eq!(
                parse(post("/v2/models/m/infer", &format!("{length}{extra}")).as_bytes()),
                Parsed::Other,
                "{extra}"
            );
        }
        for bad in ["content-length: +4\r\n", "content-length: 4, 4\r\n", "content-length: \r\n", ""] {
            assert_eq!(parse(post("/v2/models/m/infer", bad).as_bytes()), Parsed::Other, "{bad}");
        }
        assert_eq!(parse(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Parsed::Other);
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Parsed::Other, "no host");
        assert_eq!(parse(b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n"), Parsed::Other);
        assert_eq!(parse(b"GET / HTTP/1.0\r\nhost: x\r\n\r\n"), Parsed::Other);
        assert_eq!(parse(b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n"), Parsed::Other);
        assert_eq!(parse(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n"), Parsed::Other);
        assert_eq!(parse(b"\x16\x03\x01\x02"), Parsed::Other, "TLS where none is spoken");
        assert_eq!(parse(format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(HEAD_MAX)).as_bytes()), Parsed::Other);
    }
}
