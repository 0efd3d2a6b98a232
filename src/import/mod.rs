//! `posthaste cache --import FILE`: translates configurations of mcrouter (JSON) and twemproxy (YAML) into ours.
//!
//! Everything without a counterpart is reported, one line each, above the file and on stderr. Nothing is left
//! out in silence, above all nothing that would make keys move.

mod mcrouter;
#[cfg(test)]
mod tests;
mod twemproxy;
mod yaml;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use posthaste_load::stderr::complain;

use crate::config::{self, Misuse};
use crate::placed::one_line;
use crate::pools::{self, Defaults, Names};
use crate::stdout::say;

/// Shortest timeout of servers that a file of ours may have, in milliseconds.
const TIMEOUT_MS_MIN: u64 = 10;

/// A pool to be written.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pool {
    name: String,
    servers: Vec<Server>,
    /// Further fields and their TOML.
    fields: Vec<(&'static str, String)>,
    /// Fields that name other pools, and these.
    links: Vec<(&'static str, Vec<String>)>,
    timeouts: Timeouts,
}

/// Timeouts of a pool's servers in milliseconds, as far as its file has them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Timeouts {
    answer: Option<u64>,
    connect: Option<u64>,
}

/// A server of a pool.
#[derive(Clone, Debug, PartialEq)]
struct Server {
    address: String,
    name: Option<String>,
    weight: Option<u32>,
}

/// A route to be written.
#[derive(Clone, Debug, Default, PartialEq)]
struct Route {
    prefix: String,
    commands: Vec<String>,
    pool: String,
    shadow: Option<(String, f64)>,
}

/// The translation of a file.
#[derive(Debug, Default)]
struct Import {
    /// Fields of `[cache]` and their TOML.
    options: Vec<(&'static str, String)>,
    pools: Vec<Pool>,
    routes: Vec<Route>,
    /// What has no counterpart, one line each.
    left_out: Vec<String>,
}

/// Translates a file and writes ours to stdout. `pool` chooses one of several.
pub(crate) fn run(path: &Path, pool: Option<&str>) -> Result<(), Box<dyn Error>> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| Misuse(format!("cannot read {shown}: {error}")))?;
    let (toml, left_out) = translate(&text, pool, &shown.to_string()).map_err(Misuse)?;
    for what in &left_out {
        complain(format_args!("left out: {what}"));
    }
    say(&toml)
}

/// Translates the text of a file, named `shown`; returns our file and what was left out. Our file is checked
/// by reading it, without resolving names, as the servers may be known only where it will be used.
///
/// # Errors
/// What cannot be translated, in one line.
pub(crate) fn translate(
    text: &str,
    pool: Option<&str>,
    shown: &str,
) -> Result<(String, Vec<String>), String> {
    let import = read(text, pool).map_err(|error| format!("{shown}: {}", one_line(&error)))?;
    let toml = import.toml(shown);
    config::check(&toml)
        .and_then(|()| pools::layout(&toml, Vec::new(), &Defaults::default(), Names::Believed).map(drop))
        .map_err(|wrong| wrong.with_line(format_args!("{shown}, translated"), &toml))?;
    Ok((toml, import.left_out))
}

fn read(text: &str, pool: Option<&str>) -> Result<Import, String> {
    // Some editors write a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    let bare = mcrouter::strict_json(text);
    match (bare.trim_start().starts_with('{'), pool) {
        (false, _) => twemproxy::read(text, pool),
        (true, None) => mcrouter::read(&bare),
        (true, Some(_)) => {
            Err("--pool is for a file of twemproxy; of one of mcrouter all pools are translated".into())
        }
    }
}

impl Import {
    fn leave_out(&mut self, what: impl Into<String>) {
        let what = one_line(&what.into());
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }

    fn toml(&self, from: &str) -> String {
        let mut text = format!("# Translated from {}.\n", one_line(from));
        for what in &self.left_out {
            let _ = writeln!(text, "# Left out: {what}");
        }
        text += "\n[cache]\n";
        fields(&mut text, &self.options);
        for pool in &self.pools {
            let _ = writeln!(text, "\n[cache.pools.{}]", quoted(&pool.name));
            text += "servers = [\n";
            for server in &pool.servers {
                let _ = writeln!(text, "    {},", server.toml());
            }
            text += "]\n";
            fields(&mut text, &pool.fields);
            fields(&mut text, &pool.links());
            fields(&mut text, &pool.timeouts.fields());
        }
        for route in &self.routes {
            text += "\n[[cache.routes]]\n";
            if !route.prefix.is_empty() {
                let _ = writeln!(text, "prefix = {}", quoted(&route.prefix));
            }
            if !route.commands.is_empty() {
                let words: Vec<String> = route.commands.iter().map(|word| quoted(word)).collect();
                let _ = writeln!(text, "commands = [{}]", words.join(", "));
            }
            let _ = writeln!(text, "pool = {}", quoted(&route.pool));
            if let Some((pool, share)) = &route.shadow {
                let _ = writeln!(text, "shadow = {}\nshadow-share = {share}", quoted(pool));
            }
        }
        text
    }
}

impl Pool {
    /// Returns the fields that name other pools, and their TOML.
    fn links(&self) -> Vec<(&'static str, String)> {
        let names = |pools: &[String]| pools.iter().map(|pool| quoted(pool)).collect::<Vec<_>>().join(", ");
        let toml = |field, pools: &[String]| match field {
            "failover" | "deletes-to" => format!("[{}]", names(pools)),
            _ => names(pools),
        };
        self.links.iter().map(|(field, pools)| (*field, toml(field, pools))).collect()
    }
}

impl Timeouts {
    /// Returns the timeouts in force: 1 s is the default, here and in mcrouter.
    fn in_force(self) -> (u64, u64) {
        let answer = self.answer.unwrap_or(1000);
        (answer, self.connect.or(self.answer).unwrap_or(1000))
    }

    fn equals(self, other: Self) -> bool {
        self.in_force() == other.in_force()
    }

    /// Returns the longer of each two timeouts.
    fn longest(self, other: Self) -> Self {
        if self.equals(other) {
            return self;
        }
        let ((answer, connect), (answer_too, connect_too)) = (self.in_force(), other.in_force());
        Self { answer: Some(answer.max(answer_too)), connect: Some(connect.max(connect_too)) }
    }

    fn fields(self) -> Vec<(&'static str, String)> {
        let field = |name, ms: Option<u64>| ms.map(|ms| (name, quoted(&format!("{ms}ms"))));
        let timeouts = [field("server-timeout", self.answer), field("connect-timeout", self.connect)];
        timeouts.into_iter().flatten().collect()
    }
}

impl Server {
    fn toml(&self) -> String {
        if self.name.is_none() && self.weight.is_none() {
            return quoted(&self.address);
        }
        let mut text = format!("{{ address = {}", quoted(&self.address));
        if let Some(name) = &self.name {
            let _ = write!(text, ", name = {}", quoted(name));
        }
        if let Some(weight) = self.weight {
            let _ = write!(text, ", weight = {weight}");
        }
        text + " }"
    }
}

fn fields(text: &mut String, fields: &[(&str, String)]) {
    for (name, value) in fields {
        let _ = writeln!(text, "{name} = {value}");
    }
}

/// Returns a text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
