//! A `traceparent` as W3C Trace Context (level 1) writes it: `00-TRACE-SPAN-FLAGS`, in lower-case base16.

/// A trace, and a span in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Id of the trace.
    pub trace: u128,
    /// Id of the span.
    pub span: u64,
}

impl Context {
    /// Reads a `traceparent`; None: it is malformed, or its trace is not recorded (the flag `sampled` is not set).
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.split('-');
        let version = number(parts.next()?, 2)?;
        let trace = number(parts.next()?, 32).filter(|trace| *trace != 0)?;
        let span = number(parts.next()?, 16).filter(|span| *span != 0)?;
        let flags = number(parts.next()?, 2)?;
        // Later versions may have further fields; version 0 may not.
        let is_known = version == 0 && parts.next().is_none() || (1..255).contains(&version);
        let sampled = flags & 1 == 1;
        (is_known && sampled).then_some(Self { trace, span: u64::try_from(span).ok()? })
    }

    /// Returns the trace's id in its usual form, base16.
    #[must_use]
    pub fn trace_name(&self) -> String {
        format!("{:032x}", self.trace)
    }
}

/// Reads a number of exactly `digits` digits in base16.
fn number(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (text.len() == digits && text.bytes().all(is_digit)).then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_standard_allows_is_read_and_nothing_else() {
        let known =
            Some(Context { trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, span: 0xb7ad_6b71_6920_3331 });
        for (text, context) in [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", known),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03", known),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", known),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", None),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
            ("00-0af7651916cd43dd8448eb211c80319-b7ad6b71692033310-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c", None),
            ("", None),
        ] {
            assert_eq!(Context::parse(text.as_bytes()), context, "{text}");
        }
        assert_eq!(Context::parse(b"\xff"), None);
    }
}
