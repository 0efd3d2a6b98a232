//! Explains the way of a key: which route, which pool, which servers, and what else happens.

use std::time::Duration;

use posthaste_wire::memcached::request::Verb;
use serde::Serialize;

use super::admin::{self, RouteInfo};
use super::layout::{RateLimit, Source};
use super::memcached_server::Server;
use super::router::shadows_key;
use super::rules::Writes;
use super::table::{Route, Table};
use super::verbs::Verbs;

/// All that becomes of a key.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The key as the client writes it.
    pub key: String,
    /// The command that asks for it.
    pub command: String,
    /// The key's route; none: the answer is an error.
    pub route: Option<RouteInfo>,
    /// The key as servers see it; none: there is no route, or servers cannot have such a key.
    pub server_key: Option<String>,
    /// The pool that takes the key now.
    pub pool: Option<String>,
    /// The servers of which one may be asked, or which are all written to.
    pub servers: Vec<String>,
    /// The whole explanation in sentences.
    pub sentences: Vec<String>,
}

/// Explains what becomes of a key with this command, `get` or `set` for example.
///
/// # Errors
/// There is no such command for keys.
pub fn explain(table: &Table, command: &str, key: &str) -> Result<Explanation, String> {
    let verb = Verbs::verb(command)
        .ok_or_else(|| format!("there is no command {command:?} for keys; try get, set or delete"))?;
    let mut explanation = Explanation {
        key: key.to_owned(),
        command: command.to_owned(),
        route: None,
        server_key: None,
        pool: None,
        servers: Vec::new(),
        sentences: Vec::new(),
    };
    if let Some(bytes) = table.settings.mock {
        let sentence = format!(
            "no server is asked: every request is answered at once, a get with values of {bytes} bytes"
        );
        explanation.sentences.push(sentence);
        return Ok(explanation);
    }
    if !verb.is_meta() && key.bytes().any(is_separator) {
        explanation.sentences.push(format!(
            "{key:?} is no key for {command}, since a blank or a control character is in it: a meta command can have it in base64"
        ));
        return Ok(explanation);
    }
    let Some(route) = table.route(verb, key.as_bytes()).map(|place| &table.routes[place]) else {
        explanation.sentences.push(format!("no route takes {command} {key}: the answer is an error"));
        return Ok(explanation);
    };
    explanation.route = Some(admin::route_info(table, route));
    let server_key = route.renaming.server_key(key.as_bytes());
    let server_key = String::from_utf8_lossy(&server_key);
    if !route.renaming.allows(key.len()) {
        explanation
            .sentences
            .push(format!("servers would see {server_key:?}, which is no key: the answer is an error"));
        return Ok(explanation);
    }
    explanation.server_key = Some(server_key.clone().into_owned());
    describe(table, route, verb, &server_key, &mut explanation);
    Ok(explanation)
}

/// Returns whether a byte ends a key in a command line, or is refused in one.
fn is_separator(byte: u8) -> bool {
    byte == b' ' || byte.is_ascii_control()
}

fn describe(table: &Table, route: &Route, verb: Verb, key: &str, explanation: &mut Explanation) {
    let own = &table.pools[route.pool];
    let stand_in = table.stand_in(route.pool, key.as_bytes());
    let pool = stand_in.map_or(route.pool, |other| other.pool);
    explanation.pool = Some(table.pools[pool].name.clone());
    let mut say = |sentence: String| explanation.sentences.push(sentence);
    let prefix = String::from_utf8_lossy(&route.prefix);
    let which =
        if prefix.is_empty() { "all keys".to_owned() } else { format!("keys that begin with {prefix}") };
    let seen = if route.renaming.is_identity() {
        String::new()
    } else {
        format!("; servers see the key as {key:?}")
    };
    say(format!("the route for {which} leads to pool {}{seen}", own.name));
    if let Some(RateLimit { per_second, burst }) = route.rate_limiter.as_ref().map(|limiter| limiter.limit) {
        say(format!("it takes at most {per_second} requests a second, {burst} at once; more are errors"));
    }
    if route.timeout_ns != table.timeout_ns {
        say(format!(
            "a request may take {:?}; then it is answered without",
            Duration::from_nanos(route.timeout_ns)
        ));
    }
    if stand_in.is_some() {
        say(format!("nobody there can take it now: pool {} stands in", table.pools[pool].name));
    }
    if let Some(expiry) = stand_in.and_then(|other| other.expiry_s) {
        say(format!("what is stored there lives at most {expiry} s"));
    }
    let (servers, sentence) = asked(table, pool, verb, key.as_bytes());
    say(sentence);
    explanation.servers = servers;
    explanation.sentences.extend(beside(table, route, verb, key));
    let elsewhere: Vec<&str> = own.deletes_to.iter().map(|other| &*table.pools[*other].name).collect();
    if verb.is_delete() && !elsewhere.is_empty() {
        explanation.sentences.push(format!("it is deleted in pool {} too", elsewhere.join(", in pool ")));
    }
}

/// Returns whether a read is only for the server that decides. (Of an `mg` that depends on its flags, which are not
/// known here.)
fn asks_decider(verb: Verb) -> bool {
    matches!(verb, Verb::Gets | Verb::Gats | Verb::MetaDebug)
}

/// The servers that a pool asks for a key, and why these.
fn asked(table: &Table, pool: usize, verb: Verb, key: &[u8]) -> (Vec<String>, String) {
    use Verb::{Add, Append, Cas, Decr, Incr, MetaArithmetic, Prepend, Replace};
    let (serving, mut servers) = (&table.pools[pool], Vec::new());
    let show = |server: &Server| format!("{} ({})", server.name(), server.health.state());
    let decider = show(table.decider(pool, key));
    if asks_decider(verb) {
        let why = if verb == Verb::MetaDebug { "" } else { ", whose tokens alone are good" };
        let sentence = format!("it is read from the server that decides{why}: {decider}");
        return (vec![decider], sentence);
    }
    if Verbs::is_read(verb) && serving.is_replicated() && !serving.reads_owner() {
        servers.extend(serving.members.iter().map(|member| show(&member.server)));
        let mut sentence =
            format!("one of its replicas is read ({}): {}", serving.rules.reads, servers.join(", "));
        let near: Vec<&str> = serving
            .members
            .iter()
            .filter(|member| member.is_near)
            .map(|member| member.server.name())
            .collect();
        if !near.is_empty() {
            sentence += &format!("; of our zone, and so before others: {}", near.join(", "));
        }
        return (servers, sentence);
    }
    if Verbs::is_read(verb) {
        servers.push(show(serving.owner_to_read(key)));
        let sentence = format!("it is read from {}", servers.join(", "));
        return (servers, sentence);
    }
    table.each_copy(pool, key, &mut |server| servers.push(show(server)));
    let names = servers.join(", ");
    let decides = matches!(verb, Add | Replace | Append | Prepend | Cas | Incr | Decr | MetaArithmetic);
    let sentence = match serving.rules.writes {
        _ if decides && servers.len() > 1 => format!("{decider} decides, and then all are told: {names}"),
        _ if servers.len() > 1 => {
            format!("it is written to {names}; answered by the rule {}", serving.rules.answer)
        }
        Writes::Owner => format!("it is written to its owner by {}: {names}", serving.rules.hash),
        Writes::All => format!("it is written to {names}"),
    };
    (servers, sentence)
}

/// Says what happens beside the answer.
fn beside(table: &Table, route: &Route, verb: Verb, key: &str) -> Vec<String> {
    let own = &table.pools[route.pool];
    let name = |pool: usize| &table.pools[pool].name;
    let mut sentences = Vec::new();
    match (own.source, verb) {
        (Some(source), Verb::Get | Verb::Gat | Verb::MetaGet) => {
            sentences
                .push(format!("a miss is looked up in pool {}, and filled from there", name(source.pool())));
        }
        // A touch leaves the old value where it is.
        (Some(Source::Old(old)), Verb::Touch) => {
            sentences.push(format!("its expiry is moved in pool {} too", name(old)))
        }
        (_, Verb::Touch) => {}
        (Some(Source::Old(old)), _) if !asks_decider(verb) => {
            sentences.push(format!("it is deleted in pool {}", name(old)))
        }
        _ => {}
    }
    let others: Vec<&str> = own.stand_ins.iter().map(|other| name(other.pool).as_str()).collect();
    if !others.is_empty() {
        let ejects = own.members.iter().all(|member| member.server.health.is_ejected_when_lost());
        let when =
            if ejects { "is away" } else { "is taken out (down; one that is lost is an error: --eject off)" };
        sentences
            .push(format!("when its server {when}, this takes over: pool {}", others.join(", then pool ")));
    }
    if let Some(shadow) = route.shadow {
        let is_in = shadows_key(shadow.share, key.as_bytes());
        let is_in = if is_in { "this one is among them" } else { "this one is not among them" };
        sentences.push(format!(
            "{} of the keys are repeated in pool {}: {is_in}",
            shadow.share,
            name(shadow.pool)
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::super::admin_state::AdminState;
    use super::super::fleet::Fleet;
    use super::super::layout::{Layout, MemberPlan, PoolPlan, StandInPlan};
    use super::super::rules::Rules;
    use super::*;
    use crate::cache::health::Ejection;

    fn said(table: &Table, command: &str) -> String {
        explain(table, command, "key").unwrap().sentences.join("; ")
    }

    #[test]
    fn replicas_are_all_written_and_one_of_them_is_read() {
        let members = (1..=3).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
        let table =
            Fleet::new(&Layout::of_one_pool(members, Rules::default()), Ejection::OnLoss).unwrap().table();
        table.servers[1].health.set_admin_state(AdminState::Drain);
        assert!(
            said(&table, "get").contains("one of its replicas") && said(&table, "get").contains("(draining)")
        );
        assert!(said(&table, "set").contains("the rule all"));
        assert!(said(&table, "incr").contains("decides, and then all are told"));
        assert_eq!(explain(&table, "gets", "key").unwrap().servers.len(), 1);
        assert!(explain(&table, "fetch", "key").is_err());
    }

    #[test]
    fn what_cannot_be_a_key_goes_nowhere() {
        let layout = Layout::of_one_pool(vec![MemberPlan::of("127.0.0.1:1")], Rules::default());
        let table = Fleet::new(&layout, Ejection::OnLoss).unwrap().table();
        for (command, key, is_key) in [
            ("get", "a b", false),
            ("set", "a\n", false),
            ("mg", "a b", true),
            ("get", "a\u{e9}", true),
            ("get", "", false),
        ] {
            let explanation = explain(&table, command, key).unwrap();
            assert_eq!(explanation.pool.is_some(), is_key, "{command} {key:?}: {:?}", explanation.sentences);
            assert!(is_key || explanation.sentences[0].contains("no key"), "{:?}", explanation.sentences);
        }
    }

    #[test]
    fn where_answers_are_fixed_no_route_is_missed() {
        let mut layout = Layout::default();
        layout.settings.mock = Some(7);
        let table = Fleet::new(&layout, Ejection::OnLoss).unwrap().table();
        assert!(said(&table, "get").contains("values of 7 bytes"), "{}", said(&table, "get"));
    }

    /// Three replicas, and a second pool of one server.
    fn with_second() -> Layout {
        let members = (1..=3).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
        let mut layout = Layout::of_one_pool(members, Rules::default());
        let second = vec![MemberPlan::of("127.0.0.1:4")];
        layout.pools.push(PoolPlan { name: "second".into(), members: second, ..PoolPlan::default() });
        layout
    }

    #[test]
    fn what_only_one_server_can_answer_is_asked_of_it_and_looked_up_nowhere() {
        for source in [Source::Below(1), Source::Old(1)] {
            let mut layout = with_second();
            layout.pools[0].source = Some(source);
            let table = Fleet::new(&layout, Ejection::OnLoss).unwrap().table();
            for command in ["get", "gat", "mg"] {
                assert!(said(&table, command).contains("a miss is looked up in pool second"), "{command}");
            }
            for command in ["gets", "gats", "me"] {
                let said = said(&table, command);
                assert!(said.contains("the server that decides") && !said.contains("pool second"), "{said}");
                assert_eq!(explain(&table, command, "key").unwrap().servers.len(), 1);
            }
            let deletes = ["set", "touch"].map(|command| said(&table, command).contains("it is deleted in"));
            assert_eq!(deletes, [source == Source::Old(1), false]);
            let is_told = said(&table, "touch").contains("its expiry is moved in pool second too");
            assert_eq!(is_told, source == Source::Old(1));
        }
    }

    #[test]
    fn who_stands_in_is_told_for_what_it_does() {
        let mut layout = with_second();
        layout.pools[0].stand_ins = vec![StandInPlan { pool: 1, expiry: None }];
        for (ejection, when) in
            [(Ejection::OnLoss, "is away, this"), (Ejection::Never, "is taken out (down; one that is lost")]
        {
            let table = Fleet::new(&layout, ejection).unwrap().table();
            assert!(said(&table, "get").contains(when), "{}", said(&table, "get"));
        }
    }

    #[test]
    fn a_server_that_is_to_be_spared_still_decides() {
        let mut layout = with_second();
        layout.pools[0].stand_ins = vec![StandInPlan { pool: 1, expiry: None }];
        let table = Fleet::new(&layout, Ejection::OnLoss).unwrap().table();
        (0..3).for_each(|server| table.servers[server].health.set_admin_state(AdminState::Drain));
        for command in ["gets", "gats", "me"] {
            assert_eq!(
                explain(&table, command, "key").unwrap().pool.as_deref(),
                Some("default"),
                "{command}"
            );
        }
    }
}
